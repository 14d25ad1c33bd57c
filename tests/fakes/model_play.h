// What the fake server writes on one connection. Inside of tests/fakes only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fakes/model_server.h"

namespace marathon::fake {

struct Step {
  std::string bytes;
  int64_t times = 1;
  int pause_ms = 0;  // before each
};

enum class End : uint8_t { close, reset, stall };

struct Play {
  std::vector<Step> steps;
  End end = End::close;
};

struct StreamEvent {
  std::string type, data;  // type: "" in OpenAI's
};

// model_streams.cc
struct StreamChoice {
  std::string stop;  // the API's own word; "": by the answer
  bool usage = true;
};
std::vector<StreamEvent> stream_of(bool anthropic, const ScriptedAnswer& answer,
                                   const StreamChoice& choice = {});
std::string whole_of(bool anthropic, const ScriptedAnswer& answer);  // without "stream"
std::string sse_text(const std::vector<StreamEvent>& events, std::string_view line_end = "\n");

// model_behaviours.cc
Play play_of(std::string_view behaviour, bool anthropic);
Play play_of(const ScriptedAnswer& answer, bool anthropic);

}  // namespace marathon::fake
