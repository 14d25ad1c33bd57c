// Judging elsewhere: what goes to another machine and what comes back, as JSON (docs/gpu.md).
//
// The request is the manifest of a folder that holds task and candidates; the results are one file
// with the verdicts and the candidates' own files. Hashes find what was damaged or mixed up;
// without a key they stop no forger.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "core/verdict.h"

namespace marathon {

inline constexpr int64_t elsewhere_schema = 1;

using PathHashes = std::map<std::string, std::string>;  // path → SHA-256 of the content

struct PackedCandidate {
  std::string candidate;             // hash
  std::string name, note, category;  // for people
  PathHashes files;
};

struct JudgeRequest {
  std::string marathon_version, task_name, task_hash;
  PathHashes task_files;
  std::optional<PackedCandidate> incumbent;
  std::vector<PackedCandidate> candidates;
};

Json to_json(const JudgeRequest& request);  // with its hash
std::string request_hash(const JudgeRequest& request);
// Error invalid: no request, or of another schema; corrupt: it does not fit its hash.
Result<JudgeRequest> judge_request_from(const Json& json);

// Stands alone: it goes into a run's artifacts as it is.
struct JudgedCandidate {
  std::string request, task_hash;    // hashes
  std::string candidate, incumbent;  // hashes; incumbent: what it was compared with
  std::string name, note, category;
  bool quick = false;
  std::map<std::string, std::string> files;  // path → content
  Verdict verdict;
};

Json to_json(const JudgedCandidate& judged);  // with its hash
Result<JudgedCandidate> judged_candidate_from(const Json& json);

struct JudgeResults {
  JudgeRequest request;
  std::vector<JudgedCandidate> judged;  // at most one a candidate
};

Json to_json(const JudgeResults& results);
// Also checks that each judged candidate is one of the request and has the files that it lists.
Result<JudgeResults> judge_results_from(const Json& json);

const PackedCandidate* find_candidate(const JudgeRequest& request, const std::string& candidate);
const JudgedCandidate* find_judged(const JudgeResults& results, const std::string& candidate);

// The hash of a candidate with these files: path → content.
std::string hash_of_files(const std::map<std::string, std::string>& files);

}  // namespace marathon
