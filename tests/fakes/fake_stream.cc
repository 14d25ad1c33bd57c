// The fake driver's order: streams, events, the clock, and what is copied and set. Work runs at
// once in the thread that asks for it, unless the stream waits for a value or for another stream;
// then the next call that waits or looks runs it.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "fake_cuda.h"

namespace marathon::fake {

namespace {

// The legacy default stream and the blocking streams run each other's work in the order of asking.
bool is_its_turn(const CUstream_st& stream) {
  const World& w = world();
  const int64_t number = stream.queue.front().number;
  const auto is_before = [&](const CUstream_st& other) {
    return &other != &stream && (other.flags & CU_STREAM_NON_BLOCKING) == 0 &&
           !other.queue.empty() && other.queue.front().number < number;
  };
  if ((stream.flags & CU_STREAM_NON_BLOCKING) != 0) return true;
  if (&stream != &w.default_stream) return !is_before(w.default_stream);
  return std::none_of(w.streams.begin(), w.streams.end(),
                      [&](const auto& other) { return is_before(*other); });
}

bool run_some(CUstream_st& stream) {
  World& w = world();
  bool any = false;
  while (w.lost == CUDA_SUCCESS && !stream.queue.empty() && is_its_turn(stream)) {
    if (!stream.queue.front().step()) break;
    stream.queue.pop_front();
    any = true;
  }
  return any;
}

void lose_everything() {
  World& w = world();
  w.default_stream.queue.clear();
  for (const auto& stream : w.streams) stream->queue.clear();
}

int64_t cost_of_bytes(int64_t bytes) { return copy_base_ns + bytes / copy_bytes_a_ns; }

CUresult run_memset(const CUDA_MEMSET_NODE_PARAMS& set) {
  World& w = world();
  const int64_t row = static_cast<int64_t>(set.width) * set.elementSize;
  const size_t rows = std::max<size_t>(set.height, 1);
  w.clock_ns += cost_of_bytes(row * static_cast<int64_t>(rows));
  for (size_t y = 0; y < rows; ++y) {
    char* to = reach(set.dst + y * set.pitch, row, true);
    if (!to) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (set.elementSize == 1) {
      std::memset(to, static_cast<int>(set.value & 0xff), set.width);
      continue;
    }
    for (size_t x = 0; x < set.width; ++x)
      std::memcpy(to + x * set.elementSize, &set.value, set.elementSize);
  }
  return CUDA_SUCCESS;
}

// One row of a copy; null: nothing there.
const char* source_row(const Work& work, size_t y, size_t z) {
  const CUDA_MEMCPY3D& c = work.copy;
  const size_t at =
      c.srcXInBytes + (c.srcY + y) * c.srcPitch + (c.srcZ + z) * c.srcPitch * c.srcHeight;
  if (work.staged) return work.staged->data() + at;
  if (c.srcMemoryType == CU_MEMORYTYPE_HOST) return static_cast<const char*>(c.srcHost) + at;
  return reach(c.srcDevice + at, static_cast<int64_t>(c.WidthInBytes), false);
}
char* target_row(const CUDA_MEMCPY3D& c, size_t y, size_t z) {
  const size_t at =
      c.dstXInBytes + (c.dstY + y) * c.dstPitch + (c.dstZ + z) * c.dstPitch * c.dstHeight;
  if (c.dstMemoryType == CU_MEMORYTYPE_HOST) return static_cast<char*>(c.dstHost) + at;
  return reach(c.dstDevice + at, static_cast<int64_t>(c.WidthInBytes), true);
}

CUresult run_copy(const Work& work) {
  const CUDA_MEMCPY3D& c = work.copy;
  const size_t rows = std::max<size_t>(c.Height, 1), planes = std::max<size_t>(c.Depth, 1);
  world().clock_ns += cost_of_bytes(static_cast<int64_t>(c.WidthInBytes * rows * planes));
  for (size_t z = 0; z < planes; ++z) {
    for (size_t y = 0; y < rows; ++y) {
      const char* from = source_row(work, y, z);
      char* to = target_row(c, y, z);
      if (!from || !to) return CUDA_ERROR_ILLEGAL_ADDRESS;
      std::memmove(to, from, c.WidthInBytes);
    }
  }
  return CUDA_SUCCESS;
}

Work copy_work(CUmemorytype from_type, uint64_t from, CUmemorytype to_type, uint64_t to,
               size_t bytes) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  CUDA_MEMCPY3D& c = work.copy;
  c.srcMemoryType = from_type;
  c.dstMemoryType = to_type;
  if (from_type == CU_MEMORYTYPE_HOST)
    c.srcHost = reinterpret_cast<const void*>(from);
  else
    c.srcDevice = from;
  if (to_type == CU_MEMORYTYPE_HOST)
    c.dstHost = reinterpret_cast<void*>(to);
  else
    c.dstDevice = to;
  c.WidthInBytes = bytes;
  c.Height = c.Depth = 1;
  c.srcPitch = c.dstPitch = bytes;
  c.srcHeight = c.dstHeight = 1;
  return work;
}

CUresult copy_now(Work work) {
  if (const CUresult refused = refuse_in_capture()) return refused;
  if (work.copy.WidthInBytes == 0) return CUDA_SUCCESS;
  if (const CUresult queued = enqueue(nullptr, std::move(work))) return queued;
  return wait_until([] { return world().default_stream.queue.empty(); });
}

CUresult set_memory(CUdeviceptr to, unsigned value, unsigned element, size_t count,
                    CUstream stream) {
  if (count == 0) return CUDA_SUCCESS;
  if (to % element != 0) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEMSET;
  work.memset = {to, 0, value, element, count, 1};
  return enqueue(stream, std::move(work));
}

bool is_held(const CUstream_st& stream) { return !stream.queue.empty(); }

}  // namespace

CUstream_st* find_stream(CUstream stream) {
  World& w = world();
  if (!stream) return &w.default_stream;
  for (const auto& one : w.streams) {
    if (one.get() == stream) return one->destroyed ? nullptr : one.get();
  }
  return nullptr;
}

void pump() {
  World& w = world();
  for (bool any = true; any && w.lost == CUDA_SUCCESS;) {
    any = run_some(w.default_stream);
    for (const auto& stream : w.streams) any = run_some(*stream) || any;
  }
  if (w.lost != CUDA_SUCCESS) lose_everything();
  std::erase_if(w.streams,
                [](const auto& stream) { return stream->destroyed && stream->queue.empty(); });
}

CUresult wait_until(const std::function<bool()>& done) {
  World& w = world();
  for (;;) {
    pump();
    if (w.lost != CUDA_SUCCESS) return w.lost;
    if (done()) return CUDA_SUCCESS;
    // Another thread may have to open what this one waits for. Without a limit, as a GPU waits.
    w.mutex.unlock();
    const timespec pause = {0, 50'000};
    ::nanosleep(&pause, nullptr);
    w.mutex.lock();
  }
}

void queue_step(CUstream_st& stream, Step step) {
  stream.queue.push_back({world().queued++, std::move(step)});
}

Step step_of(Work work) {
  return [work = std::move(work), hangs = false]() mutable {
    World& w = world();
    CUresult result = CUDA_SUCCESS;
    if (hangs) return false;
    switch (work.type) {
      case CU_GRAPH_NODE_TYPE_KERNEL:
        result = run_kernel(work.kernel);
        hangs = result == kernel_never_ends;
        if (hangs) return false;
        break;
      case CU_GRAPH_NODE_TYPE_MEMSET:
        result = run_memset(work.memset);
        break;
      case CU_GRAPH_NODE_TYPE_MEMCPY:
        result = run_copy(work);
        break;
      default:
        break;
    }
    if (result != CUDA_SUCCESS) w.lost = result;
    return true;
  };
}

CUresult check_work(const Work& work) {
  if (work.type == CU_GRAPH_NODE_TYPE_KERNEL)
    return has_function(work.kernel.function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  if (work.type == CU_GRAPH_NODE_TYPE_MEMSET) {
    const unsigned element = work.memset.elementSize;
    const bool fits = (element == 1 || element == 2 || element == 4) && work.memset.width > 0 &&
                      reach(work.memset.dst, 1, false);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  if (work.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    const CUDA_MEMCPY3D& c = work.copy;
    const auto is_there = [](CUmemorytype type, const void* host, CUdeviceptr device) {
      if (type == CU_MEMORYTYPE_HOST) return host != nullptr;
      return type != CU_MEMORYTYPE_ARRAY && reach(device, 1, false) != nullptr;
    };
    const bool fits = is_there(c.srcMemoryType, c.srcHost, c.srcDevice) &&
                      is_there(c.dstMemoryType, c.dstHost, c.dstDevice) && c.WidthInBytes > 0;
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult enqueue(CUstream handle, Work work) {
  World& w = world();
  CUstream_st* stream = find_stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult wrong = check_work(work)) return wrong;
  if (stream->capture) {
    if (stream->capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    stream->frontier = {add_work(stream->capture->graph, std::move(work), stream->frontier)};
    return CUDA_SUCCESS;
  }
  if (stream == &w.default_stream) {
    for (const auto& other : w.streams) {
      if (!other->capture || (other->flags & CU_STREAM_NON_BLOCKING) != 0) continue;
      other->capture->broken = true;
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  if (!is_held(*stream)) w.clock_ns += launch_gap_ns;
  queue_step(*stream, step_of(std::move(work)));
  pump();
  return CUDA_SUCCESS;
}

CUresult refuse_in_capture() {
  for (const auto& stream : world().streams) {
    Capture* capture = stream->capture.get();
    if (!capture || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    if (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
        capture->thread != std::this_thread::get_id())
      continue;
    capture->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

// ---- streams

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  if (flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  World& w = world();
  w.streams.push_back(std::make_unique<CUstream_st>());
  w.streams.back()->flags = flags;
  *stream = w.streams.back().get();
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream handle) {
  CUstream_st* stream = handle ? find_stream(handle) : nullptr;
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) stream->capture->broken = true;
  stream->destroyed = true;
  pump();
  return CUDA_SUCCESS;
}

namespace {

// Nobody may wait for what is only written down.
CUresult refuse_captured(CUstream_st& stream) {
  if (!stream.capture) return CUDA_SUCCESS;
  stream.capture->broken = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

}  // namespace

CUresult cuStreamSynchronize(CUstream handle) {
  CUstream_st* stream = find_stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = refuse_captured(*stream)) return refused;
  // The default stream stands behind all blocking ones; an empty step there waits for them.
  if (!handle) queue_step(*stream, [] { return true; });
  return wait_until([handle] {
    const CUstream_st* still = find_stream(handle);  // another thread may have destroyed it
    return !still || !is_held(*still);
  });
}

CUresult cuStreamQuery(CUstream handle) {
  CUstream_st* stream = find_stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = refuse_captured(*stream)) return refused;
  pump();
  if (world().lost != CUDA_SUCCESS) return world().lost;
  return is_held(*stream) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  if (const CUresult refused = refuse_in_capture()) return refused;
  World& w = world();
  return wait_until([&w] {
    return !is_held(w.default_stream) &&
           std::none_of(w.streams.begin(), w.streams.end(),
                        [](const auto& stream) { return is_held(*stream); });
  });
}

CUresult cuStreamWaitValue32(CUstream handle, CUdeviceptr address, uint32_t value, unsigned flags) {
  CUstream_st* stream = find_stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (flags != CU_STREAM_WAIT_VALUE_EQ && flags != CU_STREAM_WAIT_VALUE_GEQ)
    return CUDA_ERROR_NOT_SUPPORTED;
  char* place = reach(address, 4, false);
  if (!place || address % 4 != 0) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) {
    Work work;
    work.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    return enqueue(handle, std::move(work));
  }
  queue_step(*stream, [place, value, flags] {
    const uint32_t seen = std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(place)).load();
    return flags == CU_STREAM_WAIT_VALUE_EQ ? seen == value
                                            : static_cast<int32_t>(seen - value) >= 0;
  });
  pump();
  return CUDA_SUCCESS;
}

CUresult cuStreamWriteValue32(CUstream handle, CUdeviceptr address, uint32_t value,
                              unsigned flags) {
  CUstream_st* stream = find_stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  char* place = reach(address, 4, true);
  if (!place || address % 4 != 0 || flags != CU_STREAM_WRITE_VALUE_DEFAULT)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) {
    Work work;
    work.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    return enqueue(handle, std::move(work));
  }
  queue_step(*stream, [place, value] {
    std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(place)).store(value);
    return true;
  });
  pump();
  return CUDA_SUCCESS;
}

// ---- copies and memsets

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  if (!reach(to, static_cast<int64_t>(bytes), true)) return CUDA_ERROR_INVALID_VALUE;
  return copy_now(copy_work(CU_MEMORYTYPE_HOST, reinterpret_cast<uint64_t>(from),
                            CU_MEMORYTYPE_DEVICE, to, bytes));
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  if (!reach(from, static_cast<int64_t>(bytes), false)) return CUDA_ERROR_INVALID_VALUE;
  return copy_now(copy_work(CU_MEMORYTYPE_DEVICE, from, CU_MEMORYTYPE_HOST,
                            reinterpret_cast<uint64_t>(to), bytes));
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  if (!reach(to, static_cast<int64_t>(bytes), true)) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) return CUDA_SUCCESS;
  Work work = copy_work(CU_MEMORYTYPE_HOST, reinterpret_cast<uint64_t>(from), CU_MEMORYTYPE_DEVICE,
                        to, bytes);
  const CUstream_st* where = find_stream(stream);
  if (where && !where->capture && !is_pinned(from, static_cast<int64_t>(bytes)))
    work.staged = std::make_shared<std::string>(static_cast<const char*>(from), bytes);
  return enqueue(stream, std::move(work));
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (!reach(from, static_cast<int64_t>(bytes), false)) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) return CUDA_SUCCESS;
  return enqueue(stream, copy_work(CU_MEMORYTYPE_DEVICE, from, CU_MEMORYTYPE_HOST,
                                   reinterpret_cast<uint64_t>(to), bytes));
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (!reach(from, static_cast<int64_t>(bytes), false) ||
      !reach(to, static_cast<int64_t>(bytes), true))
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) return CUDA_SUCCESS;
  return enqueue(stream, copy_work(CU_MEMORYTYPE_DEVICE, from, CU_MEMORYTYPE_DEVICE, to, bytes));
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  if (!reach(to, static_cast<int64_t>(count), true)) return CUDA_ERROR_INVALID_VALUE;
  return set_memory(to, value, 1, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  if (!reach(to, static_cast<int64_t>(count) * 4, true)) return CUDA_ERROR_INVALID_VALUE;
  return set_memory(to, value, 4, count, stream);
}

}  // namespace marathon::fake
