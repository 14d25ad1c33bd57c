#include "agent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "agent/landscape.h"
#include "base/file.h"
#include "base/json.h"

namespace marathon {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// As the run does it: propose, measure (with 1 % noise), remember.
std::vector<Trial> search(const Landscape& land, uint64_t seed, int64_t evaluations) {
  std::vector<Trial> history;
  Random noise(seed, "noise");
  while (std::ssize(history) < evaluations) {
    const std::optional<Proposal> proposal = propose(land.task, seed, history);
    if (!proposal) break;
    const std::map<Configuration, double>::const_iterator at =
        land.score.find(proposal->configuration);
    if (at == land.score.end()) {
      ADD_FAILURE() << "an invalid configuration: "
                    << to_params_toml(land.task, proposal->configuration);
      break;
    }
    const bool failed = at->second == 0;
    history.push_back({.configuration = at->first,
                       .score = failed ? 0 : at->second * std::exp(0.01 * noise.normal()),
                       .uncertainty = 0.02,
                       .failed = failed});
  }
  return history;
}

double best_of(const Landscape& land, const std::vector<Trial>& history) {
  double best = 0;
  for (const Trial& trial : history) best = std::max(best, land.score.at(trial.configuration));
  return best;
}

// Expected best of n draws without replacement: exact, from the order statistics.
double random_best(const Landscape& land, int64_t n) {
  std::vector<double> values;
  for (const auto& [configuration, score] : land.score) values.push_back(score);
  std::ranges::sort(values);
  double expectation = 0, below = 0;
  for (int64_t k = n - 1; k < std::ssize(values); ++k) {
    double up_to = 1;  // chance that all n draws are among the k + 1 smallest
    for (int64_t i = 0; i < n; ++i) {
      up_to *= static_cast<double>(k + 1 - i) / static_cast<double>(std::ssize(values) - i);
    }
    expectation += values[static_cast<size_t>(k)] * (up_to - below);
    below = up_to;
  }
  return expectation;
}

double optimum_of(const Landscape& land) {
  double best = 0;
  for (const auto& [configuration, score] : land.score) best = std::max(best, score);
  return best;
}

const std::vector<int64_t> plain_sizes = {4, 4, 4, 3, 3, 3};     // 1,728 configurations
const std::vector<int64_t> gated_sizes = {2, 4, 5, 4, 3, 3, 2};  // 1,440, of which 79 % are valid

TEST(Search, StartsWithTheStartingSolution) {
  const Landscape land = make_landscape(1, plain_sizes, false);
  const std::optional<Proposal> first = propose(land.task, 7, {});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->configuration, start_configuration(land.task));
  EXPECT_EQ(first->category, "start");
}

TEST(Search, IsAFunctionOfSeedAndHistory) {
  const Landscape land = make_landscape(2, gated_sizes, true);
  const std::vector<Trial> history = search(land, 5, 40);
  for (size_t n = 0; n < history.size(); ++n) {
    const std::vector<Trial> until(history.begin(), history.begin() + static_cast<int64_t>(n));
    EXPECT_EQ(propose(land.task, 5, until)->configuration, history[n].configuration) << n;
  }
  const std::vector<Trial> other = search(land, 6, 40);
  int64_t same = 0;
  for (size_t n = 0; n < 40; ++n) same += history[n].configuration == other[n].configuration;
  EXPECT_LT(same, 20) << "another seed gives another search";
}

TEST(Search, NeverRepeatsAndUsesTheWholeBudget) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Landscape land = make_landscape(seed, gated_sizes, true);
    const std::vector<Trial> history = search(land, seed, 200);
    std::set<Configuration> seen;
    for (const Trial& trial : history) seen.insert(trial.configuration);
    EXPECT_EQ(seen.size(), 200u);
  }
}

TEST(Search, EndsOnlyWhenEveryValidConfigurationWasTried) {
  const Landscape land = make_landscape(3, {2, 3, 3, 2}, true);
  const std::vector<Trial> history = search(land, 1, 1000);
  EXPECT_EQ(history.size(), land.score.size());
  EXPECT_FALSE(propose(land.task, 1, history));
}

TEST(Search, WithoutParametersThereIsOneProposal) {
  const Task task;
  const std::optional<Proposal> only = propose(task, 1, {});
  ASSERT_TRUE(only);
  EXPECT_TRUE(only->configuration.empty());
  EXPECT_FALSE(propose(task, 1, {Trial{.configuration = {}, .score = 1}}));
}

TEST(Search, TheDesignSeesTheValuesOfEachParameterEvenly) {
  Landscape land = make_landscape(4, {4, 4, 4, 4}, false);
  land.task.budget.evaluations = 64;
  std::vector<std::map<int64_t, int64_t>> counts(4);
  std::vector<Trial> history = search(land, 9, 5);
  for (size_t n = 1; n < 5; ++n) {
    for (size_t i = 0; i < 4; ++i)
      ++counts[i][history[n].configuration.at("P" + std::to_string(i))];
  }
  for (const std::map<int64_t, int64_t>& count : counts) EXPECT_EQ(count.size(), 4u);
}

TEST(Search, AvoidsAValueThatAlwaysFails) {
  const Landscape land = make_landscape(5, plain_sizes, false);
  std::vector<Trial> history;
  int64_t late_failures = 0;
  for (int64_t n = 0; n < 60; ++n) {
    const Configuration configuration = propose(land.task, 3, history)->configuration;
    const bool failed = configuration.at("P1") == 4;
    late_failures += failed && n >= 25;
    const double score = std::max(land.score.at(configuration), 0.1);
    history.push_back(
        {.configuration = configuration, .score = failed ? 0 : score, .failed = failed});
  }
  EXPECT_LE(late_failures, 2);
}

TEST(Search, GoesOnWhenEverythingFails) {
  const Landscape land = make_landscape(6, {2, 3, 3, 2}, false);
  std::vector<Trial> history;
  while (const std::optional<Proposal> proposal = propose(land.task, 3, history)) {
    history.push_back({.configuration = proposal->configuration, .failed = true});
    ASSERT_LE(history.size(), land.score.size());
  }
  EXPECT_EQ(history.size(), land.score.size());
}

TEST(Search, BearsStrangeFigures) {
  const Landscape land = make_landscape(7, plain_sizes, false);
  std::vector<Trial> history = search(land, 1, 20);
  history[3].score = std::numeric_limits<double>::quiet_NaN();
  history[4].score = std::numeric_limits<double>::infinity();
  history[5].score = -1;
  history[6].uncertainty = std::numeric_limits<double>::quiet_NaN();
  history[7].configuration["P0"] = 77;  // of an older version of the task
  history.push_back(history[8]);        // measured twice
  for (Trial& trial : history) trial.score = trial.score > 0 ? 1.0 : trial.score;
  for (int64_t n = 0; n < 20; ++n) {
    const std::optional<Proposal> proposal = propose(land.task, 1, history);
    ASSERT_TRUE(proposal);
    history.push_back({.configuration = proposal->configuration, .score = 1});
  }
}

TEST(Search, SaysWhatItChangesAndWhy) {
  const Landscape land = make_landscape(8, plain_sizes, false);
  std::vector<Trial> history = search(land, 1, 30);
  for (size_t i = 0; i < history.size(); ++i) history[i].number = static_cast<int64_t>(i) + 101;
  const std::optional<Proposal> proposal = propose(land.task, 1, history);
  EXPECT_THAT(proposal->hypothesis, HasSubstr(" → "));
  EXPECT_THAT(proposal->hypothesis, HasSubstr(" from #1"));
  EXPECT_THAT(proposal->hypothesis, HasSubstr("×), expects "));
  EXPECT_FALSE(proposal->category.empty());
}

// Constraints that leave 1 of 4,096 configurations beside the start: the arms cannot meet it by
// chance, the walk must.
TEST(Search, FindsTheOnlyOtherValidConfiguration) {
  Task task;
  std::string sum = "0";
  for (int i = 0; i < 12; ++i) {
    const std::string name = "P" + std::to_string(i);
    task.parameters.push_back({name, Parameter::Kind::define, {0, 1}, {}, 0, "", ""});
    sum += " + " + name;
  }
  task.constraints.push_back(*Expression::parse(sum + " == 0 || " + sum + " == 12"));
  const std::optional<Proposal> second =
      propose(task, 1, {Trial{.configuration = start_configuration(task), .score = 1}});
  ASSERT_TRUE(second);
  EXPECT_EQ(second->configuration.at("P7"), 1);
  EXPECT_FALSE(propose(task, 1,
                       {Trial{.configuration = start_configuration(task), .score = 1},
                        Trial{.configuration = second->configuration, .score = 2}}));
}

// After 30 of about 1,500 configurations: how much of what random search leaves to the optimum is
// won. 0 is random search, 1 the optimum. 30 seeds on 6 landscapes of each kind.
double share_won(bool gated) {
  double share = 0;
  int64_t runs = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Landscape land = make_landscape(100 + seed % 6, gated ? gated_sizes : plain_sizes, gated);
    const double random = random_best(land, 30);
    share += (best_of(land, search(land, seed, 30)) - random) / (optimum_of(land) - random);
    ++runs;
  }
  return share / static_cast<double>(runs);
}

TEST(Search, BeatsRandomSearchOnPlainLandscapes) { EXPECT_GT(share_won(false), 0.7); }
TEST(Search, BeatsRandomSearchOnGatedLandscapes) { EXPECT_GT(share_won(true), 0.6); }

TEST(Search, ProposesWhatIsNewAndValidAfter300Trials) {
  const Landscape land = make_landscape(9, {4, 4, 6, 3, 2, 2, 4, 3, 3, 2}, true);
  const std::vector<Trial> history = search(land, 1, 300);
  ASSERT_EQ(history.size(), 300u);
  const std::optional<Proposal> next = propose(land.task, 1, history);
  ASSERT_TRUE(next);
  EXPECT_TRUE(is_valid(land.task, next->configuration));
  for (const Trial& trial : history) EXPECT_NE(trial.configuration, next->configuration);
}

State state_with(const std::vector<Attempt>& attempts) {
  State state;
  state.start = RunStarted{};
  state.start->seed = 11;
  state.attempts = attempts;
  return state;
}

Attempt attempt_of(const Configuration& configuration, std::optional<VerdictKind> verdict,
                   double speedup) {
  Attempt attempt;
  attempt.configuration = configuration;
  attempt.verdict = verdict;
  attempt.speedup = {speedup, 0.98 * speedup, 1.02 * speedup};
  return attempt;
}

Json arguments_of(const Turn& turn) { return parse_json(turn.calls.at(0).arguments).value(); }

Configuration configuration_of(const Turn& turn) {
  return arguments_of(turn)["configuration"].get<Configuration>();
}

TEST(SearchProvider, AnswersOneEvaluateCall) {
  const Landscape land = make_landscape(1, plain_sizes, false);
  const std::unique_ptr<Provider> provider = make_search_provider();
  EXPECT_EQ(provider->name(), "search");
  const Turn turn = provider->next({land.task, state_with({})}, {}).value();
  ASSERT_EQ(turn.calls.size(), 1u);
  EXPECT_EQ(turn.calls[0].name, "evaluate");
  EXPECT_FALSE(turn.calls[0].id.empty());
  EXPECT_FALSE(turn.exhausted);
  EXPECT_EQ(configuration_of(turn), start_configuration(land.task));
  EXPECT_THAT(json_string(arguments_of(turn), "hypothesis"), StartsWith("start"));
  EXPECT_EQ(json_string(arguments_of(turn), "category"), "start");
}

TEST(SearchProvider, LearnsFromTheLedgerAndIgnoresWhatIsOpen) {
  const Landscape land = make_landscape(1, plain_sizes, false);
  const std::unique_ptr<Provider> provider = make_search_provider();
  const Configuration start = start_configuration(land.task);
  const State open = state_with({attempt_of(start, std::nullopt, 0)});
  EXPECT_EQ(configuration_of(provider->next({land.task, open}, {}).value()), start);
  const State judged = state_with({attempt_of(start, VerdictKind::faster, 1.2)});
  EXPECT_NE(configuration_of(provider->next({land.task, judged}, {}).value()), start);
}

TEST(SearchProvider, IsExhaustedWhenEverythingWasTried) {
  const Landscape land = make_landscape(3, {2, 2, 2}, false);
  std::vector<Attempt> attempts;
  for (const auto& [configuration, score] : land.score) {
    const bool failed = score == 0;
    attempts.push_back(
        attempt_of(configuration, failed ? VerdictKind::wrong : VerdictKind::slower, score));
  }
  const Turn turn = make_search_provider()->next({land.task, state_with(attempts)}, {}).value();
  EXPECT_TRUE(turn.exhausted);
  EXPECT_TRUE(turn.calls.empty());
}

TEST(SearchProvider, StopsWhenAsked) {
  const Landscape land = make_landscape(3, {2, 2, 2}, false);
  std::stop_source stop;
  stop.request_stop();
  const Result<Turn> turn =
      make_search_provider()->next({land.task, state_with({})}, stop.get_token());
  ASSERT_FALSE(turn);
  EXPECT_EQ(turn.error().fault, Fault::cancelled);
}

class Scripted : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Provider>> script(std::string_view text) {
    EXPECT_TRUE(write_file(folder_.path() / "script.jsonl", text));
    return make_scripted_provider(folder_.path() / "script.jsonl");
  }
  static Turn turn_after(Provider& provider, int64_t turns) {
    const Task task;
    State state;
    state.spent.turns = turns;
    return provider.next({task, state}, {}).value();
  }
  std::string error_of(std::string_view text) {
    const Result<std::unique_ptr<Provider>> provider = script(text);
    if (provider) return "no error";
    EXPECT_EQ(provider.error().fault, Fault::invalid);
    return provider.error().what;
  }
  TempFolder folder_ = TempFolder::make("scripted").value();
};

TEST_F(Scripted, LineNAnswersTurnN) {
  const std::unique_ptr<Provider> provider =
      script(
          "{\"text\": \"one\", \"calls\": [{\"name\": \"evaluate\", \"arguments\": {\"b\": 1, "
          "\"a\": \"é\"}}]}\n"
          "{\"text\": \"two\", \"calls\": [{\"name\": \"read\"}, {\"name\": \"write\", "
          "\"arguments\": {}}], \"input_tokens\": 5}\n")
          .value();
  EXPECT_EQ(provider->name(), "scripted");
  EXPECT_EQ(provider->detail().size(), 64u);
  const Turn second = turn_after(*provider, 1);
  EXPECT_EQ(second.text, "two");
  EXPECT_EQ(second.input_tokens, 5);
  ASSERT_EQ(second.calls.size(), 2u);
  EXPECT_EQ(second.calls[0].name, "read");
  EXPECT_EQ(second.calls[0].arguments, "{}");
  EXPECT_NE(second.calls[0].id, second.calls[1].id);
  const Turn first = turn_after(*provider, 0);
  EXPECT_EQ(first.text, "one");
  EXPECT_EQ(first.calls.at(0).arguments, "{\"a\":\"é\",\"b\":1}");
  EXPECT_FALSE(first.exhausted);
  EXPECT_TRUE(turn_after(*provider, 2).exhausted);
  EXPECT_TRUE(turn_after(*provider, 2).calls.empty());
}

TEST_F(Scripted, MalformedLinesAreToldWithFileAndLine) {
  EXPECT_THAT(error_of("{}\n{\"text\": }\n"),
              HasSubstr("script.jsonl:2: not valid JSON at line 1, column 10"));
  EXPECT_THAT(error_of("{}\n\n{}\n"), HasSubstr("script.jsonl:2: "));
  EXPECT_THAT(error_of("[]"), HasSubstr("script.jsonl:1: not an object"));
  EXPECT_THAT(error_of("{\"calls\": {}}"), HasSubstr("'calls' must be a list"));
  EXPECT_THAT(error_of("{\"calls\": [{\"arguments\": {}}]}"), HasSubstr("a call without a name"));
  EXPECT_THAT(error_of("{\"calls\": [{\"name\": \"x\", \"arguments\": 3}]}"),
              HasSubstr("'arguments' must be an object"));
}

TEST_F(Scripted, AnAbsentFileIsNotFound) {
  const Result<std::unique_ptr<Provider>> provider =
      make_scripted_provider(folder_.path() / "absent");
  ASSERT_FALSE(provider);
  EXPECT_EQ(provider.error().fault, Fault::not_found);
}

TEST_F(Scripted, AnEmptyScriptIsExhaustedAtOnce) {
  EXPECT_TRUE(turn_after(*script("").value(), 0).exhausted);
}

}  // namespace
}  // namespace marathon
