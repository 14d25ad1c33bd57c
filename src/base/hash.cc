#include "base/hash.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/file.h"

namespace marathon {

namespace {
EVP_MD_CTX* as_context(void* context) { return static_cast<EVP_MD_CTX*>(context); }
}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  // Fetching by name for every hash costs more than hashing 1 KB; the fetched method lives for
  // ever.
  static EVP_MD* const method = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_DigestInit_ex(as_context(context_), method, nullptr);
}

Sha256::~Sha256() { EVP_MD_CTX_free(as_context(context_)); }

void Sha256::update(std::string_view bytes) {
  EVP_DigestUpdate(as_context(context_), bytes.data(), bytes.size());
}

void Sha256::update_field(std::string_view bytes) {
  const uint64_t size = bytes.size();
  char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(size >> (8 * i));
  update(std::string_view(length, sizeof length));
  update(bytes);
}

std::string Sha256::finish_hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(as_context(context_), digest, &size);
  static constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(size_t{2} * size);
  for (unsigned int i = 0; i < size; ++i) {
    hex.push_back(digits[digest[i] >> 4]);
    hex.push_back(digits[digest[i] & 15]);
  }
  return hex;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish_hex();
}

Result<std::string> sha256_file(const std::filesystem::path& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno("open " + path.string(), errno);
  Sha256 hash;
  std::vector<char> buffer(1 << 16);
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("read " + path.string(), errno);
    if (got == 0) return hash.finish_hex();
    hash.update(std::string_view(buffer.data(), static_cast<size_t>(got)));
  }
}

std::string short_hash(std::string_view hex) { return std::string(hex.substr(0, 12)); }

}  // namespace marathon
