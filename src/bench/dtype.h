// Bytes of a tensor to numbers and back. Rounding to bf16 and fp16 is to nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "core/task.h"

namespace marathon {

// The candidate's ABI promises tensors at multiples of 64 bytes; the oracle gets the same.
template <class T>
struct Aligned {
  using value_type = T;
  Aligned() = default;
  template <class U>
  explicit Aligned(const Aligned<U>&) {}
  T* allocate(size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(64)));
  }
  void deallocate(T* data, size_t) { ::operator delete(data, std::align_val_t(64)); }
  bool operator==(const Aligned&) const = default;
};
template <class T>
using AlignedVector = std::vector<T, Aligned<T>>;
using Values = AlignedVector<double>;

double element_at(DType dtype, const char* bytes, int64_t index);
void set_element(DType dtype, char* bytes, int64_t index, double value);
Values to_doubles(DType dtype, const char* bytes, int64_t count);
// Rounds to the dtype; `bytes` holds values.size() elements.
void from_doubles(DType dtype, std::span<const double> values, char* bytes);

inline float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x40);  // stays a NaN when cut
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float fp16_to_float(uint16_t bits);
uint16_t float_to_fp16(float value);

}  // namespace marathon
