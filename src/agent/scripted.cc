// An agent that reads its turns from a file: for tests, and to try the run without a model.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "agent/agent.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"

namespace marathon {

namespace {

constexpr int64_t max_script_bytes = 64LL << 20;

tl::unexpected<Error> fail_line(const std::filesystem::path& file, int64_t line,
                                const std::string& what) {
  return fail(Fault::invalid, fmt::format("{}:{}: {}", file.string(), line, what));
}

constexpr std::string_view form =
    "write {\"text\": \"…\", \"calls\": [{\"name\": \"evaluate\", \"arguments\": {}}]}";

Result<ToolCall> parse_call(const Json& call, std::string id) {
  const bool has_name = call.is_object() && call.contains("name") && call["name"].is_string();
  if (!has_name) return fail(Fault::invalid, fmt::format("a call without a name; {}", form));
  const Json arguments = call.value("arguments", Json::object());
  if (!arguments.is_object()) {
    return fail(Fault::invalid, fmt::format("'arguments' must be an object; {}", form));
  }
  return ToolCall{json_string(call, "id", id), json_string(call, "name"), dump_json(arguments)};
}

Result<Turn> parse_turn(std::string_view line, int64_t number) {
  const Json json = TRY(parse_json(line));
  if (!json.is_object()) return fail(Fault::invalid, fmt::format("not an object; {}", form));
  Turn turn;
  turn.text = json_string(json, "text");
  turn.input_tokens = json_int(json, "input_tokens");
  turn.output_tokens = json_int(json, "output_tokens");
  turn.exhausted = json_bool(json, "exhausted");
  const Json calls = json.value("calls", Json::array());
  if (!calls.is_array())
    return fail(Fault::invalid, fmt::format("'calls' must be a list; {}", form));
  for (const Json& call : calls) {
    const std::string id = fmt::format("script-{}-{}", number, turn.calls.size() + 1);
    turn.calls.push_back(TRY(parse_call(call, id)));
  }
  return turn;
}

class ScriptedProvider : public Provider {
 public:
  ScriptedProvider(std::vector<Turn> turns, std::string hash)
      : turns_(std::move(turns)), hash_(std::move(hash)) {}

  Result<Turn> next(const Context& context, std::stop_token stop) override {
    if (stop.stop_requested()) return fail(Fault::cancelled, "the script was stopped");
    const int64_t answered = context.state.spent.turns;
    if (answered >= 0 && answered < std::ssize(turns_))
      return turns_[static_cast<size_t>(answered)];
    Turn turn;
    turn.text = "The script has ended.";
    turn.exhausted = true;
    return turn;
  }
  std::string name() const override { return "scripted"; }
  std::string detail() const override { return hash_; }

 private:
  std::vector<Turn> turns_;
  std::string hash_;
};

}  // namespace

Result<std::unique_ptr<Provider>> make_scripted_provider(const std::filesystem::path& file) {
  const std::string text = TRY(read_file(file, max_script_bytes));
  std::vector<Turn> turns;
  std::string_view rest = text;
  // Every line is a turn, so that line n answers turn n; only the file's end may be empty.
  for (int64_t line = 1; !rest.empty(); ++line) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    Result<Turn> turn = parse_turn(rest.substr(0, end), line);
    if (!turn) return fail_line(file, line, turn.error().what);
    turns.push_back(*std::move(turn));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::make_unique<ScriptedProvider>(std::move(turns), sha256_hex(text));
}

}  // namespace marathon
