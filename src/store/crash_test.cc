// SIGKILL at random moments: every append that returned is there, and nothing is broken.
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "store/store_fixture.h"

namespace marathon {

using CrashTest = StoreTest;

// Appends until it is killed, and counts in shared memory what has returned.
[[noreturn]] void append_for_ever(const std::filesystem::path& folder, std::atomic<int64_t>& done) {
  Result<Log> log = Log::open(folder);
  if (!log) ::_exit(1);
  for (int64_t i = 0;; ++i) {
    if (!log->append(note(std::string(static_cast<size_t>(i * 37 % 4000), 'x')))) ::_exit(2);
    done = log->state().events;
  }
}

TEST_F(CrashTest, AHundredKillsLoseNothing) {
  void* shared = ::mmap(nullptr, sizeof(std::atomic<int64_t>), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  std::atomic<int64_t>& done = *new (shared) std::atomic<int64_t>(0);
  { const Log log = new_log(); }
  std::mt19937_64 random(11);
  for (int round = 0; round < 100; ++round) {
    const int64_t before = done;
    const pid_t child = ::fork();
    if (child == 0) append_for_ever(folder(), done);
    // Wait for progress, not for time; then kill it somewhere in the middle of what follows.
    const int64_t enough = before + static_cast<int64_t>(random() % 40);
    while (done < enough + 1) std::this_thread::yield();
    std::atomic<uint64_t> spin = 0;
    for (const uint64_t turns = random() % 200'000; spin < turns;) ++spin;
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended with " << WEXITSTATUS(status);
    const int64_t returned = done, found = must(must(Reader::open(folder())).last_sequence());
    ASSERT_GE(found, returned);
    ASSERT_LE(found, returned + 1);  // one may have been durable and not yet returned
  }
  const VerifyReport report = must(verify_run(folder()));
  EXPECT_THAT(report.problems, testing::IsEmpty());
  EXPECT_GE(report.events, done);
  ::munmap(shared, sizeof(std::atomic<int64_t>));
}

// The switch of the end-to-end tests. In a child, where the switch is read for the first time.
TEST_F(CrashTest, TheSwitchKillsAfterTheNthAppend) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("MARATHON_TEST_KILL_AFTER_APPEND", "3", 1);
    ::execl("/proc/self/exe", "store_test", "--gtest_filter=CrashChild.DISABLED_Appends",
            "--gtest_also_run_disabled_tests", ("--folder=" + folder().string()).c_str(), nullptr);
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(events().size(), 3U);
}

TEST(CrashChild, DISABLED_Appends) {
  const std::vector<std::string> arguments = testing::internal::GetArgvs();
  const std::string folder = arguments.back().substr(sizeof "--folder=" - 1);
  Log log = must(Log::create(folder, "demo-1"));
  for (int i = 0; i < 9; ++i) must(log.append(note("n")));
}

TEST_F(CrashTest, TheFaultSwitchWorksOnARealProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("MARATHON_TEST_FAULT", "enospc:1+100000", 1);
    ::execl("/proc/self/exe", "store_test", "--gtest_filter=CrashChild.DISABLED_IsFull",
            "--gtest_also_run_disabled_tests", ("--folder=" + folder().string()).c_str(), nullptr);
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(CrashChild, DISABLED_IsFull) {
  const std::vector<std::string> arguments = testing::internal::GetArgvs();
  const std::string folder = arguments.back().substr(sizeof "--folder=" - 1);
  const Result<Log> log = Log::create(folder, "demo-1");
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().fault, Fault::no_space);
}

}  // namespace marathon
