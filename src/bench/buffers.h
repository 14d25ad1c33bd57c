// The judge's memory: one arena of inputs that every worker sees read-only, one arena of outputs
// and workspace for each worker. Addresses inside an arena change with every window; canaries
// surround every output; what a worker may write is full of random bits before each window.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/random.h"
#include "base/result.h"
#include "bench/protocol.h"
#include "core/task.h"

namespace marathon {

class Arena {
 public:
  // A memfd of `bytes`, mapped read-write here. `sealed`: nobody can map it writable from now on.
  static Result<Arena> make(const char* name, int64_t bytes, bool sealed);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;
  ~Arena();

  int fd() const { return fd_.get(); }
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  Arena() = default;
  Fd fd_;
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Sizes of one shape's buffers.
struct ShapeSizes {
  std::vector<int64_t> tensor_bytes;  // in the order of task.tensors
  std::vector<bool> is_output;
  int64_t workspace_bytes = 0;  // the largest of the workers' wishes
};

// Where everything stands in one window.
struct Layout {
  int32_t sets = 0;
  std::vector<std::vector<int64_t>> tensors;  // [set][tensor]: offset in its arena
  std::vector<int64_t> workspaces;            // [set]: offset in the output arena
  int64_t input_end = 0, output_end = 0;      // used bytes of the arenas
};

// Bytes that `sets` sets need in the input and in the output arena, slack and canaries included.
int64_t input_arena_bytes(const ShapeSizes& sizes, int64_t sets);
int64_t output_arena_bytes(const ShapeSizes& sizes, int64_t sets);

// Random offsets, 64-byte aligned (workspaces 4096).
Layout draw_layout(const ShapeSizes& sizes, int32_t sets, Random& random);

// Fills [0, bytes) with a pattern that `seed` determines; finds the first byte outside of the
// buffers that is not the pattern any more.
void poison(const Arena& arena, int64_t bytes, uint64_t seed);
std::string broken_canary(const Arena& arena, const Layout& layout, const ShapeSizes& sizes,
                          uint64_t seed, const std::vector<std::string>& tensor_names);

}  // namespace marathon
