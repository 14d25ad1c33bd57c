// Every kind of event that was ever written stands in tests/golden/events/ as one line of JSON. A
// kind or a field once written is there for ever. Renew with MARATHON_RENEW_GOLDEN=1 after *adding*
// a field.
#include "core/event.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"

namespace marathon {
namespace {

std::filesystem::path golden_folder() {
  return std::filesystem::path(MARATHON_SOURCE_DIR) / "tests/golden/events";
}

Verdict sample_verdict() {
  Verdict verdict;
  verdict.kind = VerdictKind::faster;
  verdict.speedup = {2.5, 2.25, 2.75};
  verdict.gain = {1.25, 1.125, 1.5};
  verdict.reasons = {"because"};
  ShapeResult shape;
  shape.name = "T512";
  shape.set = "listed";
  shape.verdict = VerdictKind::faster;
  shape.time_us = 12.5;
  shape.baseline_us = 25;
  shape.outputs = {{"o", 1e-6, 1e-4, 5e-7, 1e-5, "[0, 3]"}};
  shape.samples = {{1.5, 2.5}, {}, {3.5}};
  verdict.shapes = {shape};
  verdict.profile =
      ProfileSummary{"callgrind", {{"instructions_per_call", 1000}}, {"well vectorised"}};
  verdict.provenance.seed = 7;
  verdict.provenance.host = "host";
  verdict.provenance.effort = "full";
  verdict.provenance.elsewhere = "request";
  verdict.confirmed = true;
  return verdict;
}

std::vector<Payload> one_of_each() {
  RunStarted started{"r-1",
                     "kda",
                     "hash",
                     "/tasks/kda",
                     "search",
                     "version 1",
                     7,
                     {60, 0, 1.5, 12.5, 1000000},
                     {3, "three times"},
                     "0.1.0",
                     "host",
                     "full",
                     {{"a.cc", "h1"}},
                     "c1"};
  return {
      started,
      RunResumed{12, "host", "0.1.0", "resumed", 27},
      BudgetChanged{{10, 20, 3}, "person"},
      GoalChanged{{2, "twice"}, "person"},
      GoalPaused{true, "person"},
      AgentConfigured{"anthropic",
                      "https://api.example",
                      "model-1",
                      200000,
                      8192,
                      {3, 0.5, 3.75, 15},
                      R"({"temperature":1})",
                      {{"system.md", "h4"}}},
      TurnStarted{3},
      TurnFinished{3,     "text",  {{"id", "evaluate", "{}"}}, 5, 6,    1.25, false, R"([{"text":"text"}])",
                   "end", "model", 70,                         8, true, 0.25, 4096,  "spent"},
      ModelFailed{3, "rate_limited", "slow down", 429, 7, 8, 0.125, 1.5},
      ModelWaited{3, "slow down", 30.5},
      ContextCleared{3, 2},
      ContextCompacted{3, 2, "h5", "h6", "soft", 150000, 40000},
      AdviceGiven{3, "restart", "tiling", 2, "go on from #2"},
      ToolStarted{3, "id", "evaluate"},
      ToolFinished{3, "id", "evaluate", true, "answer", {{"a.cc", "h2"}}, 1.5},
      CandidateAdded{
          "c2", "c1", {{"a.cc", "h2"}}, "commit", "unroll", "tiling", "search", {{"CHUNK", 16}}},
      EvaluationStarted{4, "c2", "c1", "key", 9, "h3"},
      EvaluationStage{4, "build", "g++", 0.5},
      EvaluationFinished{4, "c2", "key", sample_verdict(), 2.5},
      EvaluationRepeated{4, "key", "the process ended"},
      IncumbentChanged{"c2", "c1", {2.5, 2.25, 2.75}, {1.25, 1.125, 1.5}, 4},
      NoiseMeasured{{1, 0.995, 1.005}, 0.005, 200, 3.5},
      NoteAdded{"AVX-512", "agent"},
      StorageWaited{"no space", 2.5},
      ArtifactsPruned{3, 4096},
      RunEnded{Ending::goal_met, "evidence", 4.5}};
}

TEST(Events, EveryKindReadsWhatItWroteAndWhatWasEverWritten) {
  const bool renew = std::getenv("MARATHON_RENEW_GOLDEN") != nullptr;
  const std::vector<Payload> all = one_of_each();
  ASSERT_EQ(all.size() + 1, std::variant_size_v<Payload>) << "a new kind needs a sample here";
  for (const Payload& payload : all) {
    const std::string type(payload_type(payload)), text = encode_payload(payload);
    const std::filesystem::path file = golden_folder() / (type + ".json");
    if (renew) {
      ASSERT_TRUE(write_file(file, text + "\n"));
    }
    const Result<std::string> golden = read_file(file);
    ASSERT_TRUE(golden) << type
                        << " has no golden file; run with MARATHON_RENEW_GOLDEN=1 and commit it";
    EXPECT_EQ(*golden, text + "\n");
    const Result<Payload> read = decode_payload(type, *golden);
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(encode_payload(*read), text);
    EXPECT_EQ(read->index(), payload.index());
  }
}

TEST(Events, NoGoldenFileIsOrphaned) {
  const std::vector<std::filesystem::path> files = *list_files(golden_folder());
  for (const std::filesystem::path& file : files) {
    const std::string type = file.stem().string();
    const Result<Payload> read = decode_payload(type, *read_file(golden_folder() / file));
    ASSERT_TRUE(read) << type;
    EXPECT_FALSE(std::holds_alternative<Unknown>(*read))
        << type << " was written once and is not known any more";
  }
}

TEST(Events, UnknownKindsPassThroughUnchanged) {
  const Result<Payload> read = decode_payload("moon.landed", R"({"x":  1})");
  ASSERT_TRUE(read);
  EXPECT_EQ(payload_type(*read), "moon.landed");
  EXPECT_EQ(encode_payload(*read), R"({"x":  1})");
}

TEST(Events, UnknownFieldsAndMissingOnesAreNoErrors) {
  const Result<Payload> read = decode_payload("turn.started", R"({"turn":4,"colour":"red"})");
  ASSERT_TRUE(read);
  EXPECT_EQ(std::get<TurnStarted>(*read).turn, 4);
  EXPECT_EQ(std::get<TurnStarted>(*decode_payload("turn.started", "{}")).turn, 0);
}

TEST(Events, WrongTypesAreCorrupt) {
  for (const char* text : {"[]", "null", "3", R"({"turn":"four"})", R"({"turn":4.5})", "{", ""}) {
    EXPECT_FALSE(decode_payload("turn.started", text)) << text;
  }
  EXPECT_FALSE(decode_payload("run.ended", R"({"ending":"exploded"})"));
  EXPECT_FALSE(decode_payload("evaluation.finished",
                              R"({"evaluation":1,"verdict":{"verdict":"splendid"}})"));
}

TEST(Events, NotANumberBecomesNullAndReadsAsItsDefault) {
  NoiseMeasured noise;
  noise.noise = std::nan("");
  const std::string text = encode_payload(noise);
  EXPECT_NE(text.find("\"noise\":null"), std::string::npos);
  EXPECT_EQ(std::get<NoiseMeasured>(*decode_payload("noise.measured", text)).noise, 0);
}

Event sample_event() {
  Event event;
  event.id = "r/1";
  event.stream_id = "r";
  event.sequence = 1;
  event.recorded_at_us = 5;
  event.payload_type = "turn.started";
  event.payload = R"({"turn":1})";
  event.hash = chain_hash(event);
  return event;
}

TEST(Envelope, SurvivesALineOfJson) {
  const Event event = sample_event();
  const Result<Event> read = event_from_json_line(to_json_line(event));
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(read->payload, event.payload);
  EXPECT_EQ(chain_hash(*read), event.hash);
  EXPECT_FALSE(event_from_json_line("{}"));
  EXPECT_FALSE(event_from_json_line("nothing"));
}

TEST(Envelope, EveryFieldIsInTheChain) {
  const std::string before = sample_event().hash;
  const auto changed = [&](auto change) {
    Event event = sample_event();
    change(event);
    return chain_hash(event) != before;
  };
  EXPECT_TRUE(changed([](Event& e) { e.payload += " "; }));
  EXPECT_TRUE(changed([](Event& e) { ++e.sequence; }));
  EXPECT_TRUE(changed([](Event& e) { ++e.recorded_at_us; }));
  EXPECT_TRUE(changed([](Event& e) { e.previous_hash = "x"; }));
  EXPECT_TRUE(changed([](Event& e) { e.payload_type = "turn.finished"; }));
  EXPECT_TRUE(changed([](Event& e) { e.causation_id = "r/0"; }));
  EXPECT_TRUE(changed([](Event& e) { e.record_type = RecordType::status; }));
  EXPECT_TRUE(changed([](Event& e) { e.stream_id = "s"; }));
}

TEST(Verdicts, SurviveJsonWithEveryField) {
  const Verdict verdict = sample_verdict();
  const Result<Verdict> read = verdict_from_json(to_json(verdict));
  ASSERT_TRUE(read);
  EXPECT_EQ(dump_json(to_json(*read)), dump_json(to_json(verdict)));
  EXPECT_EQ(read->shapes[0].samples.candidate_ns, (std::vector<double>{1.5, 2.5}));
}

TEST(Verdicts, NamesAreClosedAndBothWays) {
  int count = 0;
  for (const char* name : {"build_failed", "rule_broken", "crashed", "timed_out", "wrong", "slower",
                           "same", "faster", "ambiguous", "suspicious"}) {
    ASSERT_TRUE(verdict_kind_from(name)) << name;
    EXPECT_EQ(to_string(*verdict_kind_from(name)), name);
    count += is_measured(*verdict_kind_from(name)) ? 1 : 0;
  }
  EXPECT_EQ(count, 3);
  EXPECT_FALSE(verdict_kind_from("fine"));
}

TEST(Verdicts, TheAgentNeverSeesAHiddenShape) {
  Verdict verdict = sample_verdict();
  verdict.shapes[0].set = "hidden";
  verdict.shapes[0].name = "secret-odd-length";
  verdict.shapes[0].reason = "output o wrong at [0, 12]";
  const std::string text = dump_json(to_public_json(verdict));
  EXPECT_EQ(text.find("secret"), std::string::npos);
  EXPECT_EQ(text.find("[0, 12]"), std::string::npos);
  EXPECT_NE(text.find("hidden-1"), std::string::npos);
}

TEST(Verdicts, EvidenceOfAGpuIsKeptAndOldOnesHaveNone) {
  Verdict verdict = sample_verdict();
  GpuEvidence& gpu = verdict.provenance.gpu.emplace();
  gpu.name = "NVIDIA H200";
  gpu.readings = 40;
  gpu.sm_clock_mhz = 1980.5;
  gpu.throttled = "power cap in 3 of 40 readings";
  const Result<Verdict> read = verdict_from_json(to_json(verdict));
  ASSERT_TRUE(read);
  ASSERT_TRUE(read->provenance.gpu);
  EXPECT_EQ(to_json(*read), to_json(verdict));
  EXPECT_EQ(read->provenance.gpu->sm_clock_mhz, 1980.5);
  const Result<Verdict> old = verdict_from_json(to_json(sample_verdict()));
  ASSERT_TRUE(old);
  EXPECT_FALSE(old->provenance.gpu);
}

}  // namespace
}  // namespace marathon
