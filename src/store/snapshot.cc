#include "store/snapshot.h"

#include <algorithm>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "store/durable.h"

namespace marathon::store {

namespace fs = std::filesystem;

namespace {

constexpr int64_t format = 1;
constexpr int64_t head_bytes = 512;  // more than it ever has
constexpr size_t attempts_a_line = 500;
constexpr int64_t max_file_bytes = 1LL << 30;

fs::path snapshot_file(const fs::path& run_folder) { return run_folder / "snapshot.json"; }

std::string attempts_line(const State& state, size_t begin) {
  const size_t end = std::min(begin + attempts_a_line, state.attempts.size());
  State part;
  part.attempts.assign(state.attempts.begin() + static_cast<int64_t>(begin),
                       state.attempts.begin() + static_cast<int64_t>(end));
  return dump_json(to_json(part)["attempts"]);
}

// All but the attempts, which may be large: they step aside meanwhile instead of being copied.
std::string state_line(State& state) {
  std::vector<Attempt> attempts = std::exchange(state.attempts, {});
  std::string line = dump_json(to_json(state));
  state.attempts = std::move(attempts);
  return line;
}

// The hash of the body has a fixed length, so that it can be filled in at the end.
std::string head_line(const State& state, const std::string& body_hash) {
  return dump_json(Json{{"format", format},
                        {"marathon", MARATHON_VERSION},
                        {"events", state.events},
                        {"last_hash", state.last_hash},
                        {"body_sha256", body_hash}}) +
         "\n";
}

struct Head {
  int64_t events = 0;
  std::string last_hash, body_hash;
};

std::optional<Head> parse_head(std::string_view line) {
  const Result<Json> json = parse_json(line);
  if (!json || json_int(*json, "format") != format ||
      json_string(*json, "marathon") != MARATHON_VERSION)
    return std::nullopt;
  return Head{json_int(*json, "events"), json_string(*json, "last_hash"),
              json_string(*json, "body_sha256")};
}

std::optional<State> parse_state(std::string_view line) {
  const Result<Json> json = parse_json(line);
  if (!json) return std::nullopt;
  Result<State> state = state_from_json(*json);
  if (!state) return std::nullopt;
  return std::move(*state);
}

using Lines = std::vector<std::string_view>;

// The lines number first, first + step, … → the attempts of each. False: one does not parse.
bool parse_lines(const Lines& lines, size_t first, size_t step,
                 std::vector<std::vector<Attempt>>& parts) {
  for (size_t i = first; i < lines.size(); i += step) {
    Result<Json> attempts = parse_json(lines[i]);
    if (!attempts) return false;
    Json part = to_json(State{});
    part["attempts"] = std::move(*attempts);
    Result<State> read = state_from_json(part);
    if (!read) return false;
    parts[i] = std::move(read->attempts);
  }
  return true;
}

// On two threads: the JSON of 80,000 attempts is nearly all that opening a long log costs.
bool add_attempts(const Lines& lines, State& state) {
  std::vector<std::vector<Attempt>> parts(lines.size());
  std::future<bool> odd =
      std::async(std::launch::async, [&] { return parse_lines(lines, 1, 2, parts); });
  const bool even = parse_lines(lines, 0, 2, parts);
  if (!odd.get() || !even) return false;
  // Room for all at once, and each part is let go of as it is moved: the peak counts.
  size_t count = 0;
  for (const std::vector<Attempt>& part : parts) count += part.size();
  state.attempts.reserve(count);
  state.attempt_of.reserve(count);
  for (std::vector<Attempt>& slot : parts) {
    std::vector<Attempt> part = std::exchange(slot, {});
    for (Attempt& attempt : part) {
      state.attempt_of[attempt.candidate] = static_cast<int64_t>(state.attempts.size());
      state.attempts.push_back(std::move(attempt));
    }
  }
  return true;
}

bool is_in_log(const Head& head, RowReader& reader) {
  const Result<std::optional<Event>> event = reader.one(head.events);
  return event && *event && (*event)->hash == head.last_hash &&
         chain_hash(**event) == head.last_hash;
}

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

Status save_snapshot(const fs::path& run_folder, State& state) {
  DurableFile file = TRY(DurableFile::create(run_folder));
  TRY(file.write(head_line(state, std::string(64, '0'))));
  Sha256 body;
  const auto add = [&](std::string line) -> Status {
    line += '\n';
    body.update(line);
    return file.write(line);
  };
  TRY(add(state_line(state)));
  for (size_t i = 0; i < state.attempts.size(); i += attempts_a_line)
    TRY(add(attempts_line(state, i)));
  TRY(file.overwrite(0, head_line(state, body.finish_hex())));
  return file.commit(snapshot_file(run_folder));
}

std::optional<State> load_snapshot(const fs::path& run_folder, RowReader& reader) {
  const Result<std::string> file = read_file(snapshot_file(run_folder), max_file_bytes);
  if (!file) return std::nullopt;
  std::string_view text = *file;
  const std::optional<Head> head = parse_head(take_line(text));
  // Nothing of a damaged file is ever parsed.
  if (!head || !is_in_log(*head, reader) || sha256_hex(text) != head->body_hash)
    return std::nullopt;
  std::optional<State> state = parse_state(take_line(text));
  if (!state || state->events != head->events || state->last_hash != head->last_hash)
    return std::nullopt;
  Lines lines;
  while (!text.empty()) lines.push_back(take_line(text));
  if (!add_attempts(lines, *state)) return std::nullopt;
  return state;
}

int64_t snapshot_events(const fs::path& run_folder) {
  std::ifstream file(snapshot_file(run_folder), std::ios::binary);
  std::string line(head_bytes, '\0');
  file.read(line.data(), head_bytes);
  const std::optional<Head> head = parse_head(std::string_view(line).substr(0, line.find('\n')));
  return head ? head->events : 0;
}

}  // namespace marathon::store
