// What the wire formats (wire_*.cc) share. Inside of agent/ only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/chat.h"
#include "base/json.h"

namespace marathon {

struct WireText {
  std::string text;
  bool cache = false;
};

// Messages as both APIs demand them: the two sides alternate, and what follows an answer with calls
// begins with one result for each of them, in their order.
struct WireTurn {
  bool assistant = false;
  std::vector<const ChatBlock*> blocks;  // assistant; what is_sent let through
  std::vector<ChatResult> results;       // user side
  std::vector<WireText> texts;           // user side
  bool cache = false;                    // behind the blocks or behind the results
};
using IsSent = bool (*)(const ChatBlock& block);
std::vector<WireTurn> alternate(const std::vector<ChatMessage>& messages, IsSent is_sent);

bool is_blank(std::string_view text);
// An object, or {} where the text is none.
Json object_or_empty(std::string_view text);
// As both APIs accept the name of a function: a name that a model invented must not make every
// later request invalid.
std::string wire_name(std::string_view name);
// As Anthropic accepts the id of a call. Those of other servers ("functions.evaluate:0") may not
// fit.
std::string wire_id(std::string_view id);
// A key from a file ends with a newline; in a header it would begin another one.
std::string key_in_header(std::string key);
// `extra` of a request, without what it takes out of the defaults by naming it null.
void drop_nulls(Json& object);
// A call without parameters; but not one that the limit cut behind its name.
void complete_bare_calls(ChatReply& reply);
// A count of tokens as a server says it: a missing, negative or absurd one becomes harmless.
int64_t token_count(const Json& usage, std::string_view key, int64_t fallback = 0);

std::string encode_openai(const ChatRequest& request);
std::string encode_anthropic(const ChatRequest& request);

class WireDecoder : public ReplyDecoder {
 public:
  bool done() const override { return done_; }
  const std::optional<ModelFailure>& failure() const override { return failure_; }

 protected:
  explicit WireDecoder(OnDelta on_delta) : on_delta_(std::move(on_delta)) {}
  void say(ChatBlock::Kind kind, std::string_view text) const {
    if (on_delta_ && !text.empty()) on_delta_(kind, text);
  }
  Status report(ModelFailure failure, const Usage& usage);  // keeps it; Error retry

  bool done_ = false;
  std::optional<ModelFailure> failure_;

 private:
  OnDelta on_delta_;
};
std::unique_ptr<ReplyDecoder> make_openai_decoder(OnDelta on_delta);
std::unique_ptr<ReplyDecoder> make_anthropic_decoder(OnDelta on_delta);

}  // namespace marathon
