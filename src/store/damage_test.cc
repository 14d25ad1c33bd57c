// Damage of every kind: what is lost, what is reported, what is refused.
#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "store/store_fixture.h"
#include "store/wal.h"

namespace marathon {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class DamageTest : public StoreTest {
 protected:
  // Leaves a WAL behind, as a kill does.
  void killed_log_of(int64_t notes) const {
    const pid_t child = ::fork();
    if (child == 0) {
      const Log log = log_of(notes);
      ::raise(SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  fs::path wal() const { return log_path().string() + "-wal"; }
  void flip(const fs::path& path, int64_t offset) const {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset);
    const char byte = static_cast<char>(file.get() ^ 0x40);
    file.seekp(offset);
    file.put(byte);
  }
  std::vector<std::string> problems() const { return must(verify_run(folder())).problems; }
};

TEST_F(DamageTest, AWholeRunHasNoProblems) {
  const std::string hash = log_of(20).state().last_hash;
  const VerifyReport report = must(verify_run(folder()));
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.events, 21);
  EXPECT_EQ(report.last_hash, hash);
}

TEST_F(DamageTest, ATornTailCostsOnlyTheTornRecord) {
  { const Log log = log_of(5); }
  tamper("UPDATE events SET payload=substr(payload,1,7) WHERE sequence=6");
  EXPECT_EQ(events().size(), 5U);
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("event 6 does not fit its hash")));

  Log log = old_log();
  EXPECT_THAT(log.report().torn, HasSubstr("event 6 does not fit its hash"));
  EXPECT_EQ(log.state().notes.size(), 4U);
  EXPECT_EQ(must(log.append(note("goes on"))).sequence, 7);  // no number is used twice
  must(log.append(note("and on")));
  EXPECT_EQ(must(must(Reader::open(folder())).fold()).notes.size(), 6U);
  EXPECT_EQ(text_of(log.state()), text_of(must(must(Reader::open(folder())).fold())));
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("event 6 does not fit its hash")));
}

TEST_F(DamageTest, ATornFirstRecordLeavesAnEmptyLog) {
  { const Log log = log_of(0); }
  tamper("UPDATE events SET hash='00' WHERE sequence=1");
  Log log = old_log();
  EXPECT_FALSE(log.state().start);
  EXPECT_EQ(must(log.append(note("goes on"))).sequence, 2);
  EXPECT_EQ(events().size(), 1U);
}

TEST_F(DamageTest, ADamagedMiddleIsCorruptAndSaysWhatToDo) {
  { const Log log = log_of(9); }
  tamper("UPDATE events SET payload='{\"text\":\"forged\",\"by\":\"person\"}' WHERE sequence=4");
  const Result<Log> log = Log::open(folder());
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().fault, Fault::corrupt);
  EXPECT_THAT(log.error().what, HasSubstr("event 4"));
  EXPECT_THAT(log.error().what, HasSubstr("marathon export"));
  EXPECT_EQ(must(Reader::open(folder())).fold().error().fault, Fault::corrupt);
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("event 4 does not fit its hash")));

  std::string text;  // what stands before the damage can be had
  const Status exported = export_run(folder(), false, [&](std::string_view line) -> Status {
    text += line;
    return {};
  });
  EXPECT_EQ(exported.error().fault, Fault::corrupt);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST_F(DamageTest, ARecordThatWasCutOutIsMissed) {
  { const Log log = log_of(9); }
  tamper("DELETE FROM events WHERE sequence IN (4,5)");
  EXPECT_EQ(Log::open(folder()).error().fault, Fault::corrupt);
  EXPECT_THAT(problems(), testing::Contains(HasSubstr("events 4 to 5 are missing")));
}

TEST_F(DamageTest, EveryFieldIsUnderTheHash) {
  { const Log log = log_of(9); }
  const std::string good = must(read_file(log_path()));
  for (const char* change :
       {"id='demo-1/44'", "schema_version=2", "stream_kind='x'", "stream_id='x'",
        "recorded_at_us=7", "record_type='status'", "record_type='rumour'", "durability='x'",
        "causation_id='x'", "payload_type='note.lost'", "payload_schema_version=2",
        "payload=payload||' '", "previous_hash=hash", "hash=previous_hash"}) {
    tamper(fmt::format("UPDATE events SET {} WHERE sequence=4", change));
    EXPECT_THAT(problems(), testing::Not(IsEmpty())) << change;
    EXPECT_EQ(Log::open(folder()).error().fault, Fault::corrupt) << change;
    must(write_file(log_path(), good));
  }
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(DamageTest, AllDamageIsListedButNotWithoutEnd) {
  { const Log log = log_of(600); }
  tamper("UPDATE events SET payload=payload||' ' WHERE sequence>3");
  EXPECT_EQ(problems().size(), 201U);
  EXPECT_THAT(problems().back(), HasSubstr("more"));
}

TEST_F(DamageTest, ACutTailShowsAgainstTheSnapshot) {
  std::string last_hash;
  {
    Log log = log_of(9);
    must(log.write_snapshot());
    last_hash = log.state().last_hash;
  }
  tamper("DELETE FROM events WHERE sequence>7");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("its tail is gone")));
  EXPECT_NE(must(verify_run(folder())).last_hash, last_hash);
  {
    Log log = old_log();
    const OpenReport& report = log.report();
    EXPECT_THAT(report.torn, HasSubstr("its tail is gone"));
    EXPECT_EQ(report.lost_events, 3);
    must(log.append(RunResumed{1, "host", "0.1.0", "resumed", report.lost_events}));
    must(log.append(NoteAdded{"and so on", "person"}));
    must(log.append(NoteAdded{"and so on", "person"}));
    must(log.write_snapshot());
  }
  // Going on does not heal it.
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("goes on behind a cut")));
}

// The WAL.

TEST_F(DamageTest, AnAppendThatWasCutShortIsReportedAndCostsNothingElse) {
  killed_log_of(9);
  const std::string whole = must(read_file(wal()));
  // Cut in the last frame: as if the kill had come in the middle of its write.
  fs::resize_file(wal(), whole.size() - 100);
  Log log = old_log();
  EXPECT_THAT(log.report().torn, HasSubstr("cut short"));
  EXPECT_EQ(log.report().events, 9);
  EXPECT_EQ(must(log.append(note("goes on"))).sequence, 10);
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(DamageTest, AFlippedBitInTheLastFrameCostsTheLastRecord) {
  killed_log_of(9);
  flip(wal(), static_cast<int64_t>(fs::file_size(wal())) - 500);
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("log.db-wal is damaged")));
  Log log = old_log();
  EXPECT_THAT(log.report().torn, HasSubstr("log.db-wal is damaged"));
  EXPECT_EQ(log.report().events, 9);
  must(log.append(note("goes on")));
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(DamageTest, AFlippedBitInTheMiddleOfTheWalIsNotSwallowed) {
  killed_log_of(30);
  flip(wal(), static_cast<int64_t>(fs::file_size(wal())) / 2);
  const Result<Log> log = Log::open(folder());
  ASSERT_FALSE(log);  // SQLite alone would go on and overwrite what is behind
  EXPECT_EQ(log.error().fault, Fault::corrupt);
  EXPECT_THAT(log.error().what, HasSubstr("appends after it cannot be read"));
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("log.db-wal is damaged")));
  EXPECT_GT(must(must(Reader::open(folder())).last_sequence()), 5);
}

TEST_F(DamageTest, ADamagedWalHeaderIsNotSwallowed) {
  killed_log_of(30);
  flip(wal(), 18);
  EXPECT_EQ(Log::open(folder()).error().fault, Fault::corrupt);
  EXPECT_THAT(problems(), testing::Contains(HasSubstr("log.db-wal is damaged")));
}

TEST_F(DamageTest, TheWalOfALiveRunIsWhole) {
  Log log = log_of(0);
  for (int i = 0; i < 1500; ++i) {  // over a checkpoint: frames of two generations
    must(log.append(note(std::string(500, 'x'))));
    if (i % 97 != 0) continue;
    const store::WalTail tail = must(store::inspect_wal(wal()));
    EXPECT_EQ(tail.unread_bytes, 0);
    EXPECT_EQ(tail.lost_commits, 0);
  }
}

// Bytes at random: a clear result, whatever it is, and never more events than there were.
TEST_F(DamageTest, RandomDamageNeverCrashes) {
  killed_log_of(60);
  const std::string log_bytes = must(read_file(log_path())), wal_bytes = must(read_file(wal()));
  std::mt19937_64 random(7);
  for (int round = 0; round < 150; ++round) {
    std::string log_copy = log_bytes, wal_copy = wal_bytes;
    for (int i = 0; i < 4; ++i) {
      std::string& target = random() % 2 ? log_copy : wal_copy;
      target[random() % target.size()] = static_cast<char>(random());
    }
    fs::remove(log_path().string() + "-shm");
    must(write_file(log_path(), log_copy));
    must(write_file(wal(), wal_copy));
    (void)verify_run(folder());
    if (Result<Reader> reader = Reader::open(folder())) {
      const Result<State> state = reader->fold();
      EXPECT_TRUE(!state || state->events <= 61);
    }
    if (Result<Log> log = Log::open(folder())) (void)log->append(note("goes on"));
  }
}

// Keys and artifacts.

Event run(Log& log, const Payload& payload) { return must(log.append(payload)); }

TEST_F(DamageTest, ASecondOutcomeOfAKeyIsFound) {
  Log log = log_of(0);
  run(log, EvaluationStarted{1, "c", "", "key-1", 1});
  run(log, EvaluationFinished{1, "c", "key-1", {}, 1});
  EXPECT_THAT(problems(), IsEmpty());
  run(log, EvaluationFinished{1, "c", "key-1", {}, 1});
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("a second outcome of key key-1")));
}

TEST_F(DamageTest, ASecondIntentNeedsARepeat) {
  Log log = log_of(0);
  run(log, EvaluationStarted{1, "c", "", "key-1", 1});
  run(log, EvaluationRepeated{1, "key-1", "the process was killed"});
  run(log, EvaluationStarted{1, "c", "", "key-1", 1});
  EXPECT_THAT(problems(), IsEmpty());
  run(log, EvaluationStarted{2, "c", "", "key-1", 1});
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("a second intent of key key-1")));
}

TEST_F(DamageTest, AnOutcomeNeedsAnIntent) {
  Log log = log_of(0);
  run(log, EvaluationFinished{1, "c", "key-1", {}, 1});
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("without an intent")));
}

TEST_F(DamageTest, MissingAndChangedArtifactsAreFound) {
  Log log = log_of(0);
  Artifacts artifacts = must(Artifacts::open(folder()));
  CandidateAdded added;
  added.candidate = "c1";
  added.files = {{"a.cc", must(artifacts.put("int a;"))}, {"b.cc", must(artifacts.put("int b;"))}};
  run(log, added);
  EXPECT_THAT(problems(), IsEmpty());
  must(write_file(artifacts.path_of(added.files["a.cc"]), "int b;"));
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("does not fit its hash")));
  fs::remove(artifacts.path_of(added.files["a.cc"]));
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("is missing, event 2 names it")));
  added.files = {{"a.cc", "../../etc/passwd"}};
  added.candidate = "c2";
  run(log, added);
  EXPECT_THAT(problems(), testing::Contains(HasSubstr("which is no hash")));
}

TEST_F(DamageTest, PrunedArtifactsMayBeMissingButNotThoseThatPruneKeeps) {
  Log log = log_of(0);
  Artifacts artifacts = must(Artifacts::open(folder()));
  std::vector<std::string> hashes;
  for (int i = 0; i < 4; ++i) {
    hashes.push_back(must(artifacts.put(fmt::format("int a{};", i))));
    CandidateAdded added;
    added.candidate = fmt::format("c{}", i);
    added.files = {{"a.cc", hashes.back()}};
    run(log, added);
  }
  run(log, IncumbentChanged{"c1", "", {}, {}, 1});
  const PruneReport report = must(prune_artifacts(folder(), log.state(), false));
  EXPECT_EQ(report.removed_files, 2);
  EXPECT_EQ(report.kept_files, 2);
  EXPECT_EQ(problems().size(), 2U);  // nothing on record says why they are gone
  run(log, ArtifactsPruned{report.removed_files, report.removed_bytes});
  EXPECT_THAT(problems(), IsEmpty());
  EXPECT_TRUE(artifacts.has(hashes[1]));
  EXPECT_TRUE(artifacts.has(hashes[3]));
  fs::remove(artifacts.path_of(hashes[1]));
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("is missing")));
}

}  // namespace marathon
