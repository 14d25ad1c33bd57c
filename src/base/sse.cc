#include "base/sse.h"

#include <utility>

#include "base/utf8.h"

namespace marathon {

SseParser::SseParser(OnEvent on_event, size_t max_event_bytes)
    : on_event_(std::move(on_event)), max_event_bytes_(max_event_bytes) {}

Status SseParser::feed(std::string_view piece) {
  while (!piece.empty()) {
    if (std::exchange(after_cr_, false) && piece.front() == '\n') {
      piece.remove_prefix(1);
      continue;
    }
    const size_t end = piece.find_first_of("\r\n");
    if (end == std::string_view::npos) {
      TRY(check_size(line_.size() + piece.size()));
      line_ += piece;
      return {};
    }
    after_cr_ = piece[end] == '\r';
    std::string_view line = piece.substr(0, end);
    piece.remove_prefix(end + 1);
    const std::string whole = line_.empty() ? "" : std::exchange(line_, {}).append(line);
    if (!whole.empty()) line = whole;
    TRY(check_size(line.size()));
    TRY(take_line(line));
  }
  return {};
}

Status SseParser::check_size(size_t line_bytes) const {
  if (line_bytes + event_.type.size() + event_.data.size() <= max_event_bytes_) return {};
  return fail(Fault::invalid, "an event of the stream is larger than " +
                                  std::to_string(max_event_bytes_) + " bytes");
}

Status SseParser::take_line(std::string_view line) {
  if (std::exchange(at_start_, false) && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  if (line.empty()) return take_event();
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value;
  if (colon != std::string_view::npos) value = line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "event") event_.type = value;
  if (name == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  }
  return {};
}

Status SseParser::take_event() {
  SseEvent event = std::exchange(event_, {});
  if (!std::exchange(has_data_, false)) return {};
  if (!is_utf8(event.type)) event.type = replace_bad_utf8(event.type);
  if (!is_utf8(event.data)) event.data = replace_bad_utf8(event.data);
  return on_event_(event);
}

bool SseParser::finish() {
  const bool incomplete = has_data_ || line_.starts_with("data");
  line_.clear();
  event_ = {};
  has_data_ = after_cr_ = false;
  at_start_ = true;
  return incomplete;
}

}  // namespace marathon
