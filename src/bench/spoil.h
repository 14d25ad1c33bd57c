// Ways to spoil a right output, as a cheat or a careless kernel would. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "bench/dtype.h"
#include "core/task.h"

namespace marathon {

// What a mutant may use: the honest output, and outputs of other problems.
struct Material {
  DType dtype;
  std::vector<int64_t> extents;
  Values honest;     // of the starting solution
  Values other;      // right for other inputs
  Values forgetful;  // right in the first half of the sequence; the second never
                     // saw the first
  Values coarse;     // emulation on inputs rounded to bf16
  Random& random;
};

struct Mutant {
  const char* name;
  std::function<Values(const Material&)> make;
};

const std::vector<Mutant>& all_mutants();

// Rounding to a type that the output or every input has already changes nothing that is wrong.
bool is_harmless(const std::string& mutant, const Task& task, DType output);

}  // namespace marathon
