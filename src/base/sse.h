// Server-sent events, as WHATWG HTML §9.2.6 parses them: pieces of any size (a character of UTF-8
// may be cut), lines that end with LF, CR or CRLF, comments, a byte order mark, data over several
// lines. What is no UTF-8 becomes U+FFFD. id and retry are ignored: nobody reconnects here.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace marathon {

struct SseEvent {
  std::string type;  // "" where the stream names none (the standard's "message")
  std::string data;
};

class SseParser {
 public:
  using OnEvent = std::function<Status(const SseEvent&)>;

  explicit SseParser(OnEvent on_event, size_t max_event_bytes = 16u << 20);
  // Error invalid when an event or a line is larger than the limit; what on_event returned
  // otherwise. After an error the stream is over: only finish() may follow.
  Status feed(std::string_view piece);
  // The stream has ended: an event without its empty line is incomplete and, by the standard,
  // dropped. True when there was one. The next feed() begins another stream.
  bool finish();

 private:
  Status take_line(std::string_view line);
  Status take_event();
  Status check_size(size_t line_bytes) const;

  OnEvent on_event_;
  size_t max_event_bytes_;
  std::string line_;
  SseEvent event_;
  bool has_data_ = false, at_start_ = true, after_cr_ = false;
};

}  // namespace marathon
