#include "bench/buffers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace marathon {

namespace {

constexpr int64_t slack = 4096, canary = 256, tensor_alignment = 64, workspace_alignment = 4096;

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// A slot holds canary, random shift, buffer, canary.
int64_t slot_bytes(int64_t buffer, int64_t alignment) {
  return round_up(canary + slack + alignment + buffer + canary, workspace_alignment);
}

int64_t place(int64_t slot, int64_t alignment, Random& random) {
  const int64_t shift = static_cast<int64_t>(random.below(slack / 64)) * 64;
  return round_up(slot + canary + (alignment > 64 ? 0 : shift), alignment);
}

// The pattern's word at a position. Random access, so that any part can be checked alone.
uint64_t pattern_word(uint64_t seed, uint64_t index) {
  uint64_t z = seed + index * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  return z ^ (z >> 29);
}

}  // namespace

Result<Arena> Arena::make(const char* name, int64_t bytes, bool sealed) {
  Arena arena;
  arena.bytes_ = round_up(std::max<int64_t>(bytes, 4096), 4096);
  arena.fd_ = Fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!arena.fd_) return fail_errno("memfd_create", errno);
  if (::ftruncate(arena.fd_.get(), arena.bytes_) != 0) return fail_errno("size an arena", errno);
  void* data = ::mmap(nullptr, static_cast<size_t>(arena.bytes_), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_POPULATE, arena.fd_.get(), 0);
  if (data == MAP_FAILED)
    return fail_errno(fmt::format("map an arena of {} MB", bytes >> 20), errno);
  arena.data_ = static_cast<char*>(data);
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | (sealed ? F_SEAL_FUTURE_WRITE : 0) | F_SEAL_SEAL;
  if (::fcntl(arena.fd_.get(), F_ADD_SEALS, seals) != 0) return fail_errno("seal an arena", errno);
  return arena;
}

Arena::Arena(Arena&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Arena::~Arena() {
  if (data_) ::munmap(data_, static_cast<size_t>(bytes_));
}

int64_t input_arena_bytes(const ShapeSizes& sizes, int64_t sets) {
  int64_t one = 0;
  for (size_t i = 0; i < sizes.tensor_bytes.size(); ++i) {
    if (!sizes.is_output[i]) one += slot_bytes(sizes.tensor_bytes[i], tensor_alignment);
  }
  return one * sets;
}

int64_t output_arena_bytes(const ShapeSizes& sizes, int64_t sets) {
  int64_t one = slot_bytes(sizes.workspace_bytes, workspace_alignment);
  for (size_t i = 0; i < sizes.tensor_bytes.size(); ++i) {
    if (sizes.is_output[i]) one += slot_bytes(sizes.tensor_bytes[i], tensor_alignment);
  }
  return one * sets;
}

Layout draw_layout(const ShapeSizes& sizes, int32_t sets, Random& random) {
  Layout layout;
  layout.sets = sets;
  for (int32_t set = 0; set < sets; ++set) {
    std::vector<int64_t> offsets;
    for (size_t i = 0; i < sizes.tensor_bytes.size(); ++i) {
      int64_t& end = sizes.is_output[i] ? layout.output_end : layout.input_end;
      offsets.push_back(place(end, tensor_alignment, random));
      end += slot_bytes(sizes.tensor_bytes[i], tensor_alignment);
    }
    layout.tensors.push_back(std::move(offsets));
    layout.workspaces.push_back(place(layout.output_end, workspace_alignment, random));
    layout.output_end += slot_bytes(sizes.workspace_bytes, workspace_alignment);
  }
  return layout;
}

void poison(const Arena& arena, int64_t bytes, uint64_t seed) {
  uint64_t* words = reinterpret_cast<uint64_t*>(arena.data());
  const uint64_t count = static_cast<uint64_t>(bytes) / 8;
  for (uint64_t i = 0; i < count; ++i) words[i] = pattern_word(seed, i);
}

namespace {

struct Buffer {
  int64_t begin, end;
  std::string name;
};

// Offset of the first byte in [begin, end) that differs from the pattern, or -1.
int64_t first_difference(const Arena& arena, int64_t begin, int64_t end, uint64_t seed) {
  for (int64_t at = begin; at < end; ++at) {
    const uint64_t word = pattern_word(seed, static_cast<uint64_t>(at) / 8);
    const char expected = static_cast<char>(word >> (at % 8 * 8));
    if (arena.data()[at] != expected) return at;
    // Whole words at once: most of the arena is untouched.
    while (at % 8 == 7 && at + 8 < end) {
      uint64_t found;
      std::memcpy(&found, arena.data() + at + 1, sizeof found);
      if (found != pattern_word(seed, static_cast<uint64_t>(at + 1) / 8)) break;
      at += 8;
    }
  }
  return -1;
}

}  // namespace

std::string broken_canary(const Arena& arena, const Layout& layout, const ShapeSizes& sizes,
                          uint64_t seed, const std::vector<std::string>& tensor_names) {
  std::vector<Buffer> buffers;
  for (int32_t set = 0; set < layout.sets; ++set) {
    const size_t s = static_cast<size_t>(set);
    for (size_t i = 0; i < sizes.tensor_bytes.size(); ++i) {
      if (!sizes.is_output[i]) continue;
      buffers.push_back({layout.tensors[s][i], layout.tensors[s][i] + sizes.tensor_bytes[i],
                         "output " + tensor_names[i]});
    }
    buffers.push_back(
        {layout.workspaces[s], layout.workspaces[s] + sizes.workspace_bytes, "the workspace"});
  }
  std::sort(buffers.begin(), buffers.end(),
            [](const Buffer& a, const Buffer& b) { return a.begin < b.begin; });
  int64_t from = 0;
  std::string before = "the first buffer";
  for (const Buffer& buffer : buffers) {
    const int64_t at = first_difference(arena, from, buffer.begin, seed);
    if (at >= 0) {
      const bool behind = at - from < buffer.begin - at;
      return behind ? fmt::format("wrote {} bytes behind the end of {}", at - from + 1, before)
                    : fmt::format("wrote {} bytes before {}", buffer.begin - at, buffer.name);
    }
    from = buffer.end;
    before = buffer.name;
  }
  const int64_t at = first_difference(arena, from, layout.output_end, seed);
  return at < 0 ? "" : fmt::format("wrote {} bytes behind the end of {}", at - from + 1, before);
}

}  // namespace marathon
