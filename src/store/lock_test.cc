#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store_fixture.h"

namespace marathon {

namespace fs = std::filesystem;
using testing::HasSubstr;

class LockTest : public StoreTest {
 protected:
  LockTest() { must(make_folders(folder())); }
};

TEST_F(LockTest, TheSecondIsToldWhoHoldsIt) {
  const RunLock lock = must(RunLock::acquire(folder()));
  const Result<RunLock> second = RunLock::acquire(folder());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().fault, Fault::busy);
  EXPECT_THAT(second.error().what, HasSubstr("run demo-1 is being written by marathon"));
  EXPECT_THAT(second.error().what, HasSubstr(fmt::format("pid {}", ::getpid())));
  EXPECT_THAT(second.error().what, HasSubstr("since 20"));
  EXPECT_THAT(second.error().what, HasSubstr("store_test"));
}

TEST_F(LockTest, IsFreeOnceItIsGone) {
  { const RunLock lock = must(RunLock::acquire(folder())); }
  const RunLock moved = [&] { return must(RunLock::acquire(folder())); }();
  EXPECT_FALSE(RunLock::acquire(folder()));
}

TEST_F(LockTest, DiesWithItsProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Result<RunLock> lock = RunLock::acquire(folder());
    ::raise(lock ? SIGKILL : SIGABRT);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_TRUE(RunLock::acquire(folder()));
}

TEST_F(LockTest, ARunWithoutFolderIsNotFound) {
  EXPECT_EQ(RunLock::acquire(folder() / "absent").error().fault, Fault::not_found);
}

}  // namespace marathon
