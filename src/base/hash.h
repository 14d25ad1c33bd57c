// SHA-256, the only hash of Marathon: candidates, artifacts, tasks and the log's chain.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace marathon {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::string_view bytes);
  void update_field(std::string_view bytes);  // length first, so that two fields never run together
  std::string finish_hex();                   // 64 lower-case hex digits; call once

 private:
  void* context_;  // EVP_MD_CTX
};

std::string sha256_hex(std::string_view bytes);
Result<std::string> sha256_file(const std::filesystem::path& path);

// The first 12 digits, for people. Commands accept any unique prefix of 6 or more.
std::string short_hash(std::string_view hex);

}  // namespace marathon
