// Messages in the order that both APIs demand, and other parts that their formats share.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/wire.h"

namespace marathon {

namespace {

constexpr size_t max_name_bytes = 64;
constexpr int64_t max_tokens = 1'000'000'000'000;

std::vector<std::string> calls_of(const WireTurn& turn) {
  std::vector<std::string> calls;
  for (const ChatBlock* block : turn.blocks) {
    if (block->kind == ChatBlock::Kind::call) calls.push_back(block->call.id);
  }
  return calls;
}

void add_answer(std::vector<WireTurn>& turns, const ChatMessage& message, IsSent is_sent) {
  std::vector<const ChatBlock*> blocks;
  for (const ChatBlock& block : message.blocks) {
    if (is_sent(block)) blocks.push_back(&block);
  }
  if (blocks.empty()) return;
  const bool follows_answer = !turns.empty() && turns.back().assistant;
  if (follows_answer && calls_of(turns.back()).empty()) {
    WireTurn& back = turns.back();
    back.blocks.insert(back.blocks.end(), blocks.begin(), blocks.end());
    back.cache = back.cache || message.cache_until_here;
    return;
  }
  if (follows_answer) turns.emplace_back();  // for the results that are missing
  turns.push_back({true, std::move(blocks), {}, {}, message.cache_until_here});
}

void add_user_side(std::vector<WireTurn>& turns, const ChatMessage& message) {
  if (message.results.empty() && is_blank(message.text)) return;
  if (turns.empty() || turns.back().assistant) turns.emplace_back();
  WireTurn& turn = turns.back();
  turn.results.insert(turn.results.end(), message.results.begin(), message.results.end());
  if (!is_blank(message.text)) {
    turn.texts.push_back({message.text, message.cache_until_here});
  } else {
    turn.cache = turn.cache || message.cache_until_here;
  }
}

// Each call takes the first result that names it; what is left over becomes text.
void answer_calls(WireTurn& turn, const std::vector<std::string>& calls) {
  std::vector<ChatResult> left = std::move(turn.results);
  turn.results.clear();
  for (const std::string& call : calls) {
    const auto at = std::ranges::find(left, call, &ChatResult::call);
    if (at == left.end()) {
      turn.results.push_back({call, "no result is on record", false});
    } else {
      turn.results.push_back(std::move(*at));
      left.erase(at);
    }
  }
  std::vector<WireText> texts;
  for (const ChatResult& result : left) {
    texts.push_back({fmt::format("Result of call {}, which is not in this conversation:\n{}",
                                 result.call, result.text)});
  }
  turn.texts.insert(turn.texts.begin(), texts.begin(), texts.end());
}

}  // namespace

std::vector<WireTurn> alternate(const std::vector<ChatMessage>& messages, IsSent is_sent) {
  std::vector<WireTurn> turns;
  for (const ChatMessage& message : messages) {
    if (message.assistant)
      add_answer(turns, message, is_sent);
    else
      add_user_side(turns, message);
  }
  if (!turns.empty() && !calls_of(turns.back()).empty()) turns.emplace_back();
  std::vector<std::string> calls;
  for (WireTurn& turn : turns) {
    if (!turn.assistant) answer_calls(turn, calls);
    calls = calls_of(turn);
  }
  return turns;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

Json object_or_empty(std::string_view text) {
  Result<Json> json = parse_json(text);
  return json && json->is_object() ? *std::move(json) : Json::object();
}

std::string wire_name(std::string_view name) { return wire_id(name.substr(0, max_name_bytes)); }

std::string wire_id(std::string_view id) {
  std::string wire(id);
  for (char& c : wire) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-';
    if (!fits) c = '_';
  }
  return wire.empty() ? "unnamed" : wire;
}

void drop_nulls(Json& object) {
  for (Json::iterator at = object.begin(); at != object.end();)
    at = at->is_null() ? object.erase(at) : std::next(at);
}

void complete_bare_calls(ChatReply& reply) {
  if (reply.stop != ChatStop::calls) return;
  for (ChatBlock& block : reply.blocks) {
    const bool is_bare = block.kind == ChatBlock::Kind::call && is_blank(block.call.arguments);
    if (is_bare) block.call.arguments = "{}";
  }
}

int64_t token_count(const Json& usage, std::string_view key, int64_t fallback) {
  return std::clamp<int64_t>(json_int(usage, key, fallback), 0, max_tokens);
}

Status WireDecoder::report(ModelFailure failure, const Usage& usage) {
  failure_ = std::move(failure);
  failure_->usage = usage;
  return fail(Fault::retry, failure_->what);
}

}  // namespace marathon
