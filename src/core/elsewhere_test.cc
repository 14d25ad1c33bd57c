// What goes to another machine and comes back. tests/golden/elsewhere holds results as they were
// first written: they are read for ever. Renew with MARATHON_RENEW_GOLDEN=1 after *adding* a field.
#include "core/elsewhere.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"

namespace marathon {
namespace {

using testing::HasSubstr;

const std::map<std::string, std::string> sources = {{"a.cu", "int a;\n"},
                                                    {"lib/raw.bin", std::string("\xff\0x", 3)}};

PackedCandidate packed(const std::map<std::string, std::string>& files) {
  PackedCandidate made{hash_of_files(files), "mine", "fewer loads", "memory", {}};
  for (const auto& [path, content] : files) made.files[path] = sha256_hex(content);
  return made;
}

JudgeResults sample() {
  JudgeResults results;
  results.request = {"0.1.0", "kda", "task-hash", {{"task.toml", sha256_hex("t")}}, {}, {}};
  results.request.candidates = {packed(sources), packed({{"a.cu", "int b;\n"}})};
  results.request.incumbent = packed({{"a.cu", "int best;\n"}});
  JudgedCandidate judged;
  judged.request = request_hash(results.request);
  judged.task_hash = "task-hash";
  judged.candidate = results.request.candidates[0].candidate;
  judged.incumbent = results.request.incumbent->candidate;
  judged.name = "mine";
  judged.note = "fewer loads";
  judged.category = "memory";
  judged.files = sources;
  judged.verdict.kind = VerdictKind::faster;
  judged.verdict.speedup = {2.5, 2.25, 2.75};
  judged.verdict.confirmed = true;
  judged.verdict.provenance.gpu = GpuEvidence{};
  judged.verdict.provenance.gpu->name = "NVIDIA H200";
  results.judged = {judged};
  return results;
}

Result<JudgeResults> read(const Json& json) {
  return judge_results_from(*parse_json(dump_json(json)));
}

Json resealed(Json json) {
  json.erase("hash");
  json["hash"] = sha256_hex(dump_json(json));
  return json;
}

TEST(Elsewhere, ReadsWhatItWrote) {
  const Json json = to_json(sample());
  const Result<JudgeResults> results = read(json);
  ASSERT_TRUE(results) << results.error().what;
  EXPECT_EQ(to_json(*results), json);
  EXPECT_EQ(results->judged[0].files, sources);  // what is no UTF-8 as well
  EXPECT_EQ(results->judged[0].verdict.provenance.gpu->name, "NVIDIA H200");
}

TEST(Elsewhere, ReadsWhatWasEverWritten) {
  const std::filesystem::path file =
      std::filesystem::path(MARATHON_SOURCE_DIR) / "tests/golden/elsewhere/results-1.json";
  const std::string text = dump_json_pretty(to_json(sample())) + "\n";
  if (std::getenv("MARATHON_RENEW_GOLDEN")) {
    ASSERT_TRUE(make_folders(file.parent_path()));
    ASSERT_TRUE(write_file(file, text));
  }
  const Result<std::string> golden = read_file(file);
  ASSERT_TRUE(golden) << golden.error().what;
  const Result<JudgeResults> results = judge_results_from(*parse_json(*golden));
  ASSERT_TRUE(results) << results.error().what;
  EXPECT_EQ(dump_json_pretty(to_json(*results)) + "\n", text);
}

TEST(Elsewhere, EveryChangeIsFound) {
  const Json whole = to_json(sample()).flatten();
  int64_t changed = 0;
  for (const auto& [path, value] : whole.items()) {
    Json other = whole;
    if (value.is_string()) other[path] = value.get<std::string>() + "0";
    if (value.is_number()) other[path] = value.get<double>() + 1;
    if (value.is_boolean()) other[path] = !value.get<bool>();
    if (other == whole) continue;  // empty lists and the like
    ++changed;
    EXPECT_FALSE(read(other.unflatten())) << path;
  }
  EXPECT_GT(changed, 60);
}

TEST(Elsewhere, ADamagedVerdictSaysWhatToDo) {
  Json json = to_json(sample());
  json["results"][0]["verdict"]["speedup"] = 9.5;
  const Result<JudgeResults> results = read(json);
  ASSERT_FALSE(results);
  EXPECT_EQ(results.error().fault, Fault::corrupt);
  EXPECT_THAT(results.error().what, HasSubstr("Take the file again"));
}

// With every hash made anew: what contradicts the request is refused all the same.
TEST(Elsewhere, WhatWasNotSentIsRefused) {
  const auto expect_refused = [](const std::string& key, const Json& value, const char* why) {
    Json json = to_json(sample());
    json["results"][0][key] = value;
    json["results"][0] = resealed(json["results"][0]);
    const Result<JudgeResults> results = read(json);
    ASSERT_FALSE(results) << key;
    EXPECT_EQ(results.error().fault, Fault::corrupt);
    EXPECT_THAT(results.error().what, HasSubstr(why));
  };
  expect_refused("candidate", sha256_hex("x"), "no such candidate");
  expect_refused("request", sha256_hex("x"), "another request");
  expect_refused("task_hash", "other", "another task");
  expect_refused("incumbent", "", "another incumbent");
  expect_refused("files", {{"a.cu", {{"text", "int c;\n"}}}}, "not those that were sent");
  expect_refused("files", {{"../a.cu", {{"text", ""}}}}, "no path of its own");
}

TEST(Elsewhere, TwoVerdictsOnOneCandidateAreRefused) {
  JudgeResults results = sample();
  results.judged.push_back(results.judged[0]);
  EXPECT_THAT(read(to_json(results)).error().what, HasSubstr("two verdicts"));
}

TEST(Elsewhere, AnotherKindOrSchemaIsNamed) {
  Json json = to_json(sample());
  json["schema"] = 2;
  EXPECT_THAT(read(json).error().what, HasSubstr("the same version of marathon on both machines"));
  EXPECT_THAT(read(to_json(sample().request)).error().what, HasSubstr("no marathon judge results"));
  EXPECT_EQ(read(Json::array()).error().fault, Fault::invalid);
}

TEST(Elsewhere, ARequestNamesEachCandidateOnce) {
  JudgeRequest request = sample().request;
  request.candidates.push_back(request.candidates[0]);
  EXPECT_THAT(judge_request_from(to_json(request)).error().what, HasSubstr("twice"));
  request.candidates.clear();
  EXPECT_FALSE(judge_request_from(to_json(request)));
}

}  // namespace
}  // namespace marathon
