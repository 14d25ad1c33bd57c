#include "bench/measure.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <numeric>

#include "base/clock.h"
#include "bench/check.h"
#include "bench/peaks.h"

namespace marathon {

namespace {

constexpr int empty_windows = 9;
constexpr double disturbed_share = 0.03,
                 disturbed_ns = 30'000;  // wall above CPU: something else ran
constexpr double threaded_share = 0.05,
                 threaded_ns = 50'000;  // CPU above wall: more than one thread
constexpr int64_t extra_rounds = 3;     // times the plan, for windows thrown away

struct Runner {
  Arm arm;
  Worker worker;
  double empty_wall_ns = 0, empty_cpu_ns = 0;
};

// A window's net times. Not less than a tenth of the gross: the empty window is only an estimate.
struct Net {
  double wall_ns = 0, cpu_ns = 0;
};
Net net_of(const WindowTimes& times, const Runner& runner) {
  const double wall = static_cast<double>(times.wall_ns), cpu = static_cast<double>(times.cpu_ns);
  return {std::max(wall - runner.empty_wall_ns, 0.1 * wall),
          std::max(cpu - runner.empty_cpu_ns, 0.0)};
}

class Measurer {
 public:
  Measurer(Session& session, const std::vector<std::filesystem::path>& libraries)
      : session_(session), libraries_(libraries) {
    result_.samples.resize(3);
    for (const ShapePlan& plan : session.plans) {
      if (plan.shape->set == ShapeSet::listed && is_looked_at(session, plan))
        result_.shapes.push_back(&plan);
    }
    result_.other_ns.resize(result_.shapes.size());
  }

  Result<Measurement> run(int64_t restarts, const EnoughKnown& enough) {
    for (int64_t restart = 0; restart < restarts; ++restart) {
      TRY(run_restart(restart + 1 == restarts));
      if (result_.failure || !result_.ambiguous.empty()) break;
      ++result_.restarts;
      if (restart + 1 < restarts && enough(result_)) {
        result_.decided_early = true;
        break;
      }
    }
    return std::move(result_);
  }

 private:
  Status start_runners(std::vector<Runner>& runners) {
    for (const Arm arm : {Arm::candidate, Arm::incumbent, Arm::baseline}) {
      const std::filesystem::path& library = libraries_[static_cast<size_t>(arm)];
      if (library.empty()) continue;
      runners.push_back({arm, TRY(session_.start(library))});
    }
    return {};
  }

  // The cost of asking and answering, by windows without a call.
  bool measure_empty(Runner& runner, const ShapePlan& plan) {
    const Layout layout = draw_layout(plan.sizes, 1, session_.random);
    std::vector<double> wall, cpu;
    for (int i = 0; i < empty_windows; ++i) {
      WindowTimes times;
      std::optional<WorkerFailure> failure = runner.worker.prepare(plan.dims, layout, plan.sizes);
      if (!failure) failure = runner.worker.go(0, session_.task.measure.timeout_s, times);
      if (failure) return note(runner.arm, plan, ShapeFailure{failure->kind, failure->why});
      wall.push_back(static_cast<double>(times.wall_ns));
      cpu.push_back(static_cast<double>(times.cpu_ns));
    }
    runner.empty_wall_ns = median(wall);
    runner.empty_cpu_ns = median(cpu);
    return true;
  }

  // False: the measurement is over. A failure of baseline or incumbent is ours, not the
  // candidate's.
  bool note(Arm arm, const ShapePlan& plan, const ShapeFailure& failure) {
    if (arm == Arm::candidate) {
      result_.failure = failure;
      result_.failed_shape = plan.shape->name;
    } else {
      result_.ambiguous = fmt::format("the {} failed at shape {}: {}",
                                      arm == Arm::baseline ? "baseline" : "incumbent",
                                      plan.shape->name, failure.why);
    }
    return false;
  }

  Status run_restart(bool last) {
    std::vector<Runner> runners;
    TRY(start_runners(runners));
    for (std::vector<std::vector<std::vector<double>>>& arm : result_.samples)
      arm.emplace_back(result_.shapes.size());
    std::vector<size_t> order(result_.shapes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    shuffle(order);
    for (Runner& runner : runners) {
      if (!measure_empty(runner, *result_.shapes[order.front()])) return {};
    }
    for (const size_t shape : order) {
      if (!TRY(run_shape(runners, shape))) return {};
      if (last && !TRY(run_other_state(runners.front(), shape))) return {};
    }
    return {};
  }

  template <class T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[session_.random.below(i)]);
  }

  Result<bool> run_shape(std::vector<Runner>& runners, size_t shape) {
    const ShapePlan& plan = *result_.shapes[shape];
    std::vector<size_t> order(runners.size());
    std::iota(order.begin(), order.end(), size_t{0});
    int64_t good = -1;  // the first round warms up: checked, not counted
    double half_ns = 0;
    for (int64_t round = 0; good < plan.rounds && round < extra_rounds * plan.rounds + 1; ++round) {
      const Window window = TRY(make_window(session_, plan, plan.sets, false));
      shuffle(order);
      const bool half = round == 0 && plan.sets >= 2;
      bool disturbed = false;
      for (const size_t i : order) {
        Runner& runner = runners[i];
        const int32_t sets = half ? plan.sets / 2 : plan.sets;
        Net net;
        if (!run_one(runner, plan, window, sets, net)) return false;
        disturbed = disturbed || is_disturbed(net);
        if (round == 0) {
          if (runner.arm == Arm::candidate) half_ns = net.wall_ns / sets * plan.sets;
          continue;
        }
        count(runner.arm, shape, plan, net);
        if (runner.arm == Arm::candidate && round == 1)
          result_.slope.push_back(half_ns / net.wall_ns);
      }
      if (!disturbed || round == 0) ++good;
    }
    return enough_samples(runners, shape, plan);
  }

  bool run_one(Runner& runner, const ShapePlan& plan, const Window& window, int32_t sets,
               Net& net) {
    WindowTimes times;
    if (cold_decides()) sweep_caches();
    std::optional<ShapeFailure> failure =
        run_window(session_, plan, window, sets, runner.worker, &times);
    // The baseline is what it is: its outputs are compared once, in the check.
    if (!failure && runner.arm != Arm::baseline)
      failure = check_window(session_, plan, window, sets, runner.worker);
    if (failure) return note(runner.arm, plan, *failure);
    net = net_of(times, runner);
    return true;
  }

  static bool is_disturbed(const Net& net) {
    return net.wall_ns - net.cpu_ns > disturbed_share * net.wall_ns + disturbed_ns;
  }

  void count(Arm arm, size_t shape, const ShapePlan& plan, const Net& net) {
    ++result_.windows;
    if (arm == Arm::candidate &&
        net.cpu_ns - net.wall_ns > threaded_share * net.wall_ns + threaded_ns)
      ++result_.threaded;
    if (is_disturbed(net)) {
      ++result_.discarded;
      return;
    }
    result_.disagreement.push_back(std::abs(net.wall_ns - net.cpu_ns) / net.wall_ns);
    result_.samples[static_cast<size_t>(arm)].back()[shape].push_back(net.wall_ns / plan.sets);
  }

  bool enough_samples(const std::vector<Runner>& runners, size_t shape, const ShapePlan& plan) {
    for (const Runner& runner : runners) {
      if (result_.samples[static_cast<size_t>(runner.arm)].back()[shape].size() >= 2) continue;
      result_.ambiguous = fmt::format(
          "other work disturbed {} of {} windows (shape {}): measure on a quieter machine, or free "
          "core {}",
          result_.discarded, result_.windows, plan.shape->name, session_.core);
      return false;
    }
    return true;
  }

  bool cold_decides() const { return session_.task.measure.cache == CacheState::cold; }

  // The cache state that does not decide is reported too: one call a window, after a sweep or not.
  Result<bool> run_other_state(Runner& runner, size_t shape) {
    const ShapePlan& plan = *result_.shapes[shape];
    for (int i = 0; i < 2; ++i) {
      const Window window = TRY(make_window(session_, plan, 1, false));
      if (!cold_decides()) sweep_caches();
      WindowTimes times;
      if (const std::optional<ShapeFailure> failure =
              run_window(session_, plan, window, 1, runner.worker, &times)) {
        return note(runner.arm, plan, *failure);
      }
      result_.other_ns[shape].push_back(net_of(times, runner).wall_ns);
    }
    return true;
  }

  // From the worker's own core, so that its private caches are swept as well as the shared one.
  void sweep_caches() {
    if (sweep_.empty()) sweep_.resize(static_cast<size_t>(2 * last_level_cache_bytes()));
    stand_on(session_.core);
    for (size_t i = 0; i < sweep_.size(); i += 64) sweep_[i] = static_cast<char>(sweep_[i] + 1);
    stand_aside_of(session_.core);
  }

  Session& session_;
  const std::vector<std::filesystem::path>& libraries_;
  Measurement result_;
  std::vector<char> sweep_;
};

}  // namespace

std::vector<double> Measurement::all_samples(Arm arm, size_t shape) const {
  std::vector<double> all;
  for (const std::vector<std::vector<double>>& restart : samples[static_cast<size_t>(arm)]) {
    all.insert(all.end(), restart[shape].begin(), restart[shape].end());
  }
  return all;
}

Interval Measurement::ratio(Arm numerator, Arm denominator, Random& random, int shape) const {
  std::vector<std::vector<PairedSamples>> pairs;
  std::vector<double> weights;
  for (size_t s = 0; s < shapes.size(); ++s) {
    if (shape < 0 || s == static_cast<size_t>(shape)) weights.push_back(shapes[s]->shape->weight);
  }
  for (size_t restart = 0; restart < static_cast<size_t>(restarts); ++restart) {
    pairs.emplace_back();
    for (size_t s = 0; s < shapes.size(); ++s) {
      if (shape >= 0 && s != static_cast<size_t>(shape)) continue;
      pairs.back().push_back(
          {without_outliers(samples[static_cast<size_t>(numerator)][restart][s]),
           without_outliers(samples[static_cast<size_t>(denominator)][restart][s])});
    }
  }
  return bootstrap_ratio(pairs, weights, random);
}

Result<Measurement> measure(Session& session, const std::vector<std::filesystem::path>& libraries,
                            int64_t restarts, const EnoughKnown& enough) {
  stand_aside_of(session.core);
  return Measurer(session, libraries).run(restarts, enough);
}

Result<Fd> lock_core(int core, double limit_s) {
  const std::string path = fmt::format("/tmp/marathon-core-{}.lock", core);
  // Without O_CREAT first: in a sticky folder a file of another user may be opened but not
  // "created".
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) fd = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!fd) return fail_errno("the lock of core " + std::to_string(core) + " (" + path + ")", errno);
  (void)::fchmod(fd.get(), 0666);
  const int64_t deadline_us = monotonic_us() + static_cast<int64_t>(limit_s * 1e6);
  bool told = false;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (monotonic_us() > deadline_us) {
      return fail(Fault::busy, fmt::format("core {} has been measuring something else for {:.0f} "
                                           "s; wait for the other run or stop it",
                                           core, limit_s));
    }
    if (!told)
      print_stage("measure",
                  fmt::format("waiting for core {}: another measurement runs on it", core), 0);
    told = true;
    ::usleep(20'000);
  }
  return fd;
}

}  // namespace marathon
