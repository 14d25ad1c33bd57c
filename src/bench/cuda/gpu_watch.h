// Readings of NVML over one measurement, and what they say of it as evidence.
#pragma once

#include <string>
#include <vector>

#include "bench/cuda/nvml.h"
#include "core/verdict.h"

namespace marathon {

class GpuWatch {
 public:
  explicit GpuWatch(std::string uuid);
  // A few milliseconds; not inside of a timed window.
  void look();
  GpuEvidence evidence(const std::string& name) const;

 private:
  std::string uuid_;
  Nvml nvml_;
  std::vector<GpuReading> readings_;
  int64_t others_ = 0;
};

GpuEvidence evidence_of(const std::vector<GpuReading>& readings);
// How many are neither this process nor a descendant of it. In a container NVML may number them as
// the host does: without this process in the list nothing is known, and the answer is 0.
int64_t other_processes(const std::vector<int64_t>& pids);

}  // namespace marathon
