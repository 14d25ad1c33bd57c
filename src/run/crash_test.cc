// SIGKILL after every append, at random moments, and faults at every write: the same fold as if
// nothing had happened. Children are this very binary, so that the store's switches are fresh.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "run/run_fixture.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

std::string argument(const std::string& name) {
  for (const std::string& text : testing::internal::GetArgvs()) {
    if (text.starts_with("--" + name + "=")) return text.substr(name.size() + 3);
  }
  return "";
}

// Every tool, answers from the log, a refused claim, and one that is borne out.
std::vector<ListProvider::Calls> tool_turns() {
  const std::string faster = evaluate_call(R"({"A": 4, "BB": 2, "CCC": 1})");
  return {
      {{"list_files", "{}"}, {"read_file", R"({"path": "solution.cc"})"}},
      {{"note", R"({"text": "the same note"})"}, {"note", R"({"text": "the same note"})"}},
      {{"write_file", R"({"path": "extra/new.h", "content": "int n;\n"})"},
       {"edit_file", R"({"path": "solution.cc", "old": "0.8", "new": "1.5"})"},
       {"evaluate", evaluate_call()}},
      {{"evaluate", faster}, {"evaluate", faster}},
      {{"write_file", R"({"path": "solution.cc", "content": "ambiguous"})"},
       {"evaluate", evaluate_call()},
       {"evaluate", evaluate_call()}},
      {{"finish", R"({"text": "done?"})"}, {"nonsense", "{"}, {"evaluate", "[]"}},
      {{"best", "{}"}, {"history", "{}"}},
      {{"write_file", R"({"path": "solution.cc", "content": "speed 4\n"})"},
       {"evaluate", evaluate_call()}},
      {{"finish", R"({"text": "done"})"}},
      {{"note", R"({"text": "never reached"})"}},
  };
}

}  // namespace

// Starts the run, or resumes it where there is one.
TEST(RunChild, DISABLED_Goes) {
  FakeExecutor executor;
  ListProvider tools(tool_turns());
  RunOptions options;
  options.home = argument("home");
  options.task_folder = argument("task");
  options.name = argument("run");
  options.executor = &executor;
  options.budget.evaluations = std::stoll(argument("evaluations"));
  if (argument("agent") == "tools") options.provider = &tools;
  std::stop_source stop;
  options.on_trouble = [&](const std::string&) {
    if (argument("stop") == "at-trouble") stop.request_stop();
  };
  const bool is_there = fs::exists(run_folder(options.home, options.name) / "log.db");
  const Result<RunOutcome> outcome = is_there ? resume_run(options, options.name, stop.get_token())
                                              : start_run(options, stop.get_token());
  ASSERT_TRUE(outcome) << outcome.error().what;
}

class CrashTest : public RunTest {
 protected:
  struct Job {
    std::string run = "", agent = "search", environment = "", stop = "";
    int64_t evaluations = 30;
  };

  pid_t spawn(const Job& job) const {
    const std::vector<std::string> words = {"run_crash_test",
                                            "--gtest_filter=RunChild.DISABLED_Goes",
                                            "--gtest_also_run_disabled_tests",
                                            "--home=" + home().string(),
                                            "--task=" + task().string(),
                                            "--run=" + job.run,
                                            "--agent=" + job.agent,
                                            "--stop=" + job.stop,
                                            "--evaluations=" + std::to_string(job.evaluations)};
    std::vector<char*> argv, environment;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    for (char** at = environ; *at; ++at) environment.push_back(*at);
    if (!job.environment.empty()) environment.push_back(const_cast<char*>(job.environment.c_str()));
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const std::string log = (temp_.path() / (job.run + ".out")).string();
    posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t pid = -1;
    const int failed =
        ::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_EQ(failed, 0);
    return pid;
  }

  static int wait_for(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
  }

  bool go(const Job& job) const {  // true: it ended by itself and well
    const int status = wait_for(spawn(job));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  std::string said_by(const std::string& run) const {
    const Result<std::string> text = read_file(temp_.path() / (run + ".out"));
    return text ? *text : "";
  }

  State state_of(const std::string& run) const {
    return must(must(Reader::open(folder(run))).fold(false));
  }

  // What an agent was told, call by call.
  std::vector<std::string> told(const std::string& run) const {
    std::vector<std::string> texts;
    for (const Event& event : events(run)) {
      const Payload payload = must(decode_payload(event.payload_type, event.payload));
      if (const ToolFinished* done = std::get_if<ToolFinished>(&payload))
        texts.push_back(done->result);
    }
    return texts;
  }

  void remember(const Job& whole) {
    ASSERT_TRUE(go(whole)) << said_by(whole.run);
    want_ = fold_fingerprint(state_of(whole.run));
    want_told_ = told(whole.run);
    want_commit_ = state_of(whole.run).attempts.back().commit;
  }

  void expect_equal(const std::string& run) const {
    const State state = state_of(run);
    EXPECT_EQ(fold_fingerprint(state), want_) << run;
    EXPECT_EQ(told(run), want_told_) << run;
    EXPECT_EQ(state.attempts.back().commit, want_commit_) << run;
    EXPECT_EQ(state.unknown_events, 0) << run;
    EXPECT_THAT(must(verify_run(folder(run))).problems, testing::IsEmpty()) << run;
    must(remove_tree(folder(run)));
  }

  void kill_and_resume(Job job, int64_t n) const {
    job.run = fmt::format("kill-{}", n);
    job.environment = fmt::format("MARATHON_TEST_KILL_AFTER_APPEND={}", n);
    const int status = wait_for(spawn(job));
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << n << said_by(job.run);
    job.environment.clear();
    if (!state_of(job.run).ending) {
      ASSERT_TRUE(go(job)) << n << said_by(job.run);
    }
    expect_equal(job.run);
  }

  // Calls `each` for 1 … last, two at a time.
  static void two_at_a_time(int64_t last, const std::function<void(int64_t)>& each) {
    std::atomic<int64_t> next = 1;
    const auto work = [&] {
      for (int64_t n = next++; n <= last && !HasFailure(); n = next++) each(n);
    };
    std::thread other(work);
    work();
    other.join();
  }

  void matrix(const Job& whole) {
    remember(whole);
    const int64_t appends = state_of(whole.run).events;
    ASSERT_GT(appends, whole.evaluations);
    two_at_a_time(appends, [&](int64_t n) { kill_and_resume(whole, n); });
  }

  std::string want_, want_commit_;
  std::vector<std::string> want_told_;
};

TEST_F(CrashTest, AKillAfterEveryAppendOfASearchOfThirty) { matrix({.run = "whole"}); }

TEST_F(CrashTest, AKillAfterEveryAppendOfEveryTool) {
  matrix({.run = "whole", .agent = "tools", .evaluations = 20});
  EXPECT_EQ(state_of("whole").notes.size(), 2U);
  EXPECT_EQ(state_of("whole").ending->ending, Ending::goal_met);
}

// Killed after one append, again and again, it still arrives.
TEST_F(CrashTest, AKillAfterEveryFourthAppend) {
  remember({.run = "whole", .agent = "tools", .evaluations = 20});
  Job job{.run = "limping",
          .agent = "tools",
          .environment = "MARATHON_TEST_KILL_AFTER_APPEND=4",
          .evaluations = 20};
  int64_t kills = 0;
  while (!fs::exists(folder(job.run) / "log.db") || !state_of(job.run).ending) {
    const int status = wait_for(spawn(job));
    ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << said_by(job.run);
    ASSERT_LT(++kills, 500);
  }
  EXPECT_GT(kills, 20);
  expect_equal(job.run);
}

TEST_F(CrashTest, KillsAtRandomMoments) {
  remember({.run = "whole"});
  std::mt19937_64 random(7);
  int kills = 0;
  for (int round = 0; kills < 40; ++round) {
    const Job job{.run = fmt::format("round-{}", round)};
    while (true) {
      const pid_t pid = spawn(job);
      // The moment is the test, not a wait for something.
      ::usleep(static_cast<useconds_t>(random() % 150'000));
      ::kill(pid, SIGKILL);
      const int status = wait_for(pid);
      if (WIFEXITED(status)) {
        ASSERT_EQ(WEXITSTATUS(status), 0) << said_by(job.run);
        break;
      }
      ++kills;
      if (fs::exists(folder(job.run) / "log.db") && state_of(job.run).ending) break;
    }
    expect_equal(job.run);
  }
}

TEST_F(CrashTest, AFaultAtEveryWriteIsWaitedOut) {
  const Job whole{.run = "whole", .agent = "tools", .evaluations = 3};
  remember(whole);
  for (const std::string kind : {"enospc", "short", "eio"}) {
    two_at_a_time(70, [&](int64_t n) {
      Job job = whole;
      job.run = fmt::format("{}-{}", kind, n);
      job.environment = fmt::format("MARATHON_TEST_FAULT={}:{}", kind, n);
      const bool ended = go(job);
      // Before the first event there is nothing to wait for: the start is refused and leaves
      // nothing.
      if (!ended) {
        ASSERT_FALSE(fs::exists(folder(job.run))) << job.run << said_by(job.run);
        job.environment.clear();
        ASSERT_TRUE(go(job)) << said_by(job.run);
      }
      expect_equal(job.run);
    });
  }
}

TEST_F(CrashTest, ADiskThatStaysFullIsWaitedForAndSaid) {
  remember({.run = "whole", .evaluations = 4});
  Job job{.run = "full", .environment = "MARATHON_TEST_FAULT=enospc:60+4", .evaluations = 4};
  ASSERT_TRUE(go(job)) << said_by(job.run);
  int64_t waits = 0;
  for (const Event& event : events(job.run)) waits += event.payload_type == "storage.waited";
  EXPECT_EQ(waits, 1);
  expect_equal(job.run);
}

TEST_F(CrashTest, AStopWhileTheDiskIsFullLosesNothing) {
  remember({.run = "whole", .evaluations = 4});
  Job job{.run = "full",
          .environment = "MARATHON_TEST_FAULT=enospc:60+1000000",
          .stop = "at-trouble",
          .evaluations = 4};
  ASSERT_TRUE(go(job)) << said_by(job.run);
  EXPECT_FALSE(state_of(job.run).ending);
  job.environment = job.stop = "";
  ASSERT_TRUE(go(job)) << said_by(job.run);
  expect_equal(job.run);
}

}  // namespace marathon
