// The bench on one core of the CPU.
#include "bench/bench.h"
#include "bench/core_lock.h"
#include "bench/parallel.h"

namespace marathon {

namespace {

constexpr double core_wait_s = 600;

int core_of(const BenchRequest& request) {
  return request.core >= 0 ? static_cast<int>(request.core) : last_allowed_core();
}

class CpuBench : public Bench {
 public:
  CpuBench(Fd lock, std::unique_ptr<Session> session)
      : lock_(std::move(lock)), session_(std::move(session)) {}

  // The candidate first: a failure to name its workspace is its own.
  Result<Prepared> prepare() override {
    Prepared prepared;
    const BenchRequest& request = session_->request;
    if (const std::optional<WorkerFailure> failure =
            TRY(ask_workspaces(*session_, request.candidate))) {
      prepared.failure = ShapeFailure{failure->kind, failure->why};
      return prepared;
    }
    for (const std::filesystem::path& library : {request.baseline, request.incumbent}) {
      if (library.empty()) continue;
      if (const std::optional<WorkerFailure> failure = TRY(ask_workspaces(*session_, library)))
        prepared.ambiguous = "baseline or incumbent: " + failure->why;
    }
    return prepared;
  }

  Result<CheckResult> check() override {
    return check_candidate(*session_, session_->request.candidate, session_->request.baseline);
  }

  Result<Measurement> measure(const MeasureOptions& options) override {
    const BenchRequest& request = session_->request;
    return marathon::measure(*session_, {request.candidate, request.incumbent, request.baseline},
                             options);
  }

  Result<Measurement> measure_noise(const MeasureOptions& options) override {
    const std::filesystem::path& baseline = session_->request.baseline;
    return marathon::measure(*session_, {baseline, baseline, baseline}, options);
  }

  Result<FloorTimes> floor(const ShapePlan& plan) override {
    return floor_of(session_->task, plan, session_->request.peaks, session_->task.measure.cache);
  }

  Random& random() override { return session_->random; }

  void describe(Provenance& provenance) const override {
    provenance.core = session_->core;
    provenance.sandbox = session_->sandbox;
  }

 private:
  Fd lock_;
  std::unique_ptr<Session> session_;
};

}  // namespace

Result<std::unique_ptr<Bench>> make_cpu_bench(const BenchRequest& request, const Task& task) {
  Fd lock = TRY(lock_core(core_of(request), core_wait_s));
  std::unique_ptr<Session> session = TRY(make_session(request, task, request.seed));
  return std::unique_ptr<Bench>(new CpuBench(std::move(lock), std::move(session)));
}

}  // namespace marathon
