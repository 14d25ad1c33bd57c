// Bytes of a tensor to numbers and back. Rounding to bf16 and fp16 is to nearest, ties to even.
#pragma once

#include <cstdint>
#include <vector>

#include "core/task.h"

namespace marathon {

double element_at(DType dtype, const char* bytes, int64_t index);
void set_element(DType dtype, char* bytes, int64_t index, double value);
std::vector<double> to_doubles(DType dtype, const char* bytes, int64_t count);

float bf16_to_float(uint16_t bits);
uint16_t float_to_bf16(float value);
float fp16_to_float(uint16_t bits);
uint16_t float_to_fp16(float value);

}  // namespace marathon
