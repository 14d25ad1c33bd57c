// What a profile says of a task whatever tool counts: its shape, the least work, the times that
// were measured. Inside of judge/ only.
#pragma once

#include "judge/judge.h"
#include "judge/profile.h"

namespace marathon {

// The one that the task names, else the listed one with the largest weight; null: none is listed.
const Shape* shape_to_profile(const Task& task);
// The listed shape with the least data.
const Shape* smallest_shape(const Task& task);
// Shape, times, peaks, flops and bytes.
ProfileFacts known_facts(const Task& task, const Shape& shape, const Verdict& verdict);

}  // namespace marathon
