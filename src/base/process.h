// Child processes: argv only, no shell, stdin from /dev/null, bounded output, nothing left behind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace marathon {

struct ProcessSpec {
  std::vector<std::string> argv;         // argv[0] is looked up in PATH unless it has a '/'
  std::filesystem::path folder;          // working folder; empty: ours
  std::vector<std::string> environment;  // "NAME=value"; exactly these, nothing inherited
  double timeout_s = 60;                 // wall clock; then SIGTERM, 0.5 s later SIGKILL
  int64_t keep_bytes = 64LL << 10;       // of each stream: half from its head, half from its tail
  std::filesystem::path output_file;     // optional: both streams whole, up to output_file_max
  int64_t output_file_max = 16LL << 20;
  int64_t max_processes = 0;                  // of the whole tree, checked every 20 ms; 0: no limit
  int64_t max_memory_bytes = 0;               // resident, of the whole tree, likewise
  std::vector<std::pair<int, int>> pass_fds;  // {ours, theirs}: dup2'd into the child
};

struct ProcessResult {
  int exit_code = -1;  // 0–255, or -1 when a signal ended it
  int signal = 0;      // the signal that ended it, or 0
  bool timed_out = false, too_many_processes = false, too_much_memory = false;
  std::string out, err;                  // bounded; a cut is marked "… N bytes left out …"
  int64_t out_bytes = 0, err_bytes = 0;  // how much it really wrote
  double wall_s = 0, user_s = 0, system_s = 0;
  int64_t peak_rss_bytes = 0;
  int64_t swept = 0;  // descendants that had to be killed after its end
};

// Runs to the end. An Error only when it could not be started or the stop was requested (the child
// and everything it left are gone by then). Descendants are swept: the caller is a subreaper.
Result<ProcessResult> run_process(const ProcessSpec& spec, std::stop_token stop = {});

// A child that goes on while we talk to it (the worker). Killed and swept by the destructor.
class Process {
 public:
  static Result<Process> start(const ProcessSpec& spec);  // timeout_s is not used
  Process(Process&&) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  int pid() const;
  int pidfd() const;                    // readable once it ended
  Result<bool> wait(double timeout_s);  // true: it has ended
  void kill_and_sweep();                // SIGKILL, reap, sweep descendants
  const ProcessResult& result() const;  // valid once ended; streams drained at the end
  Status pause();                       // SIGSTOP and wait until every thread stands still
  Status resume();

 private:
  friend Result<ProcessResult> run_process(const ProcessSpec& spec, std::stop_token stop);
  Result<ProcessResult> run_to_end(const ProcessSpec& spec, const std::stop_token& stop, int wake);

  struct Impl;
  explicit Process(Impl* impl) : impl_(impl) {}
  Impl* impl_;
};

// User and system time of a live process with all its threads, as the kernel accounts it.
Result<int64_t> cpu_time_ns(int pid);

// Makes this process adopt orphaned descendants, so that sweeping finds those that called setsid.
// Call once at the start of main.
Status become_subreaper();

// Kills every descendant of this process that is not in `keep`; how many were killed.
int64_t sweep_descendants(const std::vector<int>& keep);

// PATH, HOME, LANG, TMPDIR and TZ of ours and nothing else: keys never reach a child.
std::vector<std::string> clean_environment(const std::filesystem::path& temp_folder);

std::optional<std::filesystem::path> find_program(const std::string& name);

// Folder of the running executable, to find marathon-judge and marathon-worker beside it.
std::filesystem::path own_folder();

}  // namespace marathon
