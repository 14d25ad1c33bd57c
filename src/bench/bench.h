// What an evaluation asks of a machine: is it right, and how long does it take. Two of them: on a
// core of the CPU, and on a GPU.
#pragma once

#include <memory>

#include "bench/check.h"
#include "bench/floor.h"
#include "bench/measure.h"

namespace marathon {

class Bench {
 public:
  virtual ~Bench() = default;
  // Before the first check: what the implementations need. A failure of the candidate comes back as
  // one of the check; `ambiguous` says that baseline or incumbent failed.
  struct Prepared {
    std::optional<ShapeFailure> failure;
    std::string failed_shape, failed_set;
    std::string ambiguous;
  };
  virtual Result<Prepared> prepare() = 0;
  virtual Result<CheckResult> check() = 0;
  // Candidate, incumbent and baseline in turn.
  virtual Result<Measurement> measure(const MeasureOptions& options) = 0;
  // The baseline against itself.
  virtual Result<Measurement> measure_noise(const MeasureOptions& options) = 0;
  virtual Result<FloorTimes> floor(const ShapePlan& plan) = 0;
  virtual Random& random() = 0;
  virtual void describe(Provenance& provenance) const = 0;
};

// On the CPU or on a GPU, as the request says.
Result<std::unique_ptr<Bench>> make_bench(const BenchRequest& request, const Task& task);
Result<std::unique_ptr<Bench>> make_cpu_bench(const BenchRequest& request, const Task& task);

}  // namespace marathon
