// Random numbers that are the same on every machine for the same seed.
//
// xoshiro256** 1.0 (Blackman and Vigna, 2018) seeded by splitmix64. Not std::mt19937 with
// std::*_distribution: the standard leaves the distributions' algorithms open, so one seed gives
// other numbers with another library.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace marathon {

class Random {
 public:
  explicit Random(uint64_t seed);
  // An independent stream for a purpose: Random(seed, "lhs") never shares numbers with
  // Random(seed, "climb").
  Random(uint64_t seed, std::string_view purpose);

  uint64_t next();
  uint64_t below(uint64_t bound);  // uniform in [0, bound), bound > 0, without modulo bias
  double uniform();                // [0, 1), 53 bits
  double normal();                 // N(0, 1), Box-Muller

 private:
  std::array<uint64_t, 4> state_;
};

// A seed that nobody can guess, from the kernel.
uint64_t secret_seed();

}  // namespace marathon
