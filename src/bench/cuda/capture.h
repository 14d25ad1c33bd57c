// A captured graph as data: every node with its parameters, every edge. For the worker.
#pragma once

#include "bench/cuda/driver.h"
#include "bench/cuda/plan.h"

namespace marathon {

// Error invalid names what a candidate may not have in its graph (a host function, an allocation …)
// and why.
Result<PlanGraph> plan_of_graph(const cuda::Driver& driver, cuda::CUgraph graph);

}  // namespace marathon
