// Tensors in device memory as bytes and numbers on the host, for what looks at a task's own checker.
#pragma once

#include <vector>

#include "bench/cuda/gpu_session.h"
#include "bench/dtype.h"

namespace marathon {

Result<std::vector<char>> read_tensor(const GpuSession& session, const GpuShape& shape, int64_t set,
                                      size_t tensor);
Status write_tensor(const GpuSession& session, const GpuShape& shape, int64_t set, size_t tensor,
                    const std::vector<char>& bytes);

// What an oracle left at `address`: as many numbers as the output has places that are looked at.
Result<Values> read_answer(const GpuSession& session, const GpuShape& shape, uint64_t address,
                           size_t tensor);

// Of each place of an output that is looked at, in the order of an answer: its element in the tensor.
Result<std::vector<int64_t>> looked_at(const GpuSession& session, const GpuShape& shape,
                                       const GpuSolved& solved, size_t tensor);

}  // namespace marathon
