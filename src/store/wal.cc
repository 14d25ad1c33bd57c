#include "store/wal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/file.h"

namespace marathon::store {

namespace {

// https://www.sqlite.org/fileformat2.html#the_write_ahead_log
constexpr size_t header_bytes = 32, frame_header_bytes = 24;
constexpr uint32_t magic_little = 0x377f0682, magic_big = 0x377f0683;

using Bytes = std::vector<unsigned char>;

uint32_t big_endian(const unsigned char* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | uint32_t{at[3]};
}

uint32_t little_endian(const unsigned char* at) {
  return uint32_t{at[3]} << 24 | uint32_t{at[2]} << 16 | uint32_t{at[1]} << 8 | uint32_t{at[0]};
}

struct Checksum {
  bool big = false;
  uint32_t a = 0, b = 0;

  void add(const unsigned char* bytes, size_t size) {
    for (size_t i = 0; i + 8 <= size; i += 8) {
      a += (big ? big_endian(bytes + i) : little_endian(bytes + i)) + b;
      b += (big ? big_endian(bytes + i + 4) : little_endian(bytes + i + 4)) + a;
    }
  }
  bool is(const unsigned char* at) const { return a == big_endian(at) && b == big_endian(at + 4); }
};

// Fills `bytes` from the file; fewer at its end.
Result<size_t> read_some(int fd, Bytes& bytes) {
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::read(fd, bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("read log.db-wal", errno);
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  return have;
}

struct Header {
  bool good = false;
  size_t page_bytes = 0;
  uint32_t salt1 = 0, salt2 = 0;
  Checksum checksum;
};

Header parse_header(const Bytes& bytes) {
  Header header;
  const uint32_t magic = big_endian(bytes.data());
  header.page_bytes = big_endian(bytes.data() + 8);
  header.salt1 = big_endian(bytes.data() + 16);
  header.salt2 = big_endian(bytes.data() + 20);
  header.checksum.big = magic == magic_big;
  header.checksum.add(bytes.data(), 24);
  header.good = (magic == magic_little || magic == magic_big) && header.checksum.is(&bytes[24]);
  return header;
}

}  // namespace

Result<WalTail> inspect_wal(const std::filesystem::path& wal_file) {
  WalTail tail;
  const Fd fd(::open(wal_file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && errno == ENOENT) return tail;
  if (!fd) return fail_errno("open " + wal_file.string(), errno);
  Bytes head(header_bytes);
  if (TRY(read_some(fd.get(), head)) < header_bytes) return tail;
  Header header = parse_header(head);
  const bool sane_size = header.page_bytes >= 512 && header.page_bytes <= 65536 &&
                         (header.page_bytes & (header.page_bytes - 1)) == 0;
  if (!sane_size) header.page_bytes = 4096;  // a damaged header: SQLite will read no frame at all
  bool chained = header.good && sane_size, first = true;
  int64_t offset = header_bytes, same_generation_end = header_bytes;
  tail.good_bytes = header_bytes;
  Bytes frame(frame_header_bytes + header.page_bytes);
  while (true) {
    const size_t got = TRY(read_some(fd.get(), frame));
    if (got < frame_header_bytes) break;
    if (first && !header.good) {  // the salts come from the first frame instead
      header.salt1 = big_endian(&frame[8]);
      header.salt2 = big_endian(&frame[12]);
    }
    first = false;
    // Frames of an earlier generation, not yet overwritten, have other salts.
    const bool same =
        big_endian(&frame[8]) == header.salt1 && big_endian(&frame[12]) == header.salt2;
    const bool commits = big_endian(&frame[4]) != 0;
    offset += static_cast<int64_t>(got);
    if (chained) {
      header.checksum.add(frame.data(), 8);
      header.checksum.add(frame.data() + frame_header_bytes, header.page_bytes);
      chained = same && got == frame.size() && header.checksum.is(&frame[16]);
    }
    if (same) same_generation_end = offset;
    if (chained && commits) {
      tail.good_bytes = offset;
      tail.lost_commits = 0;
    } else if (!chained && same && commits && got == frame.size()) {
      ++tail.lost_commits;
    }
    if (got < frame.size()) break;
  }
  if (same_generation_end > tail.good_bytes)
    tail.unread_bytes = same_generation_end - tail.good_bytes;
  return tail;
}

std::string describe(const WalTail& tail) {
  if (tail.lost_commits > 0) {
    return fmt::format(
        "log.db-wal is damaged behind byte {}: up to {} appends after it cannot be read and count "
        "as never written",
        tail.good_bytes, tail.lost_commits);
  }
  if (tail.unread_bytes > 0) {
    return fmt::format(
        "an append was cut short: {} bytes behind byte {} of log.db-wal count as never written",
        tail.unread_bytes, tail.good_bytes);
  }
  return "";
}

}  // namespace marathon::store
