#include "core/verdict.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace marathon {

namespace {

struct KindName {
  VerdictKind kind;
  std::string_view name;
};

constexpr std::array<KindName, 10> kind_names = {{
    {VerdictKind::build_failed, "build_failed"},
    {VerdictKind::rule_broken, "rule_broken"},
    {VerdictKind::crashed, "crashed"},
    {VerdictKind::timed_out, "timed_out"},
    {VerdictKind::wrong, "wrong"},
    {VerdictKind::slower, "slower"},
    {VerdictKind::same, "same"},
    {VerdictKind::faster, "faster"},
    {VerdictKind::ambiguous, "ambiguous"},
    {VerdictKind::suspicious, "suspicious"},
}};

Json interval_json(const Interval& interval) {
  return {{"value", interval.value}, {"low", interval.low}, {"high", interval.high}};
}

Interval interval_from(const Json& json) {
  return {json_double(json, "value"), json_double(json, "low"), json_double(json, "high")};
}

// A tenth of a nanosecond is below the clock's own step.
Json samples_json(const std::vector<double>& samples) {
  Json list = Json::array();
  for (const double sample : samples) list.push_back(std::round(sample * 10) / 10);
  return list;
}

std::vector<double> samples_from(const Json& json) {
  std::vector<double> samples;
  if (!json.is_array()) return samples;
  for (const Json& sample : json) samples.push_back(sample.is_number() ? sample.get<double>() : 0);
  return samples;
}

std::vector<std::string> strings_from(const Json& json) {
  std::vector<std::string> strings;
  if (!json.is_array()) return strings;
  for (const Json& text : json) strings.push_back(text.is_string() ? text.get<std::string>() : "");
  return strings;
}

Json output_json(const OutputError& output) {
  return {{"output", output.output},
          {"relative_rms", output.relative_rms},
          {"bound", output.bound},
          {"emulation", output.emulation},
          {"worst_element", output.worst_element},
          {"where", output.where}};
}

OutputError output_from(const Json& json) {
  return {json_string(json, "output"),        json_double(json, "relative_rms"),
          json_double(json, "bound"),         json_double(json, "emulation"),
          json_double(json, "worst_element"), json_string(json, "where")};
}

Json shape_json(const ShapeResult& shape) {
  Json json = {{"name", shape.name},
               {"set", shape.set},
               {"hidden", shape.set == "hidden"},
               {"verdict", to_string(shape.verdict)},
               {"reason", shape.reason},
               {"time_us", shape.time_us},
               {"incumbent_us", shape.incumbent_us},
               {"baseline_us", shape.baseline_us},
               {"cold_us", shape.cold_us},
               {"warm_us", shape.warm_us},
               {"speedup", interval_json(shape.speedup)},
               {"error", shape.error},
               {"baseline_error", shape.baseline_error},
               {"floor_us", shape.floor_us},
               {"bound_by", shape.bound_by},
               {"outputs", Json::array()}};
  for (const OutputError& output : shape.outputs) json["outputs"].push_back(output_json(output));
  json["samples"] = {{"candidate_ns", samples_json(shape.samples.candidate_ns)},
                     {"incumbent_ns", samples_json(shape.samples.incumbent_ns)},
                     {"baseline_ns", samples_json(shape.samples.baseline_ns)}};
  return json;
}

ShapeResult shape_from(const Json& json) {
  ShapeResult shape;
  shape.name = json_string(json, "name");
  shape.set = json_string(json, "set");
  shape.verdict = verdict_kind_from(json_string(json, "verdict")).value_or(VerdictKind::ambiguous);
  shape.reason = json_string(json, "reason");
  shape.time_us = json_double(json, "time_us");
  shape.incumbent_us = json_double(json, "incumbent_us");
  shape.baseline_us = json_double(json, "baseline_us");
  shape.cold_us = json_double(json, "cold_us");
  shape.warm_us = json_double(json, "warm_us");
  shape.speedup = interval_from(json_member(json, "speedup"));
  shape.error = json_double(json, "error");
  shape.baseline_error = json_double(json, "baseline_error");
  shape.floor_us = json_double(json, "floor_us");
  shape.bound_by = json_string(json, "bound_by");
  const Json& outputs = json_member(json, "outputs");
  if (outputs.is_array()) {
    for (const Json& output : outputs) shape.outputs.push_back(output_from(output));
  }
  const Json& samples = json_member(json, "samples");
  shape.samples = {samples_from(json_member(samples, "candidate_ns")),
                   samples_from(json_member(samples, "incumbent_ns")),
                   samples_from(json_member(samples, "baseline_ns"))};
  return shape;
}

// One list of the fields for both directions, so that none is written and not read.
template <class Visit>
void each_field(auto& provenance, const Visit& visit) {
  visit("host", provenance.host);
  visit("cpu", provenance.cpu);
  visit("kernel", provenance.kernel);
  visit("compiler", provenance.compiler);
  visit("flags", provenance.flags);
  visit("sandbox", provenance.sandbox);
  visit("effort", provenance.effort);
  visit("elsewhere", provenance.elsewhere);
  visit("judge_version", provenance.judge_version);
  visit("task_hash", provenance.task_hash);
  visit("candidate_hash", provenance.candidate_hash);
  visit("incumbent_hash", provenance.incumbent_hash);
  visit("baseline_hash", provenance.baseline_hash);
  visit("binary_hash", provenance.binary_hash);
  visit("seed", provenance.seed);
  visit("core", provenance.core);
  visit("restarts", provenance.restarts);
  visit("windows", provenance.windows);
  visit("windows_discarded", provenance.windows_discarded);
  visit("clock_disagreement", provenance.clock_disagreement);
  visit("noise", provenance.noise);
  visit("peak_gflops", provenance.peak_gflops);
  visit("peak_gbytes_s", provenance.peak_gbytes_s);
  visit("load_average", provenance.load_average);
  visit("started_at_us", provenance.started_at_us);
  visit("seconds", provenance.seconds);
  visit("build_s", provenance.build_s);
  visit("check_s", provenance.check_s);
  visit("measure_s", provenance.measure_s);
  visit("sanitize_s", provenance.sanitize_s);
  visit("profile_s", provenance.profile_s);
}

template <class Visit>
void each_gpu_field(auto& gpu, const Visit& visit) {
  visit("name", gpu.name);
  visit("uuid", gpu.uuid);
  visit("driver", gpu.driver);
  visit("readings", gpu.readings);
  visit("sm_clock_min_mhz", gpu.sm_clock_min_mhz);
  visit("sm_clock_mhz", gpu.sm_clock_mhz);
  visit("sm_clock_max_mhz", gpu.sm_clock_max_mhz);
  visit("memory_clock_mhz", gpu.memory_clock_mhz);
  visit("power_w", gpu.power_w);
  visit("power_max_w", gpu.power_max_w);
  visit("temperature_max_c", gpu.temperature_max_c);
  visit("throttled", gpu.throttled);
  visit("ecc_errors", gpu.ecc_errors);
  visit("other_processes", gpu.other_processes);
  visit("missing", gpu.missing);
}

void read_field(const Json& json, const char* key, std::string& field) {
  field = json_string(json, key);
}
void read_field(const Json& json, const char* key, int64_t& field) { field = json_int(json, key); }
void read_field(const Json& json, const char* key, double& field) {
  field = json_double(json, key);
}
void read_field(const Json& json, const char* key, uint64_t& field) {
  const Json& value = json_member(json, key);
  field = value.is_number_integer() ? value.get<uint64_t>() : 0;
}

Json provenance_json(const Provenance& provenance) {
  Json json = Json::object();
  each_field(provenance, [&](const char* key, const auto& field) { json[key] = field; });
  if (!provenance.gpu) return json;
  Json gpu = Json::object();
  each_gpu_field(*provenance.gpu, [&](const char* key, const auto& field) { gpu[key] = field; });
  json["gpu"] = std::move(gpu);
  return json;
}

std::optional<GpuEvidence> gpu_from(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  GpuEvidence gpu;
  each_gpu_field(gpu, [&](const char* key, auto& field) { read_field(json, key, field); });
  return gpu;
}

ProfileSummary profile_from(const Json& json) {
  ProfileSummary profile;
  profile.source = json_string(json, "source");
  const Json& figures = json_member(json, "figures");
  if (figures.is_object()) {
    for (const auto& [name, value] : figures.items()) {
      if (value.is_number()) profile.figures[name] = value.get<double>();
    }
  }
  profile.sentences = strings_from(json_member(json, "sentences"));
  return profile;
}

}  // namespace

std::string_view to_string(VerdictKind kind) {
  for (const KindName& entry : kind_names) {
    if (entry.kind == kind) return entry.name;
  }
  return "ambiguous";
}

std::optional<VerdictKind> verdict_kind_from(std::string_view name) {
  for (const KindName& entry : kind_names) {
    if (entry.name == name) return entry.kind;
  }
  return std::nullopt;
}

bool is_measured(VerdictKind kind) {
  return kind == VerdictKind::slower || kind == VerdictKind::same || kind == VerdictKind::faster;
}

Json to_json(const ProfileSummary& profile) {
  return {
      {"source", profile.source}, {"figures", profile.figures}, {"sentences", profile.sentences}};
}

bool promotes(const Verdict& verdict, bool has_incumbent) {
  if (!has_incumbent) return is_measured(verdict.kind);
  return verdict.kind == VerdictKind::faster && verdict.confirmed;
}

Json to_json(const Verdict& verdict) {
  Json json = {{"verdict", to_string(verdict.kind)},
               {"speedup", verdict.speedup.value},
               {"low", verdict.speedup.low},
               {"high", verdict.speedup.high},
               {"gain", interval_json(verdict.gain)},
               {"reasons", verdict.reasons},
               {"shapes", Json::array()},
               {"build_output", verdict.build_output},
               {"build_output_artifact", verdict.build_output_artifact},
               {"profile_artifact", verdict.profile_artifact},
               {"sanitize_artifact", verdict.sanitize_artifact},
               {"whole_artifact", verdict.whole_artifact},
               {"metric", verdict.metric},
               {"baseline_metric", verdict.baseline_metric},
               {"metric_unit", verdict.metric_unit},
               {"decided_early", verdict.decided_early},
               {"confirmed", verdict.confirmed},
               {"provenance", provenance_json(verdict.provenance)}};
  for (const ShapeResult& shape : verdict.shapes) json["shapes"].push_back(shape_json(shape));
  if (verdict.profile) json["profile"] = to_json(*verdict.profile);
  return json;
}

Result<Verdict> verdict_from_json(const Json& json) {
  const std::optional<VerdictKind> kind = verdict_kind_from(json_string(json, "verdict"));
  if (!kind)
    return fail(Fault::corrupt,
                "a verdict without a known kind: '" + json_string(json, "verdict") + "'");
  Verdict verdict;
  verdict.kind = *kind;
  verdict.speedup = {json_double(json, "speedup"), json_double(json, "low"),
                     json_double(json, "high")};
  verdict.gain = interval_from(json_member(json, "gain"));
  verdict.reasons = strings_from(json_member(json, "reasons"));
  const Json& shapes = json_member(json, "shapes");
  if (shapes.is_array()) {
    for (const Json& shape : shapes) verdict.shapes.push_back(shape_from(shape));
  }
  verdict.build_output = json_string(json, "build_output");
  verdict.build_output_artifact = json_string(json, "build_output_artifact");
  if (json_member(json, "profile").is_object())
    verdict.profile = profile_from(json_member(json, "profile"));
  verdict.profile_artifact = json_string(json, "profile_artifact");
  verdict.sanitize_artifact = json_string(json, "sanitize_artifact");
  verdict.whole_artifact = json_string(json, "whole_artifact");
  verdict.metric = json_double(json, "metric");
  verdict.baseline_metric = json_double(json, "baseline_metric");
  verdict.metric_unit = json_string(json, "metric_unit");
  verdict.decided_early = json_bool(json, "decided_early");
  verdict.confirmed = json_bool(json, "confirmed");
  const Json& provenance = json_member(json, "provenance");
  each_field(verdict.provenance,
             [&](const char* key, auto& field) { read_field(provenance, key, field); });
  verdict.provenance.gpu = gpu_from(json_member(provenance, "gpu"));
  return verdict;
}

Json to_public_json(const Verdict& verdict) {
  Verdict shown = verdict;
  int64_t number = 0;
  for (ShapeResult& shape : shown.shapes) {
    if (shape.set != "hidden") continue;
    ShapeResult masked;
    masked.name = fmt::format("hidden-{}", ++number);
    masked.set = "hidden";
    masked.verdict = shape.verdict;
    // Which way it failed helps an honest author; where and by how much would tell the inputs.
    masked.reason =
        shape.reason.empty() ? "" : fmt::format("{} on a hidden shape", to_string(shape.verdict));
    shape = masked;
  }
  shown.provenance.seed = 0;
  Json json = to_json(shown);
  for (Json& shape : json["shapes"]) shape.erase("samples");
  return json;
}

}  // namespace marathon
