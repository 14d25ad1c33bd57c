// Each hostile act is tried in a forked child that entered the jail; its exit code tells what
// happened.
#include "base/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>

#include "base/file.h"

namespace marathon {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool has_shadow_memory = true;  // RLIMIT_AS cannot work beside it
#else
constexpr bool has_shadow_memory = false;
#endif

constexpr int allowed = 0, refused = 1;

// What `act` does inside the jail: its return value, or 128 + the signal that ended it.
int in_jail(const Jail& jail, const std::function<int()>& act, uid_t user = 0) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (user != 0 && ::getuid() == 0 && ::setresuid(user, user, user) != 0) ::_exit(99);
    if (!enter_jail(jail, true)) ::_exit(98);
    ::_exit(act());
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class Sandbox : public testing::TestWithParam<uid_t> {
 protected:
  void SetUp() override {
    if (probe_sandbox().level != SandboxLevel::full) GTEST_SKIP() << probe_sandbox().missing;
    folder_ = temp_.path() / "inside";
    ASSERT_TRUE(make_folders(folder_));
    ASSERT_EQ(::chmod(temp_.path().c_str(), 0755), 0);
    ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
    ASSERT_TRUE(write_file(temp_.path() / "secret", "oracle"));
    jail_ = toolchain_jail();
    jail_.read_write.push_back(folder_);
  }
  int act(const std::function<int()>& what) { return in_jail(jail_, what, GetParam()); }

  TempFolder temp_ = std::move(*TempFolder::make("marathon-jail"));
  std::filesystem::path folder_;
  Jail jail_;
};

int opens(const std::filesystem::path& path, int flags) {
  return ::open(path.c_str(), flags, 0644) >= 0 ? allowed : refused;
}

TEST_P(Sandbox, FilesInsideOnly) {
  EXPECT_EQ(act([&] { return opens(folder_ / "new", O_CREAT | O_WRONLY); }), allowed);
  EXPECT_EQ(act([&] { return opens(temp_.path() / "secret", O_RDONLY); }), refused);
  EXPECT_EQ(act([&] { return opens(temp_.path() / "new", O_CREAT | O_WRONLY); }), refused);
  EXPECT_EQ(act([&] { return opens("/etc/passwd", O_RDONLY); }), refused);
  EXPECT_EQ(act([&] { return opens("/usr/bin/env", O_RDONLY); }), allowed);
  EXPECT_EQ(act([&] { return opens("/proc/self/mem", O_RDWR); }), refused);
}

TEST_P(Sandbox, NoProcessesNoThreadsNoExec) {
  EXPECT_EQ(act([] { return ::fork() >= 0 ? allowed : refused; }), refused);
  EXPECT_EQ(act([] {
              ::execl("/usr/bin/true", "true", nullptr);
              return errno == EPERM ? refused : allowed;
            }),
            refused);
  jail_.allow_fork = jail_.allow_exec = true;
  EXPECT_EQ(act([] {
              const pid_t pid = ::fork();
              if (pid == 0) ::execl("/usr/bin/true", "true", nullptr);
              int status = 1;
              ::waitpid(pid, &status, 0);
              return pid > 0 && status == 0 ? allowed : refused;
            }),
            allowed);
}

TEST_P(Sandbox, NoNetwork) {
  EXPECT_EQ(act([] { return ::socket(AF_INET, SOCK_STREAM, 0) >= 0 ? allowed : refused; }),
            refused);
  EXPECT_EQ(act([] { return ::socket(AF_INET6, SOCK_DGRAM, 0) >= 0 ? allowed : refused; }),
            refused);
}

TEST_P(Sandbox, OtherProcessesAreOutOfReach) {
  const pid_t parent = ::getpid();
  EXPECT_EQ(act([=] { return ::kill(parent, SIGCONT) == 0 ? allowed : refused; }), refused);
  EXPECT_EQ(
      act([=] { return static_cast<int>(::ptrace(PTRACE_ATTACH, parent, nullptr, nullptr)); }),
      128 + SIGSYS);
  EXPECT_EQ(act([=] { return opens("/proc/" + std::to_string(parent) + "/mem", O_RDWR); }),
            refused);
}

TEST_P(Sandbox, LimitsHold) {
  jail_.max_file_bytes = 1 << 20;
  EXPECT_EQ(act([&] {
              const int fd = ::open((folder_ / "big").c_str(), O_CREAT | O_WRONLY, 0644);
              std::string block(1 << 16, 'x');
              for (int i = 0; i < 32; ++i) {
                if (::write(fd, block.data(), block.size()) < 0) return refused;
              }
              return allowed;
            }),
            128 + SIGXFSZ);
  if (has_shadow_memory) return;
  jail_.max_memory_bytes = 512 << 20;
  EXPECT_EQ(act([] {
              void* all = ::mmap(nullptr, 1 << 30, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return all == MAP_FAILED ? refused : allowed;
            }),
            refused);
}

INSTANTIATE_TEST_SUITE_P(AsRootAndAsNobody, Sandbox, testing::Values(0, 65534));

TEST(Jail, SurvivesItsTextForm) {
  Jail jail = toolchain_jail();
  jail.max_memory_bytes = 5;
  jail.allow_fork = true;
  const Result<Jail> read = jail_from_json(jail_to_json(jail));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->read_execute, jail.read_execute);
  EXPECT_EQ(read->max_memory_bytes, 5);
  EXPECT_TRUE(read->allow_fork);
  EXPECT_FALSE(jail_from_json("[]"));
  EXPECT_FALSE(jail_from_json("{"));
}

}  // namespace
}  // namespace marathon
