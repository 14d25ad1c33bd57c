// The untrusted half: loads one implementation in the jail and runs it when asked.
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/sandbox.h"
#include "bench/protocol.h"
#include "bench/worker.h"
#include "marathon_kernel.h"

namespace marathon {

namespace {

struct Arguments {
  std::string lib;
  int core = -1;
  bool require_full = true, spin = false;
  int64_t own_memory_bytes = 1LL << 30;  // beyond the arenas: code, stack, tables
};

struct Entries {
  int (*run)(const MarathonArgs*) = nullptr;
  int64_t (*workspace)(const int64_t*, int64_t) = nullptr;
};

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "marathon-worker: %s\n", why.c_str());
  ::_exit(worker_gave_up);
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--lib" && i + 1 < argc)
      arguments.lib = argv[++i];
    else if (word == "--core" && i + 1 < argc)
      arguments.core = std::atoi(argv[++i]);
    else if (word == "--spin")
      arguments.spin = true;
    else if (word == "--unsafe-no-sandbox")
      arguments.require_full = false;
    else
      die("usage: marathon-worker serve --lib FILE [--core N] [--spin] "
          "[--unsafe-no-sandbox]");
  }
  return arguments;
}

char* map_arena(int fd, int protection, size_t& bytes) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) die("no arena was passed: this mode is started by marathon-judge");
  bytes = static_cast<size_t>(info.st_size);
  if (bytes == 0) return nullptr;
  void* arena = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (arena == MAP_FAILED) die(std::string("map the arena: ") + std::strerror(errno));
  return static_cast<char*>(arena);
}

// The core is chosen before the jail, which then refuses to change it.
void pin(int core) {
  if (core < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

// Should memory run out all the same, the kernel takes the worker and nobody else.
void offer_to_the_oom_killer() {
  if (std::FILE* file = std::fopen("/proc/self/oom_score_adj", "w")) {
    std::fputs("1000", file);
    std::fclose(file);
  }
}

Jail jail_of(const Arguments& arguments, int64_t arena_bytes) {
  Jail jail;
  // What the dynamic linker needs for libc, libm and libstdc++, and the candidate itself. Nothing
  // can be written anywhere.
  jail.read_execute = {"/lib", "/lib64", "/usr/lib", "/usr/lib64", arguments.lib};
  jail.read_only = {"/etc/ld.so.cache"};
  jail.max_memory_bytes = arena_bytes + arguments.own_memory_bytes;
  jail.max_file_bytes = 1;
  jail.max_open_files = 64;
  return jail;
}

Entries load(const std::string& lib) {
  void* handle = ::dlopen(lib.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) die(std::string("load: ") + ::dlerror());
  Entries entries;
  entries.run = reinterpret_cast<int (*)(const MarathonArgs*)>(::dlsym(handle, "marathon_run"));
  entries.workspace = reinterpret_cast<int64_t (*)(const int64_t*, int64_t)>(
      ::dlsym(handle, "marathon_workspace_bytes"));
  if (!entries.run) die("it exports no marathon_run (extern \"C\", see marathon_kernel.h)");
  return entries;
}

class Server {
 public:
  Server(const Entries& entries, char* inputs, char* outputs)
      : entries_(entries), inputs_(inputs), outputs_(outputs) {}

  WorkerReply answer(const WorkerRequest& request) {
    WorkerReply reply;
    reply.nonce = request.nonce;
    switch (request.ask) {
      case Ask::workspace:
        reply.value = entries_.workspace ? entries_.workspace(request.dims, request.dim_count) : 0;
        break;
      case Ask::prepare:
        prepare(request);
        break;
      case Ask::go:
        go(request, reply);
        break;
    }
    return reply;
  }

 private:
  void prepare(const WorkerRequest& request) {
    request_ = request;
    for (int32_t set = 0; set < request.sets; ++set) {
      for (int64_t tensor = 0; tensor < request.tensor_count; ++tensor) {
        char* arena = request.is_output[tensor] ? outputs_ : inputs_;
        pointers_[set][tensor] = arena + request.tensors[set][tensor];
      }
      args_[set] = {1,
                    request_.dim_count,
                    request_.dims,
                    request_.tensor_count,
                    pointers_[set],
                    request_.workspace_bytes > 0 ? outputs_ + request_.workspaces[set] : nullptr,
                    request_.workspace_bytes,
                    nullptr,
                    nullptr};
    }
  }

  void go(const WorkerRequest& request, WorkerReply& reply) {
    for (int32_t set = 0; set < request.sets; ++set) {
      reply.code = entries_.run(&args_[set]);
      if (reply.code != 0) {
        reply.failed_set = set;
        return;
      }
    }
  }

  Entries entries_;
  char *inputs_, *outputs_;
  WorkerRequest request_;
  void* pointers_[max_sets][max_tensors] = {};
  MarathonArgs args_[max_sets] = {};
};

void say(uint64_t nonce, int64_t value) {
  WorkerReply reply;
  reply.nonce = nonce;
  reply.value = value;
  if (::write(worker_channel_fd, &reply, sizeof reply) != static_cast<ssize_t>(sizeof reply))
    ::_exit(1);
}

// After Ask::prepare the next request is microseconds away: looking for it without sleeping keeps
// the cost of waking up, 5 to 50 µs in a virtual machine, out of the window.
ssize_t next_request(WorkerRequest& request, bool soon) {
  constexpr int looks = 4000;
  for (int i = 0; soon && i < looks; ++i) {
    const ssize_t got = ::recv(worker_channel_fd, &request, sizeof request, MSG_DONTWAIT);
    if (got >= 0 || (errno != EAGAIN && errno != EINTR)) return got;
  }
  return ::recv(worker_channel_fd, &request, sizeof request, 0);
}

SandboxLevel jail(const Arguments& arguments, int64_t arena_bytes) {
  Jail jail = jail_of(arguments, arena_bytes);
  // Sanitizers reserve terabytes of address space: a limit on it would end the worker at once.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  jail.max_memory_bytes = 0;
#endif
  const Result<SandboxStatus> entered = enter_jail(jail, arguments.require_full);
  if (!entered) die(entered.error().what);
  return entered->level;
}

int serve(Server& server, bool spin) {
  static WorkerRequest request;
  bool soon = false;
  while (true) {
    const ssize_t got = next_request(request, soon);
    if (got == 0) return 0;
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(request_bytes(request.ask))) die("a request of the wrong size");
    const WorkerReply reply = server.answer(request);
    if (::write(worker_channel_fd, &reply, sizeof reply) != static_cast<ssize_t>(sizeof reply))
      return 1;
    soon = spin && request.ask == Ask::prepare;
  }
}

}  // namespace

int worker_serve_main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Arguments arguments = parse(argc, argv);
  pin(arguments.core);
  size_t input_bytes = 0, output_bytes = 0;
  char* inputs = map_arena(worker_inputs_fd, PROT_READ, input_bytes);
  char* outputs = map_arena(worker_outputs_fd, PROT_READ | PROT_WRITE, output_bytes);
  ::close(worker_inputs_fd);
  ::close(worker_outputs_fd);
  offer_to_the_oom_killer();
  const int64_t arena_bytes = static_cast<int64_t>(input_bytes + output_bytes);
  say(hello_jailed, static_cast<int64_t>(jail(arguments, arena_bytes)));
  // From here on the candidate's code may run (constructors first).
  Server server(load(arguments.lib), inputs, outputs);
  say(hello_loaded, 0);
  return serve(server, arguments.spin);
}

}  // namespace marathon
