// A full disk, a short write, a device that fails: at every write and sync there is.
#include <gmock/gmock.h>

#include "store/store_fixture.h"

namespace marathon {

namespace fs = std::filesystem;
using store::FaultKind;
using store::FaultPlan;
using testing::HasSubstr;

constexpr FaultKind all_kinds[] = {FaultKind::enospc, FaultKind::eio, FaultKind::short_write};

class FaultTest : public StoreTest {
 protected:
  FaultTest() { store::set_fault_plan({FaultKind::eio, 1'000'000, 1}); }  // counts from the start

  std::vector<std::string> problems() const { return must(verify_run(folder())).problems; }
};

TEST(FaultSwitch, ReadsItsText) {
  const FaultPlan plan = must(store::parse_fault("enospc:7+3"));
  EXPECT_EQ(plan.kind, FaultKind::enospc);
  EXPECT_EQ(plan.first, 7);
  EXPECT_EQ(plan.count, 3);
  EXPECT_EQ(must(store::parse_fault("short:1")).kind, FaultKind::short_write);
  EXPECT_EQ(must(store::parse_fault("eio:12")).count, 1);
  for (const char* bad : {"", "eio", "eio:", "eio:0", "eio:-1", "eio:7+", "eio:7+x", "eio:7 ",
                          "oops:1", ":1", "+:1", "eio+1:2"}) {
    EXPECT_FALSE(store::parse_fault(bad)) << bad;
  }
}

TEST_F(FaultTest, EveryWriteOfTheLogMayFailOnce) {
  for (const FaultKind kind : all_kinds) {
    for (int64_t n = 1; n < 200; ++n) {
      fs::remove_all(folder());
      Log log = new_log();
      store::set_fault_plan({kind, n, 1});
      int64_t failed = 0;
      for (int64_t i = 0; i < 12; ++i) {
        const std::string text = fmt::format("note {} {}", i, std::string(i * 900, 'x'));
        Result<Event> event = log.append(note(text));
        for (; !event && failed < 5; ++failed) {
          EXPECT_EQ(event.error().fault, kind == FaultKind::eio ? Fault::system : Fault::no_space);
          EXPECT_THAT(event.error().what, HasSubstr("Nothing was appended and nothing is lost"));
          EXPECT_EQ(static_cast<int64_t>(log.state().notes.size()), i);
          EXPECT_EQ(static_cast<int64_t>(events().size()), i);  // nothing half-written
          event = log.append(note(text));                       // and usable at once
        }
        EXPECT_EQ(must(std::move(event)).sequence, i + 1);
      }
      EXPECT_LE(failed, 1);
      EXPECT_EQ(events().size(), 12U);
      EXPECT_THAT(problems(), testing::IsEmpty());
      if (n > store::writes_counted()) break;  // there is no n-th write: all have been tried
    }
  }
}

TEST_F(FaultTest, AFailedAppendIsForgottenByTheNextProcessToo) {
  { const Log log = log_of(3); }
  {
    Log log = old_log();
    store::set_fault_plan({FaultKind::enospc, 1, 1000});
    EXPECT_FALSE(log.append(note("lost")));
  }
  store::clear_fault_plan();
  Log log = old_log();
  EXPECT_EQ(log.report().events, 4);
  EXPECT_EQ(must(log.append(note("goes on"))).sequence, 5);
}

TEST_F(FaultTest, ADiskThatStaysFullSaysWhatToDo) {
  Log log = log_of(3);
  store::set_fault_plan({FaultKind::enospc, 1, 1000});
  for (int i = 0; i < 3; ++i) {
    const Result<Event> event = log.append(note("no"));
    ASSERT_FALSE(event);
    EXPECT_THAT(event.error().what, HasSubstr("`marathon prune` of a run that nobody writes"));
  }
  store::clear_fault_plan();
  EXPECT_EQ(must(log.append(note("yes"))).sequence, 5);
  EXPECT_THAT(problems(), testing::IsEmpty());
}

TEST_F(FaultTest, ALogIsCreatedWholeOrNotAtAll) {
  for (const FaultKind kind : all_kinds) {
    for (int64_t n = 1; n < 100; ++n) {
      fs::remove_all(folder());
      store::set_fault_plan({kind, n, 1});
      const Result<Log> log = Log::create(folder(), "demo-1");
      if (log) {
        // The fault hit what does no harm, or came too late. Then all of them have been tried.
        if (store::writes_counted() < n) break;
        continue;
      }
      for (const fs::directory_entry& entry : fs::directory_iterator(folder()))
        ADD_FAILURE() << "left behind: " << entry.path();
      store::clear_fault_plan();
      EXPECT_EQ(must(new_log().append(note("now"))).sequence, 1);
    }
  }
}

TEST_F(FaultTest, ACheckpointThatFailsCostsNothing) {
  for (const FaultKind kind : all_kinds) {
    fs::remove_all(folder());
    Log log = log_of(0);
    // Far more writes than appends need two for: those of the checkpoints are hit as well.
    for (int i = 0; i < 1200; ++i) {
      if (i % 10 == 0) store::set_fault_plan({kind, 3 + i % 90, 1});
      Result<Event> event = log.append(note("n"));
      if (!event) event = log.append(note("n"));
      ASSERT_TRUE(event) << event.error().what;
    }
    EXPECT_EQ(events().size(), 1201U);
    EXPECT_THAT(problems(), testing::IsEmpty());
  }
}

TEST_F(FaultTest, AnArtifactIsStoredWholeOrNotAtAll) {
  const std::string content(10'000, 'a');
  for (const FaultKind kind : all_kinds) {
    for (int64_t n = 1;; ++n) {
      fs::remove_all(folder());
      must(make_folders(folder()));
      Artifacts artifacts = must(Artifacts::open(folder()));
      store::set_fault_plan({kind, n, 1});
      const Result<std::string> hash = artifacts.put(content);
      if (hash && store::writes_counted() < n) break;
      ASSERT_FALSE(hash);
      EXPECT_EQ(hash.error().fault, kind == FaultKind::eio ? Fault::system : Fault::no_space);
      EXPECT_EQ(artifacts.bytes(), 0);
      for (const fs::path& left : must(list_files(folder()))) ADD_FAILURE() << left;
      const std::string again = must(artifacts.put(content));
      EXPECT_EQ(must(artifacts.get(again)), content);
      EXPECT_EQ(artifacts.bytes(), 10'000);
    }
  }
}

}  // namespace marathon
