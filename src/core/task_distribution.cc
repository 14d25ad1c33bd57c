// How an input's values are drawn, as task.toml says it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/task_draft.h"

namespace marathon {

namespace {

constexpr double largest_whole = 9007199254740992;  // 2^53: beyond it a double skips whole numbers
constexpr double any = 1e300;
constexpr size_t most_lengths = 4096;
constexpr int64_t largest_length = (1LL << 31) - 1;

constexpr Choice<Distribution::Kind> distribution_kinds[] = {
    {"normal", Distribution::Kind::normal},
    {"uniform", Distribution::Kind::uniform},
    {"log_uniform", Distribution::Kind::log_uniform},
    {"neg_log_uniform", Distribution::Kind::neg_log_uniform},
    {"constant", Distribution::Kind::constant},
    {"integers", Distribution::Kind::integers},
    {"sign", Distribution::Kind::sign},
    {"half_half", Distribution::Kind::half_half},
    {"repeat_row", Distribution::Kind::repeat_row},
    {"logit_log_uniform", Distribution::Kind::logit_log_uniform},
    {"offsets", Distribution::Kind::offsets}};

// Largest magnitude that the type holds, and for whole numbers that it holds exactly.
double largest_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
    case DType::bf16:
      return 3.38e38;
    case DType::fp64:
      return any;
    case DType::fp16:
      return 65504;
    case DType::int32:
      return 2147483647;
    case DType::int64:
      return largest_whole;
  }
  return 0;
}

void check_lengths(Section& section, Distribution& distribution) {
  const std::vector<int64_t>& lengths = distribution.lengths;
  if (lengths.empty()) section.error("lengths", "'lengths' is empty; one sequence is [1024]");
  for (size_t i = 0; i < lengths.size(); ++i) {
    const std::string trouble = lengths[i] < 0                ? "is negative"
                                : lengths[i] > largest_length ? "is above 2^31 - 1"
                                                              : "";
    if (trouble.empty()) continue;
    section.error("lengths", fmt::format("the length {} {}", lengths[i], trouble));
    return;
  }
  distribution.b = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}));
}

// The numbers of each kind, by the names that a person would look for.
void read_numbers(Section& section, Distribution& distribution) {
  const Range finite = {-any, any}, not_negative = {0, any};
  double& a = distribution.a;
  double& b = distribution.b;
  const auto needed = [&](std::string_view key, double& out, Range range) {
    section.require(key, "give it a number");
    section.read(key, out, range);
  };
  switch (distribution.kind) {
    case Distribution::Kind::normal:
    case Distribution::Kind::repeat_row:
      a = 0, b = 1;
      section.read("mean", a, finite);
      section.read("std", b, not_negative);
      break;
    case Distribution::Kind::uniform:
    case Distribution::Kind::integers:
      needed("low", a, finite);
      needed("high", b, finite);
      break;
    case Distribution::Kind::log_uniform:
    case Distribution::Kind::neg_log_uniform:
    case Distribution::Kind::logit_log_uniform:
      needed("low", a, {0, any, true});
      needed("high", b, {0, any, true});
      break;
    case Distribution::Kind::offsets:
      a = 0;
      section.require("lengths", "give the lengths whose sums the offsets are, as [1300, 547]");
      if (section.read("lengths", distribution.lengths, most_lengths))
        check_lengths(section, distribution);
      break;
    case Distribution::Kind::constant:
      needed("value", a, finite);
      b = 0;
      break;
    case Distribution::Kind::sign:
    case Distribution::Kind::half_half:
      a = -1, b = 1;
      section.read("a", a, finite);
      section.read("b", b, finite);
      break;
  }
}

std::string needs_whole_numbers(DType dtype) {
  return fmt::format(
      "{} needs whole numbers: use kind \"integers\" or \"offsets\", or \"constant\", \"sign\" or "
      "\"half_half\" with whole numbers",
      to_string(dtype));
}

// Why these numbers make no sense for a tensor of this type, or nothing.
std::string trouble_of(const Distribution& distribution, DType dtype) {
  using Kind = Distribution::Kind;
  const double a = distribution.a, b = distribution.b;
  const bool is_logit = distribution.kind == Kind::logit_log_uniform;
  const bool has_range = distribution.kind == Kind::uniform ||
                         distribution.kind == Kind::integers ||
                         distribution.kind == Kind::log_uniform ||
                         distribution.kind == Kind::neg_log_uniform || is_logit;
  const bool is_normal = distribution.kind == Kind::normal || distribution.kind == Kind::repeat_row;
  if (has_range && a > b) return fmt::format("low {:g} is above high {:g}; swap them", a, b);
  if (has_range && a == b && distribution.kind != Kind::integers) {
    return fmt::format("low and high are both {:g}; use {{ kind = \"constant\", value = {:g} }}", a,
                       a);
  }
  if (is_logit && b >= 1)
    return fmt::format("high {:g} must be below 1: it bounds p, and log(p / (1 - p)) ends there",
                       b);
  if (distribution.kind == Kind::offsets && is_floating(dtype))
    return fmt::format("offsets are whole numbers; {} would round them", to_string(dtype));
  if (is_logit) return is_floating(dtype) ? "" : needs_whole_numbers(dtype);
  const double reach = is_normal ? std::abs(a) + 10 * b : std::max(std::abs(a), std::abs(b));
  if (reach > largest_of(dtype)) {
    return fmt::format("values up to {:g} do not fit into {}", reach, to_string(dtype));
  }
  const bool whole = std::trunc(a) == a && std::trunc(b) == b;
  if (distribution.kind == Kind::integers && !whole) {
    return "low and high must be whole numbers";
  }
  const bool draws_fractions = is_normal || (has_range && distribution.kind != Kind::integers);
  if (!is_floating(dtype) && (draws_fractions || !whole)) {
    return needs_whole_numbers(dtype);
  }
  return {};
}

}  // namespace

void read_distribution(const TomlValue& value, const std::string& tensor, DType dtype,
                       Distribution& out, Draft& draft) {
  if (value.type != TomlValue::Type::table) {
    draft.problems.error(value.at, fmt::format("the distribution of {} must be a table, as "
                                               "{{ kind = \"normal\", mean = 0, std = 1 }}",
                                               in_quotes(tensor)));
    return;
  }
  const int64_t errors = draft.problems.errors();
  Section section(value, value.at, "the distribution of " + in_quotes(tensor), draft.problems);
  section.require("kind", "write kind = \"normal\"");
  if (!read_choice(section, "kind", distribution_kinds, out.kind, draft.problems)) return;
  read_numbers(section, out);
  section.finish();
  if (draft.problems.errors() > errors) return;
  const std::string trouble = trouble_of(out, dtype);
  if (!trouble.empty()) {
    draft.problems.error(value.at, fmt::format("in {}: {}", section.name(), trouble));
  }
}

}  // namespace marathon
