// The loop of a process that runs host code on decoys and captures it: a CUDA candidate, a Triton
// candidate, or a baseline.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "bench/cuda/channel.h"
#include "bench/cuda/driver.h"
#include "marathon_kernel.h"

namespace marathon {

struct CandidateEntries {
  int (*run)(const MarathonArgs*) = nullptr;
  int64_t (*workspace)(const int64_t* dims, int64_t dim_count) = nullptr;  // null: none is needed
  // A baseline that no plan can hold: its graphs are replayed and timed here as well.
  bool is_trusted = false;
};

// Until the judge says quit or is gone.
Status serve_captures(const CandidateEntries& entries, Channel channel);

// By the loaded function's handle: the SHA-256 of the cubin that it came from.
std::map<cuda::CUfunction, std::string>& loaded_images();

// The judge's message that is being answered, as JSON: for entries that are written in Python.
std::string& current_request();

}  // namespace marathon
