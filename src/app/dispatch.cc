#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <system_error>

#include "app/app.h"
#include "app/signals.h"
#include "base/process.h"

namespace marathon {

int exit_code_of(Fault fault) {
  switch (fault) {
    case Fault::invalid:
    case Fault::not_found:
      return exit_usage;
    case Fault::cancelled:
      return exit_interrupted;
    case Fault::busy:
    case Fault::retry:
    case Fault::no_space:
    case Fault::timeout:
    case Fault::corrupt:
    case Fault::system:
      return exit_environment;
  }
  return exit_bug;
}

namespace {

Result<int> run_command(const CommandLine& line, std::stop_token stop) {
  if (line.command == "run") return command_run(line, stop);
  if (line.command == "resume") return command_resume(line, stop);
  if (line.command == "attempt") return command_attempt(line, stop);
  if (line.command == "judge") return command_judge(line, stop);
  if (line.command == "task check") return command_task_check(line, stop);
  if (line.command == "doctor") return command_doctor(line);
  if (line.command == "runs") return command_runs(line);
  if (line.command == "status") return command_status(line);
  if (line.command == "log") return command_log(line, stop);
  if (line.command == "best") return command_best(line);
  if (line.command == "report") return command_report(line);
  if (line.command == "export") return command_export(line);
  if (line.command == "verify") return command_verify(line);
  if (line.command == "prune") return command_prune(line);
  return fail(Fault::system, "no command '" + line.command + "'");
}

// A pager that was closed has seen enough. errno of the write that met it is long gone.
bool reader_is_gone() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int run_and_print(const CommandLine& line) {
  const SignalStop signals;
  if (const Status adopted = become_subreaper(); !adopted) {
    fmt::print(stderr, "marathon: {}\n", adopted.error().what);
    return exit_environment;
  }
  const Result<int> code = run_command(line, signals.token());
  // A script that keeps what it reads must not take a full disk for success.
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!written && !reader_is_gone() && (!code || *code == exit_ok)) {
    fmt::print(stderr, "marathon: standard output: {}\n", std::strerror(errno != 0 ? errno : EIO));
    return exit_environment;
  }
  if (code) return *code;
  fmt::print(stderr, "marathon: {}\n", code.error().what);
  return exit_code_of(code.error().fault);
}

}  // namespace

int marathon_main(int argc, char** argv) {
  try {
    const CommandLine line = parse_command_line(argc, argv);
    return line.exit ? *line.exit : run_and_print(line);
  } catch (const std::system_error& error) {
    // fmt's word for a standard output that takes no more: a closed pager has seen enough.
    if (error.code() == std::errc::broken_pipe) return exit_ok;
    std::fprintf(stderr, "marathon: %s\n", error.what());
    return exit_environment;
  } catch (const std::exception& error) {
    std::fprintf(stderr,
                 "marathon: a bug: %s\nThe log is intact; `marathon resume --last` goes on. Please "
                 "report this with the command.\n",
                 error.what());
    return exit_bug;
  }
}

}  // namespace marathon
