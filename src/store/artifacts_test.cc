#include <gmock/gmock.h>

#include "base/hash.h"
#include "store/store_fixture.h"

namespace marathon {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ArtifactsTest : public StoreTest {
 protected:
  ArtifactsTest() { must(make_folders(folder())); }
  Artifacts open(int64_t quota = 0) const { return must(Artifacts::open(folder(), quota)); }
};

TEST_F(ArtifactsTest, GivesBackWhatItGot) {
  Artifacts artifacts = open();
  const std::string bytes("a\0b\xff", 4);
  const std::string hash = must(artifacts.put(bytes));
  EXPECT_EQ(hash, sha256_hex(bytes));
  EXPECT_TRUE(artifacts.has(hash));
  EXPECT_EQ(must(artifacts.get(hash)), bytes);
  EXPECT_EQ(must(open().get(hash)), bytes);
  EXPECT_EQ(artifacts.path_of(hash), folder() / "artifacts" / hash.substr(0, 2) / hash);
  EXPECT_EQ(must(artifacts.get(must(artifacts.put("")))), "");
}

TEST_F(ArtifactsTest, TheSameContentIsStoredOnce) {
  Artifacts artifacts = open();
  must(artifacts.put("twice"));
  must(artifacts.put("twice"));
  EXPECT_EQ(artifacts.bytes(), 5);
  EXPECT_EQ(open().bytes(), 5);
}

TEST_F(ArtifactsTest, NothingOutsideItsFolderCanBeNamed) {
  const Artifacts artifacts = open();
  for (const char* bad : {"", "../../../etc/passwd", "ABCDEF", "/etc/passwd"}) {
    EXPECT_FALSE(artifacts.has(bad));
    EXPECT_EQ(artifacts.path_of(bad), fs::path());
    EXPECT_EQ(artifacts.get(bad).error().fault, Fault::invalid);
  }
  EXPECT_EQ(artifacts.get(sha256_hex("absent")).error().fault, Fault::not_found);
}

TEST_F(ArtifactsTest, ChangedContentIsCorrupt) {
  Artifacts artifacts = open();
  const std::string hash = must(artifacts.put("original"));
  must(write_file(artifacts.path_of(hash), "forged!!"));
  EXPECT_EQ(artifacts.get(hash).error().fault, Fault::corrupt);
}

TEST_F(ArtifactsTest, ACutFileIsWrittenAnew) {
  Artifacts artifacts = open();
  const std::string hash = must(artifacts.put("original"));
  must(write_file(artifacts.path_of(hash), "orig"));
  Artifacts again = open();
  must(again.put("original"));
  EXPECT_EQ(must(again.get(hash)), "original");
  EXPECT_EQ(again.bytes(), 8);
}

TEST_F(ArtifactsTest, TheQuotaHoldsAndSaysWhatToDo) {
  Artifacts artifacts = open(100);
  const std::string hash = must(artifacts.put(std::string(60, 'a')));
  const Result<std::string> second = artifacts.put(std::string(60, 'b'));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().fault, Fault::no_space);
  EXPECT_THAT(second.error().what, HasSubstr("marathon prune demo-1"));
  EXPECT_EQ(must(artifacts.put(std::string(60, 'a'))), hash);  // needs no room
  must(artifacts.put(std::string(40, 'c')));
  EXPECT_EQ(artifacts.bytes(), 100);
}

TEST_F(ArtifactsTest, LeftoversOfAKillCountForNothingAndArePruned) {
  must(make_folders(folder() / "artifacts" / "ab"));
  must(write_file(folder() / "artifacts" / "ab" / ".tmp-123-1", "half"));
  Log log = log_of(0);
  const PruneReport dry = must(prune_artifacts(folder(), log.state(), true));
  EXPECT_EQ(dry.removed_files, 1);
  EXPECT_TRUE(fs::exists(folder() / "artifacts" / "ab" / ".tmp-123-1"));
  must(prune_artifacts(folder(), log.state(), false));
  EXPECT_FALSE(fs::exists(folder() / "artifacts" / "ab" / ".tmp-123-1"));
}

TEST_F(ArtifactsTest, PruneKeepsStartWorkspaceIncumbentsNewestOpenAndWhatNotesName) {
  Artifacts artifacts = open();
  const auto stored = [&](const std::string& text) { return must(artifacts.put(text)); };
  Log log = new_log();
  RunStarted start;
  start.run = "demo-1";
  start.start_candidate = sha256_hex("start");
  start.workspace = {{"a.cc", stored("workspace")}};
  must(log.append(start));
  for (const std::string name : {"start", "best", "plain", "noted", "open", "newest"}) {
    CandidateAdded added;
    added.candidate = sha256_hex(name);
    added.files = {{"a.cc", stored(name)}};
    must(log.append(added));
    EvaluationFinished finished;
    finished.candidate = added.candidate;
    finished.key = name;
    finished.verdict.build_output_artifact = stored(name + " build");
    if (name == "best") finished.verdict.sanitize_artifact = stored("what a sanitizer said");
    must(log.append(finished));
  }
  const std::string lone = stored("named by itself");
  must(log.append(ToolFinished{1, "c", "edit", true, "", {{"b.cc", lone}}, 0}));
  must(log.append(IncumbentChanged{sha256_hex("best"), "", {}, {}, 1}));
  must(log.append(note("keep " + sha256_hex("noted").substr(0, 8) + " and " + lone.substr(0, 12))));
  must(log.append(EvaluationStarted{9, sha256_hex("open"), sha256_hex("best"), "k", 1}));
  stored("nobody names it");

  const PruneReport report = must(prune_artifacts(folder(), log.state(), false));
  EXPECT_EQ(report.removed_files, 3);  // plain, its build, and the one without a name
  for (const std::string name : {"start", "best", "noted", "open", "newest"}) {
    EXPECT_TRUE(artifacts.has(sha256_hex(name))) << name;
    EXPECT_TRUE(artifacts.has(sha256_hex(name + " build"))) << name;
  }
  EXPECT_TRUE(artifacts.has(lone));
  EXPECT_TRUE(artifacts.has(sha256_hex("workspace")));
  EXPECT_FALSE(artifacts.has(sha256_hex("plain")));
  EXPECT_TRUE(artifacts.has(sha256_hex("what a sanitizer said")));
  EXPECT_EQ(report.kept_files, 13);
}

}  // namespace marathon
