#include "base/sse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/utf8.h"

namespace marathon {
namespace {

using testing::ElementsAre;

struct Parsed {
  std::vector<std::string> events;  // "type|data"
  bool ok = true, incomplete = false;
  bool operator==(const Parsed&) const = default;
};

Parsed parse(std::string_view stream, size_t piece_bytes, size_t max_event_bytes = 1 << 20) {
  Parsed parsed;
  SseParser parser(
      [&](const SseEvent& event) -> Status {
        parsed.events.push_back(event.type + "|" + event.data);
        return {};
      },
      max_event_bytes);
  for (size_t at = 0; at < stream.size() && parsed.ok; at += piece_bytes)
    parsed.ok = parser.feed(stream.substr(at, piece_bytes)).has_value();
  parsed.incomplete = parser.finish();
  return parsed;
}

// The same for every size of piece.
Parsed parse(std::string_view stream) {
  const Parsed whole = parse(stream, stream.size() + 1);
  for (size_t size = 1; size <= stream.size(); ++size)
    EXPECT_EQ(parse(stream, size), whole) << "in pieces of " << size;
  return whole;
}

TEST(Sse, EveryEndOfLineAlsoMixed) {
  EXPECT_THAT(parse("data: a\n\ndata: b\r\rdata: c\r\n\r\n").events, ElementsAre("|a", "|b", "|c"));
  EXPECT_THAT(parse("event: x\r\ndata: a\rdata: b\n\r\ndata: c\r\n\n").events,
              ElementsAre("x|a\nb", "|c"));
  EXPECT_THAT(parse("data: a\n\r\n\r").events, ElementsAre("|a"));
}

TEST(Sse, DataOverSeveralLinesAndEmptyData) {
  EXPECT_THAT(parse("data: YHOO\ndata: +2\ndata: 10\n\n").events, ElementsAre("|YHOO\n+2\n10"));
  EXPECT_THAT(parse("data\n\ndata\ndata\n\ndata:\n\n").events, ElementsAre("|", "|\n", "|"));
}

TEST(Sse, OneSpaceAfterTheColonIsNotPartOfTheValue) {
  EXPECT_THAT(parse("data:test\n\ndata: test\n\ndata:  test\n\n").events,
              ElementsAre("|test", "|test", "| test"));
}

TEST(Sse, CommentsUnknownFieldsIdAndRetryAreSkipped) {
  EXPECT_THAT(parse(": OPENROUTER PROCESSING\n\n:\nid: 7\nretry: 10\nother: x\ndata: a\n"
                    "data : no field\n: in the middle\ndata: b\n\n")
                  .events,
              ElementsAre("|a\nb"));
}

TEST(Sse, TypeBelongsToOneEventAndAnEventWithoutDataIsNone) {
  EXPECT_THAT(parse("event: ping\n\ndata: a\n\nevent: x\nevent: y\ndata: b\n\ndata: c\n\n").events,
              ElementsAre("|a", "y|b", "|c"));
}

TEST(Sse, ByteOrderMarkOnlyAtTheStart) {
  EXPECT_THAT(parse("\xEF\xBB\xBF"
                    "data: a\n\n\xEF\xBB\xBF"
                    "data: b\n\ndata: c\n\n")
                  .events,
              ElementsAre("|a", "|c"));
  EXPECT_THAT(parse("\xEF\xBB\xBF\n\ndata: a\n\n").events, ElementsAre("|a"));
}

TEST(Sse, CharactersOfUtf8AreCutAnywhere) {
  EXPECT_THAT(parse("data: Ж€\U0001F600\xC2\x85 end\n\n").events,
              ElementsAre("|Ж€\U0001F600\xC2\x85 end"));
}

TEST(Sse, WhatIsNoUtf8IsReplaced) {
  EXPECT_THAT(parse("data: a\xFF"
                    "b\xE2\x82\n\nevent: \xC0\ndata: c\n\n")
                  .events,
              ElementsAre("|a\uFFFDb\uFFFD", "\uFFFD|c"));
}

TEST(Sse, AnEventWithoutItsEmptyLineIsDroppedAndReported) {
  for (const char* stream : {"data: a\n\ndata: b\n", "data: a\n\ndata: b", "data: a\n\ndata"}) {
    const Parsed parsed = parse(stream);
    EXPECT_THAT(parsed.events, ElementsAre("|a"));
    EXPECT_TRUE(parsed.incomplete) << stream;
  }
  EXPECT_FALSE(parse("data: a\n\n").incomplete);
  EXPECT_FALSE(parse("data: a\n\n: comment").incomplete);
  EXPECT_FALSE(parse("data: a\n\nevent: x\n").incomplete);
  EXPECT_FALSE(parse("").incomplete);
}

TEST(Sse, AfterFinishAnotherStreamBegins) {
  std::vector<std::string> seen;
  SseParser parser([&](const SseEvent& event) -> Status {
    seen.push_back(event.type + "|" + event.data);
    return {};
  });
  ASSERT_TRUE(parser.feed("event: x\ndata: lost\r"));
  EXPECT_TRUE(parser.finish());
  ASSERT_TRUE(
      parser.feed("\xEF\xBB\xBF"
                  "data: new\n\n"));
  EXPECT_THAT(seen, ElementsAre("|new"));
}

TEST(Sse, AnEventAboveTheLimitIsRefusedBeforeItIsWhole) {
  const std::string fits = "data: " + std::string(94, 'x') + "\n\n";  // a line of 100
  const std::string large = "data: " + std::string(95, 'x') + "\n\n";
  const std::string in_lines =
      "data: " + std::string(50, 'x') + "\ndata: " + std::string(45, 'x') + "\n\n";
  const std::string comment = ":" + std::string(100, 'x');
  for (size_t size = 1; size < 120; ++size) {
    EXPECT_TRUE(parse(fits + fits, size, 100).ok) << size;
    for (const std::string& bad : {large, in_lines, comment, large.substr(0, 101)}) {
      const Parsed parsed = parse(fits + bad, size, 100);
      EXPECT_FALSE(parsed.ok) << size << " " << bad;
      EXPECT_EQ(parsed.events.size(), 1u);
    }
  }
  SseParser parser([](const SseEvent&) -> Status { return {}; }, 100);
  const Status status = parser.feed(large);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().fault, Fault::invalid);
  EXPECT_EQ(status.error().what, "an event of the stream is larger than 100 bytes");
}

TEST(Sse, TheErrorOfOnEventEndsTheFeed) {
  int seen = 0;
  SseParser parser([&](const SseEvent&) -> Status {
    if (++seen == 2) return fail(Fault::retry, "enough");
    return {};
  });
  const Status status = parser.feed("data: 1\n\ndata: 2\n\ndata: 3\n\n");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().fault, Fault::retry);
  EXPECT_EQ(seen, 2);
}

TEST(Utf8, WrongPiecesAreReplacedAsTheStandardSays) {
  EXPECT_TRUE(is_utf8("aЖ€\U0001F600\U0010FFFF"));
  for (const char* bad : {"\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                          "\xF4\x90\x80\x80", "\xF5", "\xE2\x82", "\xF0\x9F\x98"})
    EXPECT_FALSE(is_utf8(bad));
  EXPECT_EQ(replace_bad_utf8("\xE2\x82"), "\uFFFD");                  // one cut character
  EXPECT_EQ(replace_bad_utf8("\xF0\x9F\x98x"), "\uFFFDx");            // the same before a character
  EXPECT_EQ(replace_bad_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate: no such lead
  EXPECT_EQ(replace_bad_utf8("\xC3\xC3\xA4"), "\uFFFDä");
}

}  // namespace
}  // namespace marathon
