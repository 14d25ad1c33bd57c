#include "run/repeats.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace marathon {

namespace {

constexpr size_t looked_at = 20;
constexpr int64_t tolerated = 2;
constexpr std::string_view mark = "\n\n(repeated) ";

}  // namespace

int64_t Repeats::count(const ToolCall& call, std::string_view result) {
  Sha256 hash;
  hash.update_field(call.name);
  hash.update_field(call.arguments);
  hash.update_field(result);
  last_.push_back(hash.finish_hex());
  if (last_.size() > looked_at) last_.pop_front();
  return std::ranges::count(last_, last_.back());
}

std::string Repeats::answer(const ToolCall& call, std::string result) {
  const int64_t times = count(call, result);
  if (times <= tolerated) return result;
  return result + fmt::format(
                      "{}This call gave this answer {} times of late, and will give it "
                      "again. Do something else: history shows what has been tried.",
                      mark, times);
}

void Repeats::recall(const ToolCall& call, std::string_view result) {
  count(call, result.substr(0, result.find(mark)));
}

}  // namespace marathon
