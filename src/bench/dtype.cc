#include "bench/dtype.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace marathon {

float fp16_to_float(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa ? std::nanf("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

uint16_t float_to_fp16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const float size = std::fabs(value);
  if (size >= 65520) return sign | 0x7c00;  // rounds to infinity
  if (size < 0x1p-14f) return sign | static_cast<uint16_t>(std::nearbyintf(size * 0x1p24f));
  int exponent = 0;
  const float fraction =
      std::frexp(size, &exponent);  // size = fraction · 2^exponent, fraction in [0.5, 1)
  const int mantissa = static_cast<int>(std::nearbyintf(fraction * 2048));  // 1024 … 2048
  // A mantissa of 2048 carries into the exponent by itself.
  return static_cast<uint16_t>(sign + ((exponent + 14) << 10) + mantissa - 1024);
}

namespace {
template <class T>
T load(const char* bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void store(char* bytes, int64_t index, T value) {
  std::memcpy(bytes + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}
}  // namespace

double element_at(DType dtype, const char* bytes, int64_t index) {
  switch (dtype) {
    case DType::fp32:
      return static_cast<double>(load<float>(bytes, index));
    case DType::fp64:
      return load<double>(bytes, index);
    case DType::bf16:
      return static_cast<double>(bf16_to_float(load<uint16_t>(bytes, index)));
    case DType::fp16:
      return static_cast<double>(fp16_to_float(load<uint16_t>(bytes, index)));
    case DType::int32:
      return load<int32_t>(bytes, index);
    case DType::int64:
      return static_cast<double>(load<int64_t>(bytes, index));
  }
  return 0;
}

void set_element(DType dtype, char* bytes, int64_t index, double value) {
  switch (dtype) {
    case DType::fp32:
      return store(bytes, index, static_cast<float>(value));
    case DType::fp64:
      return store(bytes, index, value);
    case DType::bf16:
      return store(bytes, index, float_to_bf16(static_cast<float>(value)));
    case DType::fp16:
      return store(bytes, index, float_to_fp16(static_cast<float>(value)));
    case DType::int32:
      return store(bytes, index, static_cast<int32_t>(value));
    case DType::int64:
      return store(bytes, index, static_cast<int64_t>(value));
  }
}

namespace {
template <class Read>
Values convert(int64_t count, const Read& read) {
  Values values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = read(i);
  return values;
}
}  // namespace

// One loop a type: the switch must not stand inside, since a window holds millions of elements.
Values to_doubles(DType dtype, const char* bytes, int64_t count) {
  switch (dtype) {
    case DType::fp32:
      return convert(count, [=](int64_t i) { return static_cast<double>(load<float>(bytes, i)); });
    case DType::fp64:
      return convert(count, [=](int64_t i) { return load<double>(bytes, i); });
    case DType::bf16:
      return convert(count, [=](int64_t i) {
        return static_cast<double>(bf16_to_float(load<uint16_t>(bytes, i)));
      });
    case DType::fp16:
      return convert(count, [=](int64_t i) {
        return static_cast<double>(fp16_to_float(load<uint16_t>(bytes, i)));
      });
    case DType::int32:
      return convert(count,
                     [=](int64_t i) { return static_cast<double>(load<int32_t>(bytes, i)); });
    case DType::int64:
      return convert(count,
                     [=](int64_t i) { return static_cast<double>(load<int64_t>(bytes, i)); });
  }
  return {};
}

namespace {
template <class T, class Round>
void write_all(std::span<const double> values, char* bytes, const Round& round) {
  for (size_t i = 0; i < values.size(); ++i)
    store<T>(bytes, static_cast<int64_t>(i), round(values[i]));
}
}  // namespace

void from_doubles(DType dtype, std::span<const double> values, char* bytes) {
  switch (dtype) {
    case DType::fp32:
      return write_all<float>(values, bytes, [](double x) { return static_cast<float>(x); });
    case DType::fp64:
      return write_all<double>(values, bytes, [](double x) { return x; });
    case DType::bf16:
      return write_all<uint16_t>(values, bytes,
                                 [](double x) { return float_to_bf16(static_cast<float>(x)); });
    case DType::fp16:
      return write_all<uint16_t>(values, bytes,
                                 [](double x) { return float_to_fp16(static_cast<float>(x)); });
    case DType::int32:
      return write_all<int32_t>(values, bytes, [](double x) { return static_cast<int32_t>(x); });
    case DType::int64:
      return write_all<int64_t>(values, bytes, [](double x) { return static_cast<int64_t>(x); });
  }
}

}  // namespace marathon
