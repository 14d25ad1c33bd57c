// What a kernel of the fake CUDA driver does, by its name: the table that more kernels are added
// to.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace marathon::fake {

struct Launch {
  const unsigned (&grid)[3];
  const unsigned (&block)[3];
  unsigned shared_bytes;
  const std::vector<std::string>& parameters;  // bytes, in the order of the signature
  int64_t& clock_ns;                           // has the kernel's fixed cost already

  // A parameter of another size reads as far as it goes: a count may have 4 bytes or 8.
  template <class T>
  T parameter(size_t index) const {
    T value = {};
    if (index < parameters.size())
      std::memcpy(
          &value, parameters[index].data(),
          parameters[index].size() < sizeof value ? parameters[index].size() : sizeof value);
    return value;
  }
  // `count` elements of device memory whose address is a parameter; null where a GPU would fault.
  template <class T>
  T* memory(size_t index, int64_t count, bool to_write) const {
    return reinterpret_cast<T*>(
        bytes_at(parameter<uint64_t>(index), count * static_cast<int64_t>(sizeof(T)), to_write));
  }

 private:
  static char* bytes_at(uint64_t address, int64_t bytes, bool to_write);
};

// CUDA_SUCCESS, an error that loses the context, or kernel_never_ends.
using Effect = int (*)(const Launch& launch);
inline constexpr int kernel_never_ends = -1;

// ---- fake_judge.cc: the judge's own kernels
int judge_fill(const Launch& launch);
int judge_poison(const Launch& launch);
int judge_find_damage(const Launch& launch);
int judge_digest(const Launch& launch);
int judge_read(const Launch& launch);
int judge_rows(const Launch& launch);
int judge_probe(const Launch& launch);
int judge_copy(const Launch& launch);
int judge_matmul(const Launch& launch);

// By the longest entry that the name begins with; null: no kernel of the fake.
Effect effect_of(const std::string& kernel_name);

}  // namespace marathon::fake
