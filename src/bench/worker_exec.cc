#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/file.h"
#include "base/sandbox.h"
#include "bench/worker.h"

namespace marathon {

namespace {

constexpr int no_jail = 125, cannot_run = 126, no_program = 127;

Status enter(const char* jail_file, bool require_full) {
  const Jail jail = TRY(jail_from_json(TRY(read_file(jail_file))));
  TRY(enter_jail(jail, require_full));
  return {};
}

}  // namespace

int worker_exec_main(int argc, char** argv) {
  bool require_full = true;
  const char* jail_file = nullptr;
  int at = 0;
  for (; at < argc && std::string_view(argv[at]) != "--"; ++at) {
    if (std::string_view(argv[at]) == "--jail" && at + 1 < argc)
      jail_file = argv[++at];
    else if (std::string_view(argv[at]) == "--unsafe-no-sandbox")
      require_full = false;
    else
      break;
  }
  if (!jail_file || at + 1 >= argc || std::string_view(argv[at]) != "--") {
    std::fputs(
        "usage: marathon-worker exec --jail FILE [--unsafe-no-sandbox] "
        "-- program arguments …\n",
        stderr);
    return no_jail;
  }
  // Who started us must outlive us. Kept over exec.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (const Status entered = enter(jail_file, require_full); !entered) {
    std::fprintf(stderr, "marathon-worker: %s\n", entered.error().what.c_str());
    return no_jail;
  }
  char** command = argv + at + 1;
  ::execvp(command[0], command);
  std::fprintf(stderr, "marathon-worker: %s: %s\n", command[0], std::strerror(errno));
  return errno == ENOENT ? no_program : cannot_run;
}

}  // namespace marathon
