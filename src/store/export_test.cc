#include <gmock/gmock.h>

#include "store/redact.h"
#include "store/store_fixture.h"

namespace marathon {

using store::PrivateNames;
using store::redact_text;
using testing::HasSubstr;
using testing::Not;

class ExportTest : public StoreTest {
 protected:
  Log full_log() const {
    Log log = new_log();
    RunStarted start;
    start.run = "demo-1";
    start.host = "atlas.example.com";
    start.task_folder = "/home/johanna/tasks/kda-cpu";
    start.target = {2, "twice as fast on atlas"};
    must(log.append(start));
    TurnFinished turn;
    turn.turn = 1;
    turn.text = "SECRETPROMPT thinking aloud";
    turn.calls = {{"call-1", "evaluate", R"({"source":"SECRETSOURCE"})"}};
    turn.input_tokens = 1234;
    must(log.append(turn));
    must(log.append(ToolFinished{1, "call-1", "evaluate", true, "SECRETRESULT", {}, 0}));
    must(log.append(note("SECRETNOTE to the agent")));
    must(log.append(
        Unknown{"mcp.called", R"({"body":"SECRETBODY","deep":[{"x":"SECRETX"}],"n":7})"}));
    CandidateAdded added;
    added.candidate = std::string(64, 'a');
    added.hypothesis = "wider tiles, tried by Johanna on ATLAS with token=abcdef123";
    must(log.append(added));
    EvaluationFinished finished;
    finished.verdict.build_output = "SECRETBUILD";
    finished.verdict.provenance.host = "titan";
    finished.verdict.provenance.gpu.emplace().uuid = "GPU-5ec2e7ad-0000-4000-8000-000000000001";
    finished.verdict.reasons = {"titan was busy"};
    must(log.append(finished));
    return log;
  }
};

TEST_F(ExportTest, IsAFunctionOfTheLogsBytes) {
  const Log log = full_log();
  EXPECT_EQ(exported(), exported());
  EXPECT_EQ(exported(true), exported(true));
}

TEST_F(ExportTest, EachLineIsTheEventAndItsHashStillFits) {
  const Log log = full_log();
  std::istringstream lines(exported());
  std::string line, previous;
  int64_t count = 0;
  while (std::getline(lines, line)) {
    const Event event = must(event_from_json_line(line));
    EXPECT_EQ(event.sequence, ++count);
    EXPECT_EQ(event.previous_hash, previous);
    EXPECT_EQ(chain_hash(event), event.hash);
    previous = event.hash;
  }
  EXPECT_EQ(count, log.state().events);
}

TEST_F(ExportTest, StopsWhenItCannotWrite) {
  const Log log = full_log();
  const Status status = export_run(
      folder(), false, [](std::string_view) -> Status { return fail(Fault::no_space, "full"); });
  EXPECT_EQ(status.error().fault, Fault::no_space);
}

TEST_F(ExportTest, RedactedLeavesOutTextsHostsAndPeople) {
  const Log log = full_log();
  const std::string text = exported(true);
  EXPECT_THAT(exported(), HasSubstr("SECRETPROMPT"));
  for (const char* secret :
       {"SECRET", "atlas", "ATLAS", "titan", "ohanna", "abcdef123", "5ec2e7ad"})
    EXPECT_THAT(text, Not(HasSubstr(secret)));
  for (const char* kept :
       {"kda-cpu", "wider tiles", "1234", "evaluate", "\"n\":7", "was busy", "aaaaaaaaaaaaaaaa"})
    EXPECT_THAT(text, HasSubstr(kept));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) must(event_from_json_line(line));
}

TEST_F(ExportTest, RedactedLeavesOutFieldsThatOnlyANewerVersionKnows) {
  { const Log log = log_of(1); }
  tamper(
      R"(UPDATE events SET payload='{"text":"t","by":"b","plan":"SECRETPLAN"}' WHERE sequence=2)");
  Event event = must(event_from_json_line(
      R"({"payload":{"by":"b","plan":"SECRETPLAN","text":"t"},"stream":{},"record_type":"event","payload_type":"note.added"})"));
  EXPECT_THAT(store::redact_event(event, {}).payload, Not(HasSubstr("SECRETPLAN")));
}

std::string scrubbed(const std::string& text) { return redact_text(text, {}); }

TEST(Redaction, TakesKeysWhereverTheyStand) {
  for (const char* text :
       {"sk-abcdefghijklmnop", "sk-proj-Abc_123-xyz456", "sk-ant-api03-AAAABBBBCCCC",
        "ghp_0123456789abcdefghij", "github_pat_11ABCDEFG0abcdef", "glpat-abcdefghijklmnop",
        "xoxb-123456789-abcdef", "AKIAIOSFODNN7EXAMPLE", "AIzaSyA1234567890abcdefghij",
        "hf_abcdefghijklmnop", "nvapi-abcdefghijklmnop", "gsk_abcdefghijklmnop",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123", "Q2hhbmdlTWVQbGVhc2UxMjM0NTY3",
        "0123456789abcdef0123456789abcdef"}) {
    EXPECT_EQ(scrubbed(text), "[key]") << text;
    EXPECT_EQ(scrubbed(std::string("with (") + text + ") in it"), "with ([key]) in it");
    EXPECT_EQ(scrubbed(std::string("x=") + text), "x=[key]");
  }
}

TEST(Redaction, TakesValuesOfSecretNames) {
  EXPECT_EQ(scrubbed("password=hunter2 next"), "password=[key] next");
  EXPECT_EQ(scrubbed("DB_PASSWORD: hunter2"), "DB_PASSWORD: [key]");
  EXPECT_EQ(scrubbed(R"({"api_key": "k1", "n": 3})"), R"({"api_key": "[key]", "n": 3})");
  EXPECT_EQ(scrubbed(R"({\"apiKey\":\"k1\"})"), R"({\"apiKey\":\"[key]\"})");
  EXPECT_EQ(scrubbed("tool --token abc --fast"), "tool --token [key] --fast");
  EXPECT_EQ(scrubbed("Authorization: Digest user=x, y=z\nnext"), "Authorization: [key]\nnext");
  EXPECT_EQ(scrubbed("bearer abcdefgh"), "bearer [key]");
  EXPECT_EQ(scrubbed("the password is hunter2."), "the password is [key]");
  EXPECT_EQ(scrubbed("OPENAI_API_KEY=k"), "OPENAI_API_KEY=[key]");
  EXPECT_EQ(scrubbed("Set-Cookie: a=b; c=d"), "Set-Cookie: [key]");
  EXPECT_EQ(scrubbed("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- z"),
            "[key] z");
}

TEST(Redaction, TakesHostsAddressesAndPeople) {
  EXPECT_EQ(scrubbed("https://me:pw@box.lan:8080/v1?q=1"), "https://[host]/v1?q=1");
  EXPECT_EQ(scrubbed("at 10.0.12.7:22 now"), "at [host]:22 now");
  EXPECT_EQ(scrubbed("fe80::1ff:fe23:4567:890a"), "[host]");
  EXPECT_EQ(scrubbed("mail a.b@example.org today"), "mail [address] today");
  EXPECT_EQ(scrubbed("node7.cluster is down"), "[host] is down");
  EXPECT_EQ(scrubbed("in /home/johanna/x.cc"), "in /home/[person]/x.cc");
  PrivateNames names;
  names.hosts = {"atlas"};
  names.people = {"johanna"};
  EXPECT_EQ(redact_text("Johanna's Atlas.", names), "[person]'s [host].");
}

TEST(Redaction, LeavesWhatMakesAReportWorthReading) {
  for (const char* text :
       {"wider tiles: 2.50× (2.45–2.55)", "CHUNK=16, FORM=2 at 12:34:56", "solution.cc:12:5: note",
        "-O3 -march=native -funroll-loops", "input_tokens=1234", "T512-H4-D64", "bf16 basic block",
        "token by token", "std::vector<double> a::b", "b 0 h 3 rows 64–127",
        "9b74c9897bac770ffc029102a200c5de9b74c989",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}) {
    EXPECT_EQ(scrubbed(text), text);
  }
}

TEST(Redaction, IsLinearOnLongText) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "aaaaaaaaaa.bbbbbbbbbb-cccccccccc ";
  EXPECT_EQ(scrubbed(text), text);
  text.clear();
  for (int i = 0; i < 100'000; ++i) text += i % 2 ? "z." : "z-";
  EXPECT_EQ(scrubbed(text), text);
  EXPECT_EQ(scrubbed("Ab1" + std::string(5000, 'z')), "[key]");
  EXPECT_EQ(scrubbed(std::string(200'000, 'z')).size(), 200'000U);
}

}  // namespace marathon
