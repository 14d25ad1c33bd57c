#include "base/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "base/clock.h"
#include "base/process_tree.h"

namespace marathon {
namespace {

ProcessSpec shell(const std::string& script) {
  ProcessSpec spec;
  spec.argv = {"sh", "-c", script};
  spec.environment = {"PATH=/usr/bin:/bin"};
  spec.timeout_s = 20;
  return spec;
}

class Processes : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(become_subreaper()); }
  // Whatever a test started is gone when it ends.
  void TearDown() override { EXPECT_TRUE(descendants_of(::getpid()).empty()); }
};

TEST_F(Processes, GivesOutputAndExitCode) {
  const ProcessResult result = *run_process(shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_FALSE(result.timed_out);
}

TEST_F(Processes, SignalIsNoExitCode) {
  const ProcessResult result = *run_process(shell("kill -SEGV $$"));
  EXPECT_EQ(result.exit_code, -1);
  EXPECT_EQ(result.signal, SIGSEGV);
}

TEST_F(Processes, EnvironmentAndStandardInputAreNotInherited) {
  ::setenv("MARATHON_TEST_SECRET", "sk-1", 1);
  const ProcessResult result = *run_process(shell("env; cat"));
  EXPECT_EQ(result.out.find("SECRET"), std::string::npos);
  ::unsetenv("MARATHON_TEST_SECRET");
}

TEST_F(Processes, MissingProgramIsNamed) {
  ProcessSpec spec;
  spec.argv = {"no-such-program-here"};
  const Result<ProcessResult> result = run_process(spec);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::not_found);
}

TEST_F(Processes, OutputIsBoundedButCounted) {
  ProcessSpec spec = shell("head -c 50000000 /dev/zero | tr '\\0' x; echo end");
  spec.keep_bytes = 1000;
  const TempFolder folder = std::move(*TempFolder::make("marathon-test"));
  spec.output_file = folder.path() / "all";
  spec.output_file_max = 2'000'000;
  const ProcessResult result = *run_process(spec);
  EXPECT_EQ(result.out_bytes, 50'000'004);
  EXPECT_LT(result.out.size(), 1200u);
  EXPECT_NE(result.out.find("bytes left out"), std::string::npos);
  EXPECT_TRUE(result.out.ends_with("xend\n"));
  EXPECT_EQ(std::filesystem::file_size(spec.output_file), 2'000'000u);
}

TEST_F(Processes, IgnoringSigtermHelpsNobody) {
  ProcessSpec spec = shell("trap '' TERM; while :; do sleep 1; done");
  spec.timeout_s = 0.2;
  const ProcessResult result = *run_process(spec);
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_LT(result.wall_s, 5);
}

TEST_F(Processes, WhatCalledSetsidIsSweptToo) {
  const ProcessResult result = *run_process(
      shell("setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) ; exit 0"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_GE(result.swept, 2);
}

TEST_F(Processes, AGrandchildThatHoldsThePipeDoesNotHangUs) {
  const int64_t start_us = monotonic_us();
  const ProcessResult result = *run_process(shell("sleep 1000 & echo done"));
  EXPECT_EQ(result.out, "done\n");
  EXPECT_LT(monotonic_us() - start_us, 5'000'000);
}

TEST_F(Processes, AForkBombIsEnded) {
  ProcessSpec spec = shell("f() { f | f & }; f; sleep 100");
  spec.max_processes = 60;
  const ProcessResult result = *run_process(spec);
  EXPECT_TRUE(result.too_many_processes);
}

// One process, and yet it would use up the machine's pids.
TEST_F(Processes, ABombOfThreadsIsEnded) {
  ProcessSpec spec = shell(
      "exec python3 -c 'import threading, time\n"
      "for i in range(2000): threading.Thread(target=time.sleep, args=(100,)).start()'");
  spec.max_processes = 4;
  const ProcessResult result = *run_process(spec);
  EXPECT_TRUE(result.too_many_processes) << result.err;
  EXPECT_LT(result.wall_s, 10);
}

TEST_F(Processes, MemoryOfTheTreeIsWatched) {
  ProcessSpec spec = shell("sh -c 'x=x; while :; do x=$x$x; done'");
  spec.max_memory_bytes = 200 << 20;
  const ProcessResult result = *run_process(spec);
  EXPECT_TRUE(result.too_much_memory || result.exit_code != 0);
}

TEST_F(Processes, AStopRequestEndsItAtOnce) {
  std::stop_source source;
  std::thread stopper([&] { source.request_stop(); });
  const Result<ProcessResult> result = run_process(shell("sleep 1000"), source.get_token());
  stopper.join();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::cancelled);
}

TEST_F(Processes, DescriptorsArePassedByNumberAndNoOtherLeaks) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);  // without O_CLOEXEC on purpose
  ProcessSpec spec = shell("echo hello >&7; ls /proc/self/fd | tr '\\n' ' '");
  spec.pass_fds = {{ends[1], 7}};
  const ProcessResult result = *run_process(spec);
  char text[16] = {};
  EXPECT_EQ(::read(ends[0], text, sizeof text), 6);
  EXPECT_STREQ(text, "hello\n");
  // 0, 1, 2, 7 and the folder that ls itself opened.
  EXPECT_EQ(result.out, "0 1 2 3 7 ");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(Processes, APausedChildStandsStill) {
  Process child = std::move(*Process::start(shell("while :; do :; done")));
  ASSERT_TRUE(child.pause());
  const int64_t before = *cpu_time_ns(child.pid());
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(*cpu_time_ns(child.pid()), before);
  ASSERT_TRUE(child.resume());
  ASSERT_TRUE(child.pause());
  child.kill_and_sweep();
  EXPECT_EQ(child.result().signal, SIGKILL);
}

TEST_F(Processes, PausingOneThatStoppedItselfDoesNotWaitForEver) {
  Process child = std::move(*Process::start(shell("kill -STOP $$; while :; do :; done")));
  const int64_t start_us = monotonic_us();
  while (!all_threads_stopped(child.pid()) && monotonic_us() - start_us < 5'000'000) ::usleep(1000);
  ASSERT_TRUE(child.pause());
  ASSERT_TRUE(child.resume());
  EXPECT_FALSE(all_threads_stopped(child.pid()));
  EXPECT_LT(monotonic_us() - start_us, 5'000'000);
}

TEST_F(Processes, PausingADeadChildSaysSo) {
  Process child = std::move(*Process::start(shell("exit 0")));
  ASSERT_TRUE(*child.wait(10));
  EXPECT_FALSE(child.pause());
}

TEST_F(Processes, ASweepLeavesLiveChildrenAlone) {
  Process child = std::move(*Process::start(shell("sleep 1000")));
  ASSERT_TRUE(run_process(shell("setsid sleep 1000 & exit 0")));
  EXPECT_FALSE(*child.wait(0.01));
}

// A sweep must not take what another thread has only just started for a stray.
TEST_F(Processes, SweepsOnOneThreadSpareTheChildrenOfAnother) {
  std::atomic<bool> over = false;
  std::thread sweeper([&] {
    while (!over) {
      sweep_strays();
      ::usleep(1000);
    }
  });
  for (int i = 0; i < 100; ++i) {
    const ProcessResult result = *run_process(shell("exit 3"));
    EXPECT_EQ(result.exit_code, 3) << "signal " << result.signal;
  }
  over = true;
  sweeper.join();
}

}  // namespace
}  // namespace marathon
