// One request to a model: what the wire formats write goes out by HTTP, what comes back goes
// through the parser of events into the decoder.
#include <algorithm>
#include <utility>

#include "agent/wire.h"
#include "base/clock.h"

namespace marathon {

namespace {

constexpr size_t max_whole_bytes = 16u << 20;

// Some servers repeat the key in their errors, and not every key begins with "sk-".
std::string without_key(std::string text, const std::string& as_given) {
  const std::string key = key_in_header(as_given);
  if (key.size() < 8) return text;  // a word that a server of one's own accepts, and no secret
  for (size_t at = 0; (at = text.find(key, at)) != std::string::npos;)
    text.replace(at, key.size(), "(key)");
  return text;
}

// The last event of a stream, behind which a server need not close the connection.
bool is_last(WireApi api, const SseEvent& event) {
  switch (api) {
    case WireApi::openai:
      return event.data == "[DONE]";
    case WireApi::anthropic:
      return event.type == "message_stop";
  }
  return false;
}

bool says_something(const ChatReply& reply) {
  return std::any_of(reply.blocks.begin(), reply.blocks.end(), [](const ChatBlock& block) {
    return block.kind == ChatBlock::Kind::call ||
           (block.kind == ChatBlock::Kind::text && !is_blank(block.text));
  });
}

int64_t generated_bytes(const ChatReply& reply) {
  size_t bytes = 0;
  for (const ChatBlock& block : reply.blocks)
    bytes += block.text.size() + block.call.name.size() + block.call.arguments.size();
  return static_cast<int64_t>(bytes);
}

class Asking {
 public:
  Asking(const Endpoint& endpoint, const OnDelta& on_delta, std::stop_token stop)
      : endpoint_(endpoint),
        stop_(std::move(stop)),
        decoder_(make_reply_decoder(endpoint.api, on_delta)),
        parser_([this](const SseEvent& event) { return take_event(event); }) {}

  ModelAnswer ask(const ChatRequest& request) {
    HttpRequest http;
    http.url = request_url(endpoint_.api, endpoint_.base_url);
    http.headers = request_headers(endpoint_.api, endpoint_.key);
    http.body = encode_request(endpoint_.api, request);
    http.connect_timeout_s = endpoint_.connect_timeout_s;
    http.idle_timeout_s = endpoint_.idle_timeout_s;
    http.total_timeout_s = endpoint_.total_timeout_s;
    http.ca_file = endpoint_.ca_file;
    HttpReply reply = http_request(
        http, [this](std::string_view piece) { return take(piece); }, stop_);
    if (std::optional<ModelFailure> failure = failure_of(reply)) {
      failure->what = without_key(std::move(failure->what), endpoint_.key);
      failure->status = reply.status;
      failure->usage = decoder_->reply().usage;
      failure->received_bytes = generated_bytes(decoder_->reply());
      return {std::nullopt, std::move(failure)};
    }
    return {decoder_->reply(), std::nullopt};
  }

 private:
  // What a 2xx brings: a stream of events, or a whole text where a server does not stream. No line
  // of a stream begins like JSON or HTML.
  bool take(std::string_view piece) {
    if (form_ == Form::unknown) {
      if (is_blank(piece)) return true;
      const char first = piece[piece.find_first_not_of(" \t\r\n")];
      form_ = first == '{' || first == '[' || first == '<' ? Form::whole : Form::events;
    }
    if (form_ == Form::whole) {
      whole_ += piece;
      if (whole_.size() > max_whole_bytes) status_ = fail(Fault::invalid, "it is too large");
    } else {
      status_ = parser_.feed(piece);
    }
    return status_.has_value() && !ended_;
  }

  Status take_event(const SseEvent& event) {
    if (ended_) return {};
    TRY(decoder_->feed(event));
    ended_ = is_last(endpoint_.api, event);
    return {};
  }

  std::optional<ModelFailure> failure_of(HttpReply& reply) {
    const bool accepted = reply.status >= 200 && reply.status < 300;
    if (accepted && form_ == Form::whole && reply.trouble == HttpTrouble::none && status_)
      status_ = decoder_->take_whole(whole_);
    if (decoder_->failure()) return decoder_->failure();
    if (!status_)
      return make(ModelFault::malformed,
                  "The reply is not what the API documents: " + status_.error().what + ".");
    if (reply.trouble == HttpTrouble::stopped && !ended_)
      return make(ModelFault::cancelled, "The request was stopped.");
    // Trouble behind the mark of the end is none: the answer is whole.
    if (!accepted || (reply.trouble != HttpTrouble::none && !decoder_->done())) {
      reply.body = without_key(std::move(reply.body), endpoint_.key);
      return classify_http(endpoint_.api, reply, wall_time_us());
    }
    if (!decoder_->done())
      return make(ModelFault::network, "The stream ended before the answer did.");
    return failure_of(decoder_->reply());
  }

  static std::optional<ModelFailure> failure_of(const ChatReply& reply) {
    switch (reply.stop) {
      case ChatStop::content_filter:
        return make(ModelFault::content_filter, "The server withheld the rest of the answer.");
      case ChatStop::end:
      case ChatStop::calls:
        if (says_something(reply)) return std::nullopt;
        return make(ModelFault::empty, "The answer has neither text nor calls.");
      case ChatStop::length:
      case ChatStop::paused:
        return std::nullopt;
    }
    return std::nullopt;
  }

  static ModelFailure make(ModelFault fault, std::string what) {
    ModelFailure failure;
    failure.fault = fault;
    failure.what = std::move(what);
    return failure;
  }

  enum class Form : uint8_t { unknown, events, whole };

  const Endpoint& endpoint_;
  std::stop_token stop_;
  std::unique_ptr<ReplyDecoder> decoder_;
  SseParser parser_;
  Form form_ = Form::unknown;
  std::string whole_;
  Status status_;
  bool ended_ = false;
};

}  // namespace

ModelAnswer ask_model(const Endpoint& endpoint, const ChatRequest& request, const OnDelta& on_delta,
                      std::stop_token stop) {
  return Asking(endpoint, on_delta, std::move(stop)).ask(request);
}

}  // namespace marathon
