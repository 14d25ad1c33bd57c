#include "bench/cuda/gpu_tensors.h"

namespace marathon {

namespace {

Status read(const GpuSession& session, void* to, uint64_t from, size_t bytes) {
  if (bytes == 0) return {};
  const cuda::Driver& driver = *session.gpu().driver;
  return driver.ok(driver.cuMemcpyDtoH(to, from, bytes), "read a tensor");
}

int64_t elements(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

}  // namespace

Result<std::vector<char>> read_tensor(const GpuSession& session, const GpuShape& shape, int64_t set,
                                      size_t tensor) {
  std::vector<char> bytes(static_cast<size_t>(shape.plan.sizes.tensor_bytes[tensor]));
  TRY(read(session, bytes.data(), session.address(shape, set, tensor), bytes.size()));
  return bytes;
}

Status write_tensor(const GpuSession& session, const GpuShape& shape, int64_t set, size_t tensor,
                    const std::vector<char>& bytes) {
  if (bytes.empty()) return {};
  const cuda::Driver& driver = *session.gpu().driver;
  return driver.ok(
      driver.cuMemcpyHtoD(session.address(shape, set, tensor), bytes.data(), bytes.size()),
      "write a tensor");
}

Result<Values> read_answer(const GpuSession& session, const GpuShape& shape, uint64_t address,
                           size_t tensor) {
  Values values(static_cast<size_t>(elements(shape.compact[tensor])));
  TRY(read(session, values.data(), address, values.size() * sizeof(double)));
  return values;
}

Result<std::vector<int64_t>> looked_at(const GpuSession& session, const GpuShape& shape,
                                       const GpuSolved& solved, size_t tensor) {
  const std::vector<int64_t>&compact = shape.compact[tensor], &full = shape.plan.extents[tensor];
  size_t sampled = compact.size();
  std::vector<int64_t> indices;
  if (solved.indices[tensor] != 0) {
    sampled = static_cast<size_t>(session.task().tensors[tensor].sample->axis);
    indices.resize(static_cast<size_t>(compact[sampled]));
    TRY(read(session, indices.data(), solved.indices[tensor], indices.size() * sizeof(int64_t)));
  }
  std::vector<int64_t> places(static_cast<size_t>(elements(compact)));
  for (size_t i = 0; i < places.size(); ++i) {
    int64_t left = static_cast<int64_t>(i), stride = 1;
    for (size_t axis = compact.size(); axis-- > 0;) {
      const int64_t place = left % compact[axis];
      left /= compact[axis];
      places[i] += (axis == sampled ? indices[static_cast<size_t>(place)] : place) * stride;
      stride *= full[axis];
    }
  }
  return places;
}

}  // namespace marathon
