// The embedded search as an agent: the ledger becomes trials, a proposal becomes one tool call.
#include <nlohmann/json.hpp>

#include "agent/agent.h"
#include "base/json.h"

namespace marathon {

namespace {

constexpr std::string_view search_version = "1";  // a new one proposes other configurations

// An attempt whose evaluation has not ended says nothing yet and is proposed again: the run answers
// a candidate that it knows from the log.
std::vector<Trial> trials_of(const State& state) {
  std::vector<Trial> trials;
  for (const Attempt& attempt : state.attempts) {
    if (!attempt.verdict || attempt.configuration.empty()) continue;
    const bool measured = is_measured(*attempt.verdict) && attempt.speedup.value > 0;
    const double width = attempt.speedup.high - attempt.speedup.low;
    trials.push_back({.configuration = attempt.configuration,
                      .score = measured ? attempt.speedup.value : 0,
                      .uncertainty = measured ? width / 2 / attempt.speedup.value : 0,
                      .failed = !measured,
                      .number = attempt.number});
  }
  return trials;
}

Turn turn_of(const Proposal& proposal, int64_t number) {
  Json configuration = Json::object();
  for (const auto& [name, value] : proposal.configuration) configuration[name] = value;
  const Json arguments = {{"configuration", std::move(configuration)},
                          {"hypothesis", proposal.hypothesis},
                          {"category", proposal.category}};
  Turn turn;
  turn.text = proposal.hypothesis;
  turn.calls.push_back({"search-" + std::to_string(number), "evaluate", dump_json(arguments)});
  return turn;
}

class SearchProvider : public Provider {
 public:
  Result<Turn> next(const Context& context, std::stop_token stop) override {
    if (stop.stop_requested()) return fail(Fault::cancelled, "the search was stopped");
    // The run's budget may differ from the task's; the design is sized by it.
    Task task = context.task;
    task.budget = context.state.budget;
    const uint64_t seed = context.state.start ? context.state.start->seed : 1;
    const std::optional<Proposal> proposal = propose(task, seed, trials_of(context.state));
    if (proposal) return turn_of(*proposal, context.state.spent.turns + 1);
    Turn turn;
    turn.text = "Every valid configuration has been tried.";
    turn.exhausted = true;
    return turn;
  }
  std::string name() const override { return "search"; }
  std::string detail() const override { return "version " + std::string(search_version); }
};

}  // namespace

std::unique_ptr<Provider> make_search_provider() { return std::make_unique<SearchProvider>(); }

}  // namespace marathon
