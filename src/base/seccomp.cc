// System calls of the jail. A deny list with two strengths:
//
// - always refused: what reaches into other processes or the kernel (ptrace, process_vm_*, bpf, …)
//   and every socket but a local one;
// - refused unless the jail allows it: new processes and threads, exec.
//
// An allow list was refused: compilers, python and a task's own commands use most of the table, and
// the list would have to follow every libc. What a file or another process could be reached with is
// closed by Landlock, descriptors and the separate address space; this list closes the rest.
#include <linux/sched.h>
#include <seccomp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/landlock.h"

namespace marathon {

namespace {

constexpr int deadly[] = {SCMP_SYS(ptrace),
                          SCMP_SYS(process_vm_readv),
                          SCMP_SYS(process_vm_writev),
                          SCMP_SYS(process_madvise),
                          SCMP_SYS(kexec_load),
                          SCMP_SYS(kexec_file_load),
                          SCMP_SYS(init_module),
                          SCMP_SYS(finit_module),
                          SCMP_SYS(delete_module),
                          SCMP_SYS(bpf),
                          SCMP_SYS(userfaultfd),
                          SCMP_SYS(keyctl),
                          SCMP_SYS(add_key),
                          SCMP_SYS(request_key),
                          SCMP_SYS(mount),
                          SCMP_SYS(umount2),
                          SCMP_SYS(pivot_root),
                          SCMP_SYS(chroot),
                          SCMP_SYS(open_by_handle_at),
                          SCMP_SYS(name_to_handle_at),
                          SCMP_SYS(reboot),
                          SCMP_SYS(swapon),
                          SCMP_SYS(swapoff),
                          SCMP_SYS(acct),
                          SCMP_SYS(settimeofday),
                          SCMP_SYS(clock_settime),
                          SCMP_SYS(clock_adjtime),
                          SCMP_SYS(sethostname),
                          SCMP_SYS(setns),
                          SCMP_SYS(unshare),
                          SCMP_SYS(pidfd_getfd),
                          SCMP_SYS(kcmp)};

// Refused with EPERM: ordinary programs probe for them and go on without.
constexpr int refused[] = {SCMP_SYS(io_uring_setup),    SCMP_SYS(io_uring_enter),
                           SCMP_SYS(io_uring_register), SCMP_SYS(perf_event_open),
                           SCMP_SYS(personality),       SCMP_SYS(syslog),
                           SCMP_SYS(quotactl),          SCMP_SYS(pidfd_send_signal)};

constexpr int of_new_processes[] = {SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(clone),
                                    SCMP_SYS(clone3)};
constexpr int of_forks[] = {SCMP_SYS(fork), SCMP_SYS(vfork)};
constexpr int of_clone3[] = {SCMP_SYS(clone3)};
// What would stay behind for a successor, or get out of the judge's sight.
constexpr int of_leftovers[] = {SCMP_SYS(shmget), SCMP_SYS(shmat),   SCMP_SYS(semget),
                                SCMP_SYS(msgget), SCMP_SYS(mq_open), SCMP_SYS(setsid)};
constexpr int of_exec[] = {SCMP_SYS(execve), SCMP_SYS(execveat)};
// Only the worker, which may not fork: what would let it look like another process, outlive its
// stop, move to a core that is not measured, run at a time of its own choice, or leave something
// behind for its successor (System V objects and message queues outlive a process).
constexpr int of_escape[] = {SCMP_SYS(socket),
                             SCMP_SYS(shmget),
                             SCMP_SYS(shmat),
                             SCMP_SYS(semget),
                             SCMP_SYS(msgget),
                             SCMP_SYS(mq_open),
                             SCMP_SYS(alarm),
                             SCMP_SYS(timerfd_create),
                             SCMP_SYS(inotify_init1),
                             SCMP_SYS(setsid),
                             SCMP_SYS(setpgid),
                             SCMP_SYS(sched_setaffinity),
                             SCMP_SYS(sched_setscheduler),
                             SCMP_SYS(sched_setattr),
                             SCMP_SYS(setpriority),
                             SCMP_SYS(socketpair),
                             SCMP_SYS(timer_create),
                             SCMP_SYS(setitimer),
                             SCMP_SYS(rt_sigqueueinfo),
                             SCMP_SYS(rt_tgsigqueueinfo)};

class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ALLOW)) {}
  ~Filter() { seccomp_release(context_); }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  template <size_t n>
  void refuse(const int (&calls)[n], uint32_t action) {
    // A call that this kernel or library does not know needs no rule.
    for (const int call : calls) note(seccomp_rule_add(context_, action, call, 0));
  }
  void refuse_if(int call, uint32_t action, scmp_arg_cmp condition) {
    note(seccomp_rule_add(context_, action, call, 1, condition));
  }
  // clone3 hides its flags in memory, where a filter cannot look: ENOSYS makes libc use clone.
  Status load() {
    if (problem_ != 0) return fail_errno("seccomp rule", -problem_);
    seccomp_attr_set(context_, SCMP_FLTATR_CTL_NNP, 1);
    if (const int code = seccomp_load(context_); code != 0)
      return fail_errno("seccomp_load", -code);
    return {};
  }

 private:
  void note(int code) {
    if (code != 0 && code != -EEXIST && code != -EDOM && code != -EFAULT) problem_ = code;
  }
  scmp_filter_ctx context_;
  int problem_ = 0;
};

}  // namespace

Status apply_seccomp(const Jail& jail) {
  const uint32_t no = SCMP_ACT_ERRNO(EPERM);
  Filter filter;
  filter.refuse(deadly, SCMP_ACT_KILL_PROCESS);
  filter.refuse(refused, no);
  const bool only_threads = jail.allow_threads && !jail.allow_fork;
  if (only_threads) {
    filter.refuse(of_forks, no);
    filter.refuse_if(SCMP_SYS(clone), no, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
    // Its flags lie in memory, where a filter cannot look: ENOSYS makes libc use clone.
    filter.refuse(of_clone3, SCMP_ACT_ERRNO(ENOSYS));
    filter.refuse(of_leftovers, no);
    filter.refuse_if(SCMP_SYS(socket), no, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
  } else if (!jail.allow_fork) {
    filter.refuse(of_new_processes, no);
    filter.refuse(of_escape, no);
    const auto self = static_cast<scmp_datum_t>(::getpid());
    filter.refuse_if(SCMP_SYS(kill), no, SCMP_A0(SCMP_CMP_NE, self));
    filter.refuse_if(SCMP_SYS(tgkill), no, SCMP_A0(SCMP_CMP_NE, self));
    filter.refuse_if(SCMP_SYS(tkill), no, SCMP_A0(SCMP_CMP_NE, self));
  } else {
    // Only local sockets: no network even where Landlock is older than ABI 4 (UDP is in no ABI).
    filter.refuse_if(SCMP_SYS(socket), no, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
    filter.refuse_if(SCMP_SYS(clone), no,
                     SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER));
  }
  if (!jail.allow_exec) filter.refuse(of_exec, no);
  return filter.load();
}

}  // namespace marathon
