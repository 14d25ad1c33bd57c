#include "core/elsewhere.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/utf8.h"

namespace marathon {

namespace {

constexpr const char* request_kind = "marathon judge request";
constexpr const char* results_kind = "marathon judge results";
constexpr const char* judged_kind = "marathon judged candidate";

// The object with its own hash in it. Keys are sorted, so the same object has one text.
Json sealed(Json json) {
  json["hash"] = sha256_hex(dump_json(json));
  return json;
}

Status require_kind(const Json& json, const char* kind) {
  if (json_string(json, "kind") != kind)
    return fail(Fault::invalid, fmt::format("this is no {}: its \"kind\" is '{}'", kind,
                                            json_string(json, "kind").substr(0, 80)));
  const int64_t schema = json_int(json, "schema");
  if (schema == elsewhere_schema) return {};
  return fail(Fault::invalid,
              fmt::format("this is a {} of schema {}, and this marathon knows schema {}: use the "
                          "same version of marathon on both machines",
                          kind, schema, elsewhere_schema));
}

Status require_sealed(const Json& json, const std::string& what) {
  Json open = json;
  open.erase("hash");
  if (sha256_hex(dump_json(open)) == json_string(json, "hash")) return {};
  return fail(Fault::corrupt,
              what +
                  " was changed after it was written: its content does not fit its hash. Take "
                  "the file again from the machine that wrote it");
}

Result<std::map<std::string, std::string>> texts_from(const Json& json, const std::string& what) {
  if (!json.is_object()) return fail(Fault::corrupt, what + " lists no files");
  std::map<std::string, std::string> files;
  for (const auto& [path, value] : json.items()) {
    if (!is_safe_relative(path))
      return fail(Fault::corrupt,
                  fmt::format("{} names '{}', which lies outside of its folder", what, path));
    if (!value.is_string())
      return fail(Fault::corrupt, fmt::format("{}: '{}' is no text", what, path));
    files[path] = value.get<std::string>();
  }
  return files;
}

// ---- files of a candidate: text as it is, what is no UTF-8 as hex digits

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

Result<std::string> from_hex(const std::string& hex) {
  const auto digit = [](char c) {
    const size_t at = std::string_view("0123456789abcdef").find(c);
    return at == std::string_view::npos ? -1 : static_cast<int>(at);
  };
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    if (digit(hex[i]) < 0 || digit(hex[i + 1]) < 0) break;
    bytes += static_cast<char>(16 * digit(hex[i]) + digit(hex[i + 1]));
  }
  if (2 * bytes.size() == hex.size()) return bytes;
  return fail(Fault::corrupt, "a file's hex digits are damaged");
}

// ---- candidates

Json packed_json(const PackedCandidate& packed) {
  return {{"candidate", packed.candidate},
          {"name", packed.name},
          {"note", packed.note},
          {"category", packed.category},
          {"files", packed.files}};
}

Result<PackedCandidate> packed_from(const Json& json) {
  PackedCandidate packed;
  packed.candidate = json_string(json, "candidate");
  packed.name = json_string(json, "name");
  packed.note = json_string(json, "note");
  packed.category = json_string(json, "category");
  if (packed.candidate.size() != 64)
    return fail(Fault::corrupt, "the request names a candidate without a hash");
  packed.files = TRY(texts_from(json_member(json, "files"), "candidate " + packed.name));
  return packed;
}

Json open_json(const JudgeRequest& request) {
  Json json = {
      {"kind", request_kind},
      {"schema", elsewhere_schema},
      {"marathon_version", request.marathon_version},
      {"task",
       {{"name", request.task_name}, {"hash", request.task_hash}, {"files", request.task_files}}},
      {"candidates", Json::array()}};
  for (const PackedCandidate& packed : request.candidates)
    json["candidates"].push_back(packed_json(packed));
  if (request.incumbent) json["incumbent"] = packed_json(*request.incumbent);
  return json;
}

// What stands in the results of one candidate must be what was sent.
Status require_of(const JudgeRequest& request, const std::string& hash,
                  const JudgedCandidate& judged) {
  const auto refuse = [&](const std::string& why) {
    return fail(Fault::corrupt, fmt::format("the verdict on candidate {} is refused: {}",
                                            short_hash(judged.candidate), why));
  };
  const PackedCandidate* packed = find_candidate(request, judged.candidate);
  if (!packed) return refuse("the request holds no such candidate");
  if (judged.request != hash || judged.task_hash != request.task_hash)
    return refuse("it belongs to another request or another task");
  if (judged.incumbent != (request.incumbent ? request.incumbent->candidate : ""))
    return refuse("it was compared with another incumbent than the request names");
  PathHashes own;
  for (const auto& [path, content] : judged.files) own[path] = sha256_hex(content);
  if (own != packed->files || hash_of_files(judged.files) != judged.candidate)
    return refuse("its files are not those that were sent");
  return {};
}

}  // namespace

std::string hash_of_files(const std::map<std::string, std::string>& files) {
  // Paths are ordered by their parts, as list_files() orders them: "a/b" stands before "a.b".
  std::vector<std::pair<std::filesystem::path, const std::string*>> ordered;
  for (const auto& [path, content] : files) ordered.emplace_back(path, &content);
  std::sort(ordered.begin(), ordered.end());
  Sha256 hash;
  for (const auto& [path, content] : ordered) {
    hash.update_field(path.generic_string());
    hash.update_field(*content);
  }
  return hash.finish_hex();
}

const PackedCandidate* find_candidate(const JudgeRequest& request, const std::string& candidate) {
  const auto found = std::ranges::find(request.candidates, candidate, &PackedCandidate::candidate);
  return found == request.candidates.end() ? nullptr : &*found;
}

const JudgedCandidate* find_judged(const JudgeResults& results, const std::string& candidate) {
  const auto found = std::ranges::find(results.judged, candidate, &JudgedCandidate::candidate);
  return found == results.judged.end() ? nullptr : &*found;
}

Json to_json(const JudgeRequest& request) { return sealed(open_json(request)); }

std::string request_hash(const JudgeRequest& request) {
  return json_string(to_json(request), "hash");
}

Result<JudgeRequest> judge_request_from(const Json& json) {
  TRY(require_kind(json, request_kind));
  TRY(require_sealed(json, "the request"));
  const Json& task = json_member(json, "task");
  JudgeRequest request;
  request.marathon_version = json_string(json, "marathon_version");
  request.task_name = json_string(task, "name");
  request.task_hash = json_string(task, "hash");
  request.task_files = TRY(texts_from(json_member(task, "files"), "the task"));
  if (json_member(json, "incumbent").is_object())
    request.incumbent = TRY(packed_from(json_member(json, "incumbent")));
  for (const Json& packed : json_member(json, "candidates")) {
    request.candidates.push_back(TRY(packed_from(packed)));
    const std::string& candidate = request.candidates.back().candidate;
    if (find_candidate(request, candidate) != &request.candidates.back())
      return fail(Fault::corrupt,
                  "the request names candidate " + short_hash(candidate) + " twice");
  }
  if (request.candidates.empty()) return fail(Fault::invalid, "the request names no candidate");
  return request;
}

Json to_json(const JudgedCandidate& judged) {
  Json files = Json::object();
  for (const auto& [path, content] : judged.files) {
    const bool text = is_utf8(content);
    files[path] = {{text ? "text" : "hex", text ? content : to_hex(content)}};
  }
  return sealed({{"kind", judged_kind},
                 {"schema", elsewhere_schema},
                 {"request", judged.request},
                 {"task_hash", judged.task_hash},
                 {"candidate", judged.candidate},
                 {"incumbent", judged.incumbent},
                 {"name", judged.name},
                 {"note", judged.note},
                 {"category", judged.category},
                 {"effort", judged.quick ? "quick" : "full"},
                 {"files", files},
                 {"verdict", to_json(judged.verdict)}});
}

Result<JudgedCandidate> judged_candidate_from(const Json& json) {
  TRY(require_kind(json, judged_kind));
  JudgedCandidate judged;
  judged.candidate = json_string(json, "candidate");
  TRY(require_sealed(json, "the verdict on candidate " + short_hash(judged.candidate)));
  judged.request = json_string(json, "request");
  judged.task_hash = json_string(json, "task_hash");
  judged.incumbent = json_string(json, "incumbent");
  judged.name = json_string(json, "name");
  judged.note = json_string(json, "note");
  judged.category = json_string(json, "category");
  judged.quick = json_string(json, "effort") != "full";
  judged.verdict = TRY(verdict_from_json(json_member(json, "verdict")));
  for (const auto& [path, content] : json_member(json, "files").items()) {
    if (!is_safe_relative(path))
      return fail(Fault::corrupt, "a candidate names '" + path + "', which is no path of its own");
    judged.files[path] = content.contains("hex") ? TRY(from_hex(json_string(content, "hex")))
                                                 : json_string(content, "text");
  }
  return judged;
}

Json to_json(const JudgeResults& results) {
  Json json = {{"kind", results_kind},
               {"schema", elsewhere_schema},
               {"request", to_json(results.request)},
               {"results", Json::array()}};
  for (const JudgedCandidate& judged : results.judged) json["results"].push_back(to_json(judged));
  return json;
}

Result<JudgeResults> judge_results_from(const Json& json) {
  TRY(require_kind(json, results_kind));
  JudgeResults results;
  results.request = TRY(judge_request_from(json_member(json, "request")));
  const std::string hash = request_hash(results.request);
  for (const Json& entry : json_member(json, "results")) {
    JudgedCandidate judged = TRY(judged_candidate_from(entry));
    TRY(require_of(results.request, hash, judged));
    if (find_judged(results, judged.candidate))
      return fail(Fault::corrupt,
                  "two verdicts on candidate " + short_hash(judged.candidate) + " stand there");
    results.judged.push_back(std::move(judged));
  }
  return results;
}

}  // namespace marathon
