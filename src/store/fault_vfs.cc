// A SQLite file layer that passes everything on and fails when the plan says so.
#include <fcntl.h>
#include <sqlite3.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "store/fault.h"

namespace marathon::store {

namespace {

// Atomics: a test's reader thread opens logs while the writer's thread counts.
std::atomic<bool> installed = false;
std::atomic<FaultKind> kind = FaultKind::enospc;
std::atomic<int64_t> first = 0, last = -1;  // the failing calls; none when last < first
std::atomic<int64_t> counted = 0;

constexpr const char* vfs_name = "marathon-fault";

struct FaultFile {
  sqlite3_file base;  // SQLite sees this
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

sqlite3_file* real(sqlite3_file* file) { return reinterpret_cast<FaultFile*>(file)->real(); }

// SQLite asks for errno after an I/O error.
int fail_as(FaultKind fault, int io_error) {
  switch (fault) {
    case FaultKind::enospc:
    case FaultKind::short_write:
      errno = ENOSPC;
      return SQLITE_FULL;
    case FaultKind::eio:
      errno = EIO;
      return io_error;
  }
  return io_error;
}

int on_write(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 offset) {
  if (const std::optional<FaultKind> fault = next_fault()) {
    if (*fault == FaultKind::short_write)
      (void)real(file)->pMethods->xWrite(real(file), bytes, size / 2, offset);
    return fail_as(*fault, SQLITE_IOERR_WRITE);
  }
  return real(file)->pMethods->xWrite(real(file), bytes, size, offset);
}

int on_sync(sqlite3_file* file, int flags) {
  if (const std::optional<FaultKind> fault = next_fault())
    return fail_as(*fault, SQLITE_IOERR_FSYNC);
  return real(file)->pMethods->xSync(real(file), flags);
}

int on_close(sqlite3_file* file) { return real(file)->pMethods->xClose(real(file)); }
int on_read(sqlite3_file* file, void* bytes, int size, sqlite3_int64 offset) {
  return real(file)->pMethods->xRead(real(file), bytes, size, offset);
}
int on_truncate(sqlite3_file* file, sqlite3_int64 size) {
  return real(file)->pMethods->xTruncate(real(file), size);
}
int on_size(sqlite3_file* file, sqlite3_int64* size) {
  return real(file)->pMethods->xFileSize(real(file), size);
}
int on_lock(sqlite3_file* file, int level) {
  return real(file)->pMethods->xLock(real(file), level);
}
int on_unlock(sqlite3_file* file, int level) {
  return real(file)->pMethods->xUnlock(real(file), level);
}
int on_reserved(sqlite3_file* file, int* result) {
  return real(file)->pMethods->xCheckReservedLock(real(file), result);
}
int on_control(sqlite3_file* file, int op, void* argument) {
  return real(file)->pMethods->xFileControl(real(file), op, argument);
}
int on_sector(sqlite3_file* file) { return real(file)->pMethods->xSectorSize(real(file)); }
int on_device(sqlite3_file* file) {
  return real(file)->pMethods->xDeviceCharacteristics(real(file));
}
int on_shm_map(sqlite3_file* file, int page, int size, int extend, void volatile** address) {
  return real(file)->pMethods->xShmMap(real(file), page, size, extend, address);
}
int on_shm_lock(sqlite3_file* file, int offset, int count, int flags) {
  return real(file)->pMethods->xShmLock(real(file), offset, count, flags);
}
void on_shm_barrier(sqlite3_file* file) { real(file)->pMethods->xShmBarrier(real(file)); }
int on_shm_unmap(sqlite3_file* file, int remove) {
  return real(file)->pMethods->xShmUnmap(real(file), remove);
}

// Version 2: without xFetch, since a log is never memory-mapped.
const sqlite3_io_methods methods = {
    2,           on_close,       on_read,      on_write,   on_truncate, on_sync,   on_size,
    on_lock,     on_unlock,      on_reserved,  on_control, on_sector,   on_device, on_shm_map,
    on_shm_lock, on_shm_barrier, on_shm_unmap, nullptr,    nullptr};

sqlite3_vfs* real_vfs(sqlite3_vfs* vfs) { return static_cast<sqlite3_vfs*>(vfs->pAppData); }

int on_open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  const int code = real_vfs(vfs)->xOpen(real_vfs(vfs), name, real(file), flags, out_flags);
  if (code == SQLITE_OK) file->pMethods = &methods;
  return code;
}
int on_delete(sqlite3_vfs* vfs, const char* name, int sync) {
  return real_vfs(vfs)->xDelete(real_vfs(vfs), name, sync);
}
int on_access(sqlite3_vfs* vfs, const char* name, int flags, int* result) {
  return real_vfs(vfs)->xAccess(real_vfs(vfs), name, flags, result);
}
int on_full_name(sqlite3_vfs* vfs, const char* name, int size, char* out) {
  return real_vfs(vfs)->xFullPathname(real_vfs(vfs), name, size, out);
}

bool register_vfs() {
  static sqlite3_vfs vfs = [] {
    sqlite3_vfs* base = sqlite3_vfs_find(nullptr);
    sqlite3_vfs copy = *base;  // time, randomness and sleep are the real ones
    copy.szOsFile = static_cast<int>(sizeof(FaultFile)) + base->szOsFile;
    copy.pNext = nullptr;
    copy.zName = vfs_name;
    copy.pAppData = base;
    copy.xOpen = on_open;
    copy.xDelete = on_delete;
    copy.xAccess = on_access;
    copy.xFullPathname = on_full_name;
    return copy;
  }();
  return sqlite3_vfs_register(&vfs, 0) == SQLITE_OK;
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const std::from_chars_result read =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || value < 1) return {};
  return value;
}

std::optional<FaultKind> kind_from(std::string_view name) {
  if (name == "enospc") return FaultKind::enospc;
  if (name == "eio") return FaultKind::eio;
  if (name == "short") return FaultKind::short_write;
  return std::nullopt;
}

}  // namespace

Result<FaultPlan> parse_fault(std::string_view text) {
  const size_t colon = text.find(':');
  const size_t plus = text.find('+');
  const std::optional<FaultKind> named = kind_from(text.substr(0, colon));
  const std::string_view number =
      colon == std::string_view::npos
          ? std::string_view()
          : text.substr(colon + 1, plus == std::string_view::npos ? plus : plus - colon - 1);
  const std::optional<int64_t> at = whole_number(number);
  const std::optional<int64_t> count = plus == std::string_view::npos
                                           ? std::optional<int64_t>(1)
                                           : whole_number(text.substr(plus + 1));
  if (!named || !at || !count) {
    return fail(Fault::invalid, "MARATHON_TEST_FAULT is '" + std::string(text) +
                                    "': write enospc:N, eio:N or short:N, and +COUNT for several "
                                    "in a row, for example enospc:7+3");
  }
  return FaultPlan{*named, *at, *count};
}

void set_fault_plan(const FaultPlan& plan) {
  if (!installed.load()) installed = register_vfs();
  last = -1;  // while the rest is set, nothing fails
  counted = 0;
  kind = plan.kind;
  first = plan.first;
  last = plan.first + plan.count - 1;
}

void clear_fault_plan() { last = -1; }

Status use_fault_switch() {
  static const Status read = []() -> Status {
    const char* text = std::getenv("MARATHON_TEST_FAULT");
    if (!text || !*text) return {};
    const Result<FaultPlan> plan = parse_fault(text);
    if (!plan) return tl::unexpected(plan.error());
    set_fault_plan(*plan);
    return {};
  }();
  return read;
}

std::optional<FaultKind> next_fault() {
  if (!installed.load(std::memory_order_relaxed)) return std::nullopt;
  const int64_t number = ++counted;
  if (number < first || number > last) return std::nullopt;
  return kind.load();
}

int64_t writes_counted() { return counted; }

const char* fault_vfs() { return installed.load() ? vfs_name : nullptr; }

}  // namespace marathon::store
