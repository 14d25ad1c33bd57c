// What marathon-judge and marathon-worker say to each other, over one SOCK_SEQPACKET pair.
//
// Fixed binary structs: the worker shares its address space with the candidate, so nothing that it
// says is believed but "jailed", which it says before the candidate's first line of code runs. It
// says "loaded", "ready" and "done"; what it did is read from the outputs and the clocks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace marathon {

inline constexpr int worker_channel_fd = 3, worker_inputs_fd = 4, worker_outputs_fd = 5;
inline constexpr int64_t max_dims = 16, max_tensors = 24, max_sets = 64;
// Exit code of a worker that says why on its standard error.
inline constexpr int worker_gave_up = 124;

enum class Ask : int32_t { workspace, prepare, go };

// Ask::workspace answers with the bytes that the candidate wants for the dims. Ask::prepare hands
// over the window's buffers; Ask::go runs one call on each of the first `sets`.
struct WorkerRequest {
  Ask ask = Ask::go;
  int32_t sets = 0;  // 0 with Ask::go: an empty window, the round trip's own cost
  uint64_t nonce = 0;
  int64_t dim_count = 0, tensor_count = 0, workspace_bytes = 0;
  int64_t dims[max_dims] = {};
  // Offsets in the input or output arena; is_output says in which.
  int64_t tensors[max_sets][max_tensors] = {};
  int64_t workspaces[max_sets] = {};
  uint8_t is_output[max_tensors] = {};
};

// The buffers' table travels with Ask::prepare only: copying it would be inside of the window.
inline constexpr int64_t request_bytes(Ask ask) {
  return static_cast<int64_t>(ask == Ask::prepare ? sizeof(WorkerRequest)
                                                  : offsetof(WorkerRequest, tensors));
}

// The first two are sent unasked, with these nonces.
inline constexpr uint64_t hello_jailed = 1, hello_loaded = 2;

struct WorkerReply {
  uint64_t nonce = 0;
  int64_t value = 0;  // hello_jailed: the SandboxLevel; Ask::workspace: bytes
  int32_t code = 0;   // what marathon_run returned, if not 0
  int32_t failed_set = -1;
};

}  // namespace marathon
