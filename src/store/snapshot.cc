#include "store/snapshot.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

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

std::optional<Head> parse_head(const std::string& line) {
  const Result<Json> json = parse_json(line);
  if (!json || json_int(*json, "format") != format ||
      json_string(*json, "marathon") != MARATHON_VERSION)
    return std::nullopt;
  return Head{json_int(*json, "events"), json_string(*json, "last_hash"),
              json_string(*json, "body_sha256")};
}

std::optional<State> parse_state(const std::string& line) {
  const Result<Json> json = parse_json(line);
  if (!json) return std::nullopt;
  Result<State> state = state_from_json(*json);
  if (!state) return std::nullopt;
  return std::move(*state);
}

bool add_attempts(const std::string& line, State& state) {
  Result<Json> attempts = parse_json(line);
  if (!attempts) return false;
  Json part = to_json(State{});
  part["attempts"] = std::move(*attempts);
  Result<State> read = state_from_json(part);
  if (!read) return false;
  for (Attempt& attempt : read->attempts) {
    state.attempt_of[attempt.candidate] = static_cast<int64_t>(state.attempts.size());
    state.attempts.push_back(std::move(attempt));
  }
  return true;
}

bool is_in_log(const Head& head, RowReader& reader) {
  const Result<std::optional<Event>> event = reader.one(head.events);
  return event && *event && (*event)->hash == head.last_hash &&
         chain_hash(**event) == head.last_hash;
}

// The body is read twice, first for its checksum: nothing of a damaged file is ever parsed.
bool body_fits(std::ifstream& file, const std::string& hash) {
  Sha256 body;
  std::string buffer(1 << 16, '\0');
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0)
    body.update(std::string_view(buffer.data(), static_cast<size_t>(file.gcount())));
  return body.finish_hex() == hash;
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
  const fs::path path = snapshot_file(run_folder);
  std::error_code none;
  if (static_cast<int64_t>(fs::file_size(path, none)) > max_file_bytes || none) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const std::optional<Head> head = parse_head(line);
  if (!head || !is_in_log(*head, reader)) return std::nullopt;
  const std::ifstream::pos_type body = file.tellg();
  if (!body_fits(file, head->body_hash)) return std::nullopt;
  file.clear();
  file.seekg(body);
  if (!std::getline(file, line)) return std::nullopt;
  std::optional<State> state = parse_state(line);
  if (!state || state->events != head->events || state->last_hash != head->last_hash)
    return std::nullopt;
  while (std::getline(file, line)) {
    if (!add_attempts(line, *state)) return std::nullopt;
  }
  return state;
}

int64_t snapshot_events(const fs::path& run_folder) {
  std::ifstream file(snapshot_file(run_folder), std::ios::binary);
  std::string line(head_bytes, '\0');
  file.read(line.data(), head_bytes);
  const std::optional<Head> head = parse_head(line.substr(0, line.find('\n')));
  return head ? head->events : 0;
}

}  // namespace marathon::store
