#include "bench/cuda/gpu_once.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/core_lock.h"
#include "bench/cuda/gpu_plan.h"

namespace marathon {

namespace {

constexpr double gpu_wait_s = 3600;

// Asks, and is done with the process: what a tool says of it is only whole after its end.
Json replay_once(GpuSession& session, const GpuPlans& plans, const GpuShape& shape,
                 GpuProcess& replayer, double limit_s) {
  Json answer = Json::object();
  std::optional<WorkerFailure> failure = finish_start(plans, replayer);
  if (!failure) failure = add_shape(session, plans, shape, replayer);
  if (!failure)
    failure = replayer.ask({{"do", "once"}, {"shape", shape.index}, {"set", 0}}, limit_s).failure;
  const ProcessResult result = replayer.finish(limit_s);
  if (failure) answer["failure"] = failure->why;
  answer["exit_code"] = result.exit_code;
  answer["timed_out"] = result.timed_out || (failure && failure->kind == VerdictKind::timed_out);
  answer["output"] = result.out + result.err;
  return answer;
}

}  // namespace

Result<Json> run_gpu_once(const BenchRequest& request, const Task& task) {
  const std::unique_ptr<GpuSession> session = TRY(GpuSession::make(request, task));
  const Fd lock = TRY(lock_core(gpu_lock_base + static_cast<int>(request.gpu), gpu_wait_s));
  const TempFolder folder = TRY(TempFolder::make("marathon-gpu"));
  const auto shape =
      std::find_if(session->shapes().begin(), session->shapes().end(),
                   [&](const GpuShape& other) { return other.plan.shape->name == request.shape; });
  if (shape == session->shapes().end())
    return fail(Fault::not_found, "the task has no shape '" + request.shape + "'");
  const Planned planned =
      TRY(plan_all(*session, {{request.candidate, request.candidate_cubins}}, folder.path()));
  if (planned.failure) return fail(Fault::invalid, "the candidate fails: " + planned.failure->why);
  const GpuPlans& plans = planned.arms.front();
  TRY(session->fill(*shape, 0, session->random().next()));
  TRY(session->poison(*shape, 0, session->random().next()));
  const std::shared_ptr<GpuProcess> replayer = TRY(begin_start(*session, plans, folder.path()));
  Json answer = replay_once(*session, plans, *shape, *replayer, request.tool_limit_s);
  const PlanArena& inputs = plans.arenas[input_arena];
  answer["inputs"] = {{"address", inputs.address}, {"bytes", inputs.bytes}};
  return answer;
}

}  // namespace marathon
