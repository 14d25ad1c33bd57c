#include "bench/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/decide.h"
#include "bench/evaluate.h"
#include "core/statistics.h"

namespace marathon {

namespace {

double half_width(const Interval& ratio) {
  return std::max({std::abs(ratio.low - 1), std::abs(ratio.high - 1), least_noise});
}

Status must_work(Bench& bench) {
  const Bench::Prepared prepared = TRY(bench.prepare());
  if (prepared.failure)
    return fail(Fault::invalid, "the task's baseline fails: " + prepared.failure->why);
  if (!prepared.ambiguous.empty()) return fail(Fault::retry, prepared.ambiguous);
  const CheckResult checked = TRY(bench.check());
  if (!checked.failure) return {};
  return fail(Fault::invalid, fmt::format("the task's baseline is wrong at {}: {}",
                                          checked.failed_shape, checked.failure->why));
}

Result<Measurement> measured(Result<Measurement> measurement) {
  const Measurement m = TRY(std::move(measurement));
  const Judgement judgement = judge_failures(m);
  if (judgement.kind) return fail(Fault::retry, judgement.reason);
  return m;
}

void add_shapes(const Measurement& m, Random& random, std::vector<PairShape>& shapes) {
  shapes.resize(m.shapes.size());
  for (size_t s = 0; s < m.shapes.size(); ++s) {
    shapes[s].name = m.shapes[s]->shape->name;
    shapes[s].us.push_back(1e-3 * median(m.all_samples(Arm::candidate, s)));
    shapes[s].half_width.push_back(
        half_width(m.ratio(Arm::baseline, Arm::candidate, random, static_cast<int>(s))));
  }
}

}  // namespace

int64_t PairFigures::called_different() const {
  return std::count_if(pairs.begin(), pairs.end(),
                       [](const Pair& pair) { return pair.kind != VerdictKind::same; });
}

Result<PairFigures> measure_pairs(const BenchRequest& asked, const Task& task) {
  BenchRequest request = asked;
  request.candidate = request.baseline;
  request.candidate_cubins = request.baseline_cubins;
  request.incumbent.clear();
  const std::unique_ptr<Bench> bench = TRY(make_bench(request, task));
  TRY(must_work(*bench));
  MeasureOptions options;
  options.restarts =
      request.quick ? std::min<int64_t>(2, task.measure.restarts) : task.measure.restarts;
  options.extras = false;
  PairFigures figures;
  figures.noise = request.noise;
  if (figures.noise <= 0) {
    const Measurement m = TRY(measured(bench->measure_noise(options)));
    figures.noise = half_width(m.ratio(Arm::incumbent, Arm::candidate, bench->random()));
  }
  for (int64_t pair = 0; pair < request.pairs; ++pair) {
    const int64_t start_ns = monotonic_ns();
    const Measurement m = TRY(measured(bench->measure(options)));
    const Interval gain = m.ratio(Arm::baseline, Arm::candidate, bench->random());
    const double seconds = 1e-9 * static_cast<double>(monotonic_ns() - start_ns);
    figures.pairs.push_back({kind_of_gain(gain, figures.noise), gain, seconds});
    print_stage("pair",
                fmt::format("{}/{} {} {:.4f} ({:.4f}-{:.4f})", pair + 1, request.pairs,
                            to_string(figures.pairs.back().kind), gain.value, gain.low, gain.high),
                seconds);
    add_shapes(m, bench->random(), figures.shapes);
  }
  return figures;
}

Json to_json(const PairFigures& figures) {
  Json pairs = Json::array(), shapes = Json::array();
  for (const Pair& pair : figures.pairs) {
    pairs.push_back({{"verdict", to_string(pair.kind)},
                     {"gain", pair.gain.value},
                     {"low", pair.gain.low},
                     {"high", pair.gain.high},
                     {"seconds", pair.seconds}});
  }
  for (const PairShape& shape : figures.shapes) {
    shapes.push_back(
        {{"name", shape.name},
         {"median_us", median(shape.us)},
         {"noise", median(shape.half_width)},
         {"worst_noise", *std::max_element(shape.half_width.begin(), shape.half_width.end())}});
  }
  return {{"noise", figures.noise},
          {"called_different", figures.called_different()},
          {"shapes", shapes},
          {"pairs", pairs}};
}

}  // namespace marathon
