// The fake driver's memory: host pages. What can be shared is a memfd, so that its descriptor maps
// the same bytes in another process; what is mapped read-only is so for the host's MMU too.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "fake_cuda.h"

namespace marathon::fake {

namespace {

void* pointer_to(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
bool is_granular(size_t bytes) {
  return bytes > 0 && bytes % static_cast<size_t>(granularity_bytes) == 0;
}

// Every allocation of device memory passes here.
bool may_allocate(int64_t bytes) {
  World& w = world();
  const bool allowed = w.options.oom_after < 0 || w.allocations < w.options.oom_after;
  if (!allowed || bytes > total_memory_bytes - w.used_bytes) return false;
  w.allocations += 1;
  w.used_bytes += bytes;
  return true;
}

bool is_usual(const CUmemAllocationProp& properties) {
  return properties.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties.location.id == 0;
}

void drop_use(CUmemGenericAllocationHandle handle) {
  World& w = world();
  const auto found = w.physical.find(handle);
  if (found == w.physical.end() || --found->second.uses > 0) return;
  ::close(found->second.fd);
  if (found->second.is_ours) w.used_bytes -= found->second.bytes;
  w.physical.erase(found);
}

// The mappings that [address, address + bytes) consists of, whole; empty: it is no such range.
std::vector<CUdeviceptr> mappings_of(CUdeviceptr address, size_t bytes) {
  const World& w = world();
  std::vector<CUdeviceptr> found;
  CUdeviceptr at = address;
  while (at < address + bytes) {
    const auto range = w.ranges.find(at);
    if (range == w.ranges.end() || range->second.kind != Range::mapping) return {};
    found.push_back(at);
    at += static_cast<CUdeviceptr>(range->second.bytes);
  }
  return at == address + bytes ? found : std::vector<CUdeviceptr>();
}

const Range* range_of(CUdeviceptr address, CUdeviceptr* begin) {
  const World& w = world();
  auto after = w.ranges.upper_bound(address);
  if (after == w.ranges.begin()) return nullptr;
  --after;
  if (address >= after->first + static_cast<CUdeviceptr>(after->second.bytes)) return nullptr;
  *begin = after->first;
  return &after->second;
}

CUresult release_pages(CUdeviceptr address, Range::Kind kind) {
  World& w = world();
  const auto found = w.ranges.find(address);
  if (found == w.ranges.end() || found->second.kind != kind) return CUDA_ERROR_INVALID_VALUE;
  // As the real driver: memory in use is not taken away, so a stream that is blocked blocks this.
  const CUresult waited = wait_until([&w] {
    return w.default_stream.queue.empty() &&
           std::all_of(w.streams.begin(), w.streams.end(),
                       [](const auto& stream) { return stream->queue.empty(); });
  });
  if (waited != CUDA_SUCCESS) return waited;
  const Range range = found->second;
  ::munmap(pointer_to(address), static_cast<size_t>(range.bytes));
  if (kind == Range::allocation) w.used_bytes -= range.bytes;
  w.ranges.erase(address);
  return CUDA_SUCCESS;
}

}  // namespace

char* reach(CUdeviceptr address, int64_t bytes, bool to_write) {
  const int wanted = to_write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
  if (bytes < 0 || address + static_cast<CUdeviceptr>(bytes) < address) return nullptr;
  const CUdeviceptr end = address + static_cast<CUdeviceptr>(bytes);
  for (CUdeviceptr at = address; at < end;) {
    CUdeviceptr begin = 0;
    const Range* range = range_of(at, &begin);
    if (!range || (range->access & wanted) != wanted) return nullptr;
    at = begin + static_cast<CUdeviceptr>(range->bytes);
  }
  return static_cast<char*>(pointer_to(address));
}

bool is_pinned(const void* host, int64_t bytes) {
  CUdeviceptr begin = 0;
  const Range* range = range_of(address_of(host), &begin);
  return range && range->kind == Range::host &&
         address_of(host) + static_cast<CUdeviceptr>(bytes) <=
             begin + static_cast<CUdeviceptr>(range->bytes);
}

// ---- plain memory

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  *free = static_cast<size_t>(total_memory_bytes - world().used_bytes);
  *total = static_cast<size_t>(total_memory_bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  if (const CUresult refused = refuse_in_capture()) return refused;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const int64_t size = static_cast<int64_t>(bytes);
  if (!may_allocate(size)) return CUDA_ERROR_OUT_OF_MEMORY;
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) {
    world().used_bytes -= size;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = address_of(pages);
  world().ranges[*address] = {size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, Range::allocation};
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address) {
  if (const CUresult refused = refuse_in_capture()) return refused;
  return release_pages(address, Range::allocation);
}

CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  if (const CUresult refused = refuse_in_capture()) return refused;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = pages;
  world().ranges[address_of(pages)] = {static_cast<int64_t>(bytes),
                                       CU_MEM_ACCESS_FLAGS_PROT_READWRITE, Range::host};
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* address) {
  if (const CUresult refused = refuse_in_capture()) return refused;
  return release_pages(address_of(address), Range::host);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* address, void* host, unsigned flags) {
  if (flags != 0 || !is_pinned(host, 1)) return CUDA_ERROR_INVALID_VALUE;
  *address = address_of(host);
  return CUDA_SUCCESS;
}

// ---- memory that is mapped and shared

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       unsigned) {
  if (!is_usual(*properties)) return CUDA_ERROR_INVALID_VALUE;
  *granularity = static_cast<size_t>(granularity_bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  if (flags != 0 || !is_usual(*properties) || !is_granular(bytes)) return CUDA_ERROR_INVALID_VALUE;
  const int64_t size = static_cast<int64_t>(bytes);
  if (!may_allocate(size)) return CUDA_ERROR_OUT_OF_MEMORY;
  World& w = world();
  const int fd = ::memfd_create("fake-cuda", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, size) != 0) {
    if (fd >= 0) ::close(fd);
    w.used_bytes -= size;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Physical made;
  made.fd = fd;
  made.bytes = size;
  made.may_share =
      (properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
  *handle = w.next_physical++;
  w.physical[*handle] = made;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const auto found = world().physical.find(handle);
  if (found == world().physical.end() || found->second.released) return CUDA_ERROR_INVALID_VALUE;
  found->second.released = true;
  drop_use(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags) {
  const size_t unit = static_cast<size_t>(granularity_bytes);
  if (flags != 0 || !is_granular(bytes) || (alignment & (alignment - 1)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const size_t aligned = std::max(alignment, unit);
  constexpr int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (wish != 0 && wish % aligned == 0) {
    void* there = ::mmap(pointer_to(wish), bytes, PROT_NONE, kind | MAP_FIXED_NOREPLACE, -1, 0);
    if (there == pointer_to(wish)) {
      *address = wish;
      world().reservations[wish] = static_cast<int64_t>(bytes);
      return CUDA_SUCCESS;
    }
    if (there != MAP_FAILED) ::munmap(there, bytes);
  }
  void* pages = ::mmap(nullptr, bytes + aligned, PROT_NONE, kind, -1, 0);
  if (pages == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUdeviceptr begin = address_of(pages), at = (begin + aligned - 1) / aligned * aligned;
  if (at > begin) ::munmap(pages, at - begin);
  ::munmap(pointer_to(at + bytes), begin + aligned - at);
  *address = at;
  world().reservations[at] = static_cast<int64_t>(bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  World& w = world();
  const auto found = w.reservations.find(address);
  if (found == w.reservations.end() || found->second != static_cast<int64_t>(bytes))
    return CUDA_ERROR_INVALID_VALUE;
  const auto mapped = w.ranges.lower_bound(address);
  if (mapped != w.ranges.end() && mapped->first < address + bytes) return CUDA_ERROR_INVALID_VALUE;
  ::munmap(pointer_to(address), bytes);
  w.reservations.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  World& w = world();
  const auto physical = w.physical.find(handle);
  if (flags != 0 || offset != 0 || !is_granular(bytes) || physical == w.physical.end() ||
      physical->second.released || static_cast<int64_t>(bytes) > physical->second.bytes)
    return CUDA_ERROR_INVALID_VALUE;
  auto reserved = w.reservations.upper_bound(address);
  if (reserved == w.reservations.begin()) return CUDA_ERROR_INVALID_VALUE;
  --reserved;
  const auto next = w.ranges.lower_bound(address);
  CUdeviceptr begin = 0;
  if (address + bytes > reserved->first + static_cast<CUdeviceptr>(reserved->second) ||
      (next != w.ranges.end() && next->first < address + bytes) || range_of(address, &begin))
    return CUDA_ERROR_INVALID_VALUE;
  if (::mmap(pointer_to(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->second.fd,
             0) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  physical->second.uses += 1;
  w.ranges[address] = {static_cast<int64_t>(bytes), 0, Range::mapping};
  w.mappings[address] = handle;
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  World& w = world();
  const std::vector<CUdeviceptr> found = mappings_of(address, bytes);
  if (found.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (const CUdeviceptr at : found) {
    ::mmap(pointer_to(at), static_cast<size_t>(w.ranges[at].bytes), PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    drop_use(w.mappings[at]);
    w.mappings.erase(at);
    w.ranges.erase(at);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  const std::vector<CUdeviceptr> found = mappings_of(address, bytes);
  if (found.empty() || count != 1 || access->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      access->location.id != 0)
    return CUDA_ERROR_INVALID_VALUE;
  int protection = PROT_NONE;
  if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
    protection = PROT_READ;
  else if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    protection = PROT_READ | PROT_WRITE;
  else if (access->flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (const CUdeviceptr at : found) {
    Range& range = world().ranges[at];
    if (::mprotect(pointer_to(at), static_cast<size_t>(range.bytes), protection) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    range.access = access->flags;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      int type, unsigned long long flags) {
  const auto found = world().physical.find(handle);
  if (flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      found == world().physical.end() || found->second.released || !found->second.may_share)
    return CUDA_ERROR_INVALID_VALUE;
  const int fd = ::fcntl(found->second.fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int*>(shareable) = fd;
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        int type) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  const int theirs = static_cast<int>(reinterpret_cast<intptr_t>(shareable));
  struct stat facts = {};
  // Only what cuMemCreate made has seals and such a size; a plain file is no memory of a GPU.
  if (::fcntl(theirs, F_GET_SEALS) < 0 || ::fstat(theirs, &facts) != 0 ||
      !is_granular(static_cast<size_t>(facts.st_size)))
    return CUDA_ERROR_INVALID_VALUE;
  Physical made;
  made.fd = ::fcntl(theirs, F_DUPFD_CLOEXEC, 0);
  if (made.fd < 0) return CUDA_ERROR_INVALID_VALUE;
  made.bytes = facts.st_size;
  made.may_share = true;
  made.is_ours = false;
  World& w = world();
  *handle = w.next_physical++;
  w.physical[*handle] = made;
  return CUDA_SUCCESS;
}

}  // namespace marathon::fake
