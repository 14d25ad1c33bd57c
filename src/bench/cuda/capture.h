// A captured graph as data: every node with its parameters, every edge. For the worker.
#pragma once

#include <map>
#include <string>

#include "bench/cuda/driver.h"
#include "bench/cuda/plan.h"

namespace marathon {

// Which cubin a function was loaded from, by its SHA-256: for kernels that are made at run time, where
// several have one name.
using Images = std::map<cuda::CUfunction, std::string>;

// Error invalid names what a candidate may not have in its graph (a host function, an allocation …)
// and why.
Result<PlanGraph> plan_of_graph(const cuda::Driver& driver, cuda::CUgraph graph,
                                const Images& images = {});

}  // namespace marathon
