#include <fcntl.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/hash.h"
#include "store/store_fixture.h"

namespace marathon {

namespace fs = std::filesystem;

using LogTest = StoreTest;

TEST_F(LogTest, AppendsReadBackAsTheyWereWritten) {
  Log log = new_log();
  const Event first = must(log.append(note("one")));
  const Event second = must(log.append(note("two"), first.id));
  EXPECT_EQ(first.id, "demo-1/1");
  EXPECT_EQ(second.previous_hash, first.hash);
  EXPECT_EQ(second.causation_id, first.id);
  const std::vector<Event> all = events();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(to_json_line(all[0]), to_json_line(first));
  EXPECT_EQ(to_json_line(all[1]), to_json_line(second));
  EXPECT_EQ(all[1].stream_id, "demo-1");
}

TEST_F(LogTest, TheStateIsTheFoldOfTheLog) {
  Log log = log_of(20);
  EXPECT_EQ(text_of(log.state()), text_of(must(must(Reader::open(folder())).fold())));
}

// The fold from disk leaves out what the state does not need; the writer's state saw all of it.
TEST_F(LogTest, TheFoldFromDiskLeavesOutNothingThatCounts) {
  Log log = log_of(0);
  CandidateAdded added;
  added.candidate = "c1";
  must(log.append(added));
  must(log.append(EvaluationStarted{1, "c1", "", "k1", 1}));
  must(log.append(EvaluationStage{1, "build", "g++", 1.5}));
  EvaluationFinished finished{1, "c1", "k1", {}, 7};
  finished.verdict.kind = VerdictKind::faster;
  finished.verdict.speedup = {2.5, 2.4, 2.6};
  finished.verdict.gain = {1.5, 1.4, 1.6};
  finished.verdict.reasons = {R"(a "quoted" reason with \ and }]{[ and "shapes":[1)"};
  finished.verdict.provenance.host = "}{\"";
  finished.verdict.provenance.flags = "\\";
  ShapeResult shape;
  shape.name = "T]}\"1";
  shape.outputs = {{"o", 1e-7, 1e-6, 2e-7, 4, "rows [0, 64)"}};
  finished.verdict.shapes = {shape, shape};
  finished.verdict.profile = ProfileSummary{"perf", {{"ipc", 1.5}}, {"bound by loads"}};
  must(log.append(finished));
  must(log.append(IncumbentChanged{"c1", "", finished.verdict.speedup, {}, 1}));
  const Reader reader = must(Reader::open(folder()));
  EXPECT_EQ(text_of(log.state()), text_of(must(reader.fold())));
  EXPECT_EQ(must(reader.fold()).attempts.front().profile_sentence, "bound by loads");
}

TEST_F(LogTest, GoesOnWhereItStopped) {
  const std::string hash = log_of(3).state().last_hash;
  Log log = old_log();
  EXPECT_EQ(log.report().events, 4);
  EXPECT_EQ(log.report().torn, "");
  const Event event = must(log.append(note("behind")));
  EXPECT_EQ(event.sequence, 5);
  EXPECT_EQ(event.previous_hash, hash);
  EXPECT_EQ(event.id, "demo-1/5");
}

TEST_F(LogTest, InvalidUtf8IsStoredAsTheFoldReadsIt) {
  Log log = new_log();
  must(log.append(note("a\xff\xfe z")));
  EXPECT_EQ(log.state().notes, must(must(Reader::open(folder())).fold()).notes);
}

TEST_F(LogTest, KeepsKindsOfNewerVersions) {
  Log log = new_log();
  must(log.append(Unknown{"moon.phase", R"({"b":1,"a":[true]})"}));
  EXPECT_EQ(events().front().payload, R"({"b":1,"a":[true]})");
  EXPECT_EQ(log.state().unknown_events, 1);
  EXPECT_EQ(log.append(Unknown{"moon.phase", "{"}).error().fault, Fault::invalid);
}

TEST_F(LogTest, RefusesWhatBelongsIntoAnArtifact) {
  Log log = new_log();
  const Result<Event> event = log.append(note(std::string(max_inline_bytes, 'x')));
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().fault, Fault::invalid);
  EXPECT_NE(event.error().what.find("put its large parts into artifacts"), std::string::npos);
  EXPECT_EQ(must(log.append(note("small"))).sequence, 1);
}

TEST_F(LogTest, ASecondCreateIsRefused) {
  const Log log = new_log();
  const Result<Log> again = Log::create(folder(), "demo-1");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().fault, Fault::invalid);
  EXPECT_NE(again.error().what.find("marathon resume demo-1"), std::string::npos);
}

TEST_F(LogTest, ARunThatNeverStartedIsSaidToBeSo) {
  const Result<Log> log = Log::open(folder());
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().fault, Fault::not_found);
  EXPECT_NE(log.error().what.find("never started"), std::string::npos);
  EXPECT_EQ(Reader::open(folder()).error().fault, Fault::not_found);
}

TEST_F(LogTest, OneFileARunOnceItIsClosed) {
  { const Log log = log_of(3); }
  EXPECT_TRUE(fs::exists(log_path()));
  EXPECT_FALSE(fs::exists(log_path().string() + "-wal"));
  EXPECT_FALSE(fs::exists(log_path().string() + "-shm"));
}

TEST_F(LogTest, TheFileRefusesUpdateAndDelete) {
  { const Log log = log_of(3); }
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(log_path().c_str(), &handle), SQLITE_OK);
  for (const char* sql : {"UPDATE events SET payload='{}' WHERE sequence=2", "DELETE FROM events",
                          "INSERT INTO events SELECT 'x',1,'','','',1,'','','','',1,'','',''"}) {
    EXPECT_NE(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sql;
  }
  sqlite3_close(handle);
}

TEST_F(LogTest, OtherFilesAreNoLogs) {
  must(make_folders(folder()));
  must(write_file(log_path(), "this is a diary"));
  EXPECT_EQ(Log::open(folder()).error().fault, Fault::corrupt);
  fs::remove(log_path());
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(log_path().c_str(), &handle), SQLITE_OK);
  sqlite3_exec(handle, "CREATE TABLE t(a)", nullptr, nullptr, nullptr);
  sqlite3_close(handle);
  EXPECT_EQ(Log::open(folder()).error().fault, Fault::invalid);
  EXPECT_EQ(Reader::open(folder()).error().fault, Fault::invalid);
}

TEST_F(LogTest, ANewerFormatAsksForTheNewerVersion) {
  { const Log log = log_of(1); }
  tamper("PRAGMA user_version=2");
  EXPECT_NE(Log::open(folder()).error().what.find("format 2"), std::string::npos);
}

TEST_F(LogTest, AMissingTriggerIsDamage) {
  { const Log log = log_of(1); }
  tamper("CREATE TABLE more(a)");
  EXPECT_EQ(Log::open(folder()).error().fault, Fault::corrupt);
}

TEST_F(LogTest, CheckpointsOnTheWayAndLosesNothing) {
  constexpr int64_t count = 3000;  // several times the 1000 pages of a checkpoint
  Log log = log_of(count);
  EXPECT_LT(fs::file_size(log_path().string() + "-wal"), 3U << 22);
  EXPECT_EQ(static_cast<int64_t>(events().size()), count + 1);
}

// Readers.

TEST_F(LogTest, AReaderFollowsALiveWriter) {
  Log log = log_of(0);
  const Reader reader = must(Reader::open(folder()));
  for (int64_t i = 1; i <= 50; ++i) {
    must(log.append(note("more")));
    EXPECT_EQ(must(reader.last_sequence()), i + 1);
  }
  EXPECT_EQ(must(reader.at(7)).sequence, 7);
  EXPECT_EQ(reader.at(99).error().fault, Fault::not_found);
}

TEST_F(LogTest, EachStopsWhenToldAndStartsBehindASequence) {
  const Log log = log_of(2500);  // more than two pages
  std::vector<int64_t> seen;
  must(must(Reader::open(folder())).each(1990, [&](const Event& event) {
    seen.push_back(event.sequence);
    return event.sequence < 2010;
  }));
  ASSERT_EQ(seen.size(), 20U);
  EXPECT_EQ(seen.front(), 1991);
  EXPECT_EQ(seen.back(), 2010);
}

TEST_F(LogTest, AReaderMayAskWhileItVisits) {
  const Log log = log_of(10);
  const Reader reader = must(Reader::open(folder()));
  must(reader.each(0, [&](const Event& event) {
    EXPECT_EQ(must(reader.at(event.sequence)).hash, event.hash);
    return true;
  }));
}

TEST_F(LogTest, ReadersAndTheWriterRunAtOnce) {
  Log log = log_of(0);
  std::vector<std::jthread> readers;
  readers.reserve(3);
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      int64_t seen = 0;
      while (seen < 401) {
        const State state = must(must(Reader::open(folder())).fold());
        EXPECT_GE(state.events, seen);
        seen = state.events;
      }
    });
  }
  for (int i = 0; i < 400; ++i) must(log.append(note(std::string(3000, 'x'))));
}

TEST_F(LogTest, AnOpenReaderNeverKeepsTheWalFromShrinking) {
  Log log = log_of(0);
  const Reader reader = must(Reader::open(folder()));
  must(reader.each(0, [](const Event&) { return false; }));
  for (int i = 0; i < 4000; ++i) must(log.append(note("more")));
  EXPECT_LT(fs::file_size(log_path().string() + "-wal"), 3U << 22);
}

// In a child, since the point is a process that is gone or that lacks rights.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void append_and_die(const fs::path& folder) {
  Result<Log> log = Log::create(folder, "demo-1");
  for (int i = 0; i < 5; ++i) {
    if (!log || !log->append(note("kept"))) ::_exit(1);
  }
  ::raise(SIGKILL);
}

TEST_F(LogTest, AReaderSeesAllThatAKilledWriterAppended) {
  EXPECT_EQ(in_child([&] { return append_and_die(folder()), 0; }), 128 + SIGKILL);
  EXPECT_TRUE(fs::exists(log_path().string() + "-wal"));
  EXPECT_EQ(events().size(), 5U);
  // It did not move the WAL: that is the writer's right alone.
  EXPECT_GT(fs::file_size(log_path().string() + "-wal"), 0U);
  Log log = old_log();
  EXPECT_EQ(log.report().events, 5);
  EXPECT_EQ(log.report().torn, "");
}

// Reads as somebody who may not write the folder; root may write everywhere, so rights are dropped.
int count_without_rights(const fs::path& folder) {
  if (::geteuid() == 0 && (::setegid(65534) != 0 || ::seteuid(65534) != 0)) return 200;
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK, AT_EACCESS) == 0) return 201;
  const Result<Reader> reader = Reader::open(folder);
  if (!reader) return 202;
  const Result<State> state = reader->fold();
  const Result<VerifyReport> verified = verify_run(folder);
  if (!state || !verified || !verified->problems.empty()) return 203;
  return static_cast<int>(state->events);
}

void forbid_writing(const fs::path& folder) {
  fs::permissions(folder.parent_path(), fs::perms(0755));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    fs::permissions(entry.path(), fs::perms(0444));
  fs::permissions(folder, fs::perms(0555));
}

TEST_F(LogTest, AClosedRunReadsFromAReadOnlyFolder) {
  { const Log log = log_of(6); }
  forbid_writing(folder());
  EXPECT_EQ(in_child([&] { return count_without_rights(folder()); }), 7);
  fs::permissions(folder(), fs::perms(0755));
}

TEST_F(LogTest, AKilledRunReadsFromAReadOnlyFolder) {
  EXPECT_EQ(in_child([&] { return append_and_die(folder()), 0; }), 128 + SIGKILL);
  fs::remove(log_path().string() + "-shm");
  forbid_writing(folder());
  EXPECT_EQ(in_child([&] { return count_without_rights(folder()); }), 5);
  fs::permissions(folder(), fs::perms(0755));
}

TEST_F(LogTest, AKilledRunReadsFromAReadOnlyFolderWithItsIndex) {
  EXPECT_EQ(in_child([&] { return append_and_die(folder()), 0; }), 128 + SIGKILL);
  ASSERT_TRUE(fs::exists(log_path().string() + "-shm"));
  forbid_writing(folder());
  EXPECT_EQ(in_child([&] { return count_without_rights(folder()); }), 5);
  fs::permissions(folder(), fs::perms(0755));
}

// Snapshots.

TEST_F(LogTest, ASnapshotGivesTheSameState) {
  std::string whole;
  {
    Log log = log_of(30);
    for (int i = 0; i < 1200; ++i) {  // several lines of attempts
      CandidateAdded added;
      added.candidate = sha256_hex(fmt::format("c{}", i));
      added.hypothesis = "wider tiles";
      added.configuration = {{"CHUNK", i}};
      must(log.append(added));
    }
    must(log.write_snapshot());
    must(log.append(note("behind the snapshot")));
    whole = text_of(log.state());
  }
  const Log log = old_log();
  EXPECT_TRUE(log.report().from_snapshot);
  EXPECT_EQ(text_of(log.state()), whole);
  const Reader reader = must(Reader::open(folder()));
  EXPECT_EQ(text_of(must(reader.fold(true))), whole);
  EXPECT_EQ(text_of(must(reader.fold(false))), whole);
}

TEST_F(LogTest, ADamagedSnapshotIsIgnored) {
  {
    Log log = log_of(30);
    must(log.write_snapshot());
  }
  const fs::path path = folder() / "snapshot.json";
  const std::string good = must(read_file(path));
  for (size_t i = 0; i < good.size(); i += 37) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    must(write_file(path, bad));
    EXPECT_EQ(old_log().state().notes.size(), 30U) << i;
  }
  must(write_file(path, ""));
  EXPECT_FALSE(old_log().report().from_snapshot);
  fs::remove(path);
  EXPECT_FALSE(old_log().report().from_snapshot);
}

TEST_F(LogTest, ASnapshotOfAnotherLogIsIgnored) {
  {
    Log log = log_of(30);
    must(log.write_snapshot());
  }
  const std::string other = must(read_file(folder() / "snapshot.json"));
  fs::remove_all(folder());
  { const Log log = log_of(40); }
  must(write_file(folder() / "snapshot.json", other));
  EXPECT_FALSE(old_log().report().from_snapshot);
}

}  // namespace marathon
