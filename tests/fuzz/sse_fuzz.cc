// Any bytes as a stream of events: cut into pieces in another way, the events, the errors and what
// was left over are the same; every event is UTF-8 and within the limit.
//
//   sse_fuzz -max_len=4096 -timeout=10 build/corpus tests/fuzz/corpus/sse
//
// The first byte seeds the cuts, the second sets the limit.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/sse.h"
#include "base/utf8.h"

namespace {

using namespace marathon;

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "sse_fuzz: %s\n", what);
  std::abort();
}

struct Parsed {
  std::vector<std::string> events;
  std::string error;
  bool incomplete = false;
  bool operator==(const Parsed&) const = default;
};

// `next_size`: of the next piece.
template <class NextSize>
Parsed parse(std::string_view stream, size_t limit, NextSize next_size) {
  Parsed parsed;
  SseParser parser(
      [&](const SseEvent& event) -> Status {
        demand(is_utf8(event.type) && is_utf8(event.data), "an event that is no UTF-8");
        // A wrong byte becomes three.
        demand(event.type.size() + event.data.size() <= 3 * limit, "an event above the limit");
        parsed.events.push_back(event.type + '\0' + event.data);
        if (event.data == "stop") return fail(Fault::retry, "told to stop");
        return {};
      },
      limit);
  while (!stream.empty() && parsed.error.empty()) {
    const std::string_view piece = stream.substr(0, next_size());
    if (const Status status = parser.feed(piece); !status) parsed.error = status.error().what;
    stream.remove_prefix(piece.size());
  }
  // What is left of a refused stream depends on the cuts, and nobody may ask for it.
  if (parsed.error.empty()) parsed.incomplete = parser.finish();
  return parsed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t limit = data[1] < 128 ? 16u + data[1] : 1u << 20;
  const Parsed whole = parse(stream, limit, [] { return std::string_view::npos; });
  demand(parse(stream, limit, [] { return 1u; }) == whole, "byte by byte it is another stream");
  uint32_t state = data[0] + 1u;
  const auto random_size = [&] {
    state = state * 1664525u + 1013904223u;
    return 1 + (state >> 24) % 7;
  };
  demand(parse(stream, limit, random_size) == whole, "cut elsewhere it is another stream");
  return 0;
}
