#include "base/random.h"

#include <sys/random.h>

#include <bit>
#include <cmath>
#include <numbers>

namespace marathon {

namespace {
uint64_t splitmix64(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// FNV-1a: mixes a purpose's name into a seed; splitmix64 does the rest.
uint64_t mix(uint64_t seed, std::string_view purpose) {
  uint64_t hash = 0xcbf29ce484222325 ^ seed;
  for (const char c : purpose) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}
}  // namespace

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) word = splitmix64(seed);
}

Random::Random(uint64_t seed, std::string_view purpose) : Random(mix(seed, purpose)) {}

uint64_t Random::next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t Random::below(uint64_t bound) {
  const uint64_t threshold = -bound % bound;  // the part of 2^64 that would bias the remainder
  while (true) {
    const uint64_t value = next();
    if (value >= threshold) return value % bound;
  }
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

uint64_t secret_seed() {
  uint64_t seed = 0;
  while (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) {
  }
  return seed;
}

}  // namespace marathon
