// What the store's tests share.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "store/fault.h"
#include "store/store.h"

namespace marathon {

template <class T>
T must(Result<T> result) {
  if (!result) ADD_FAILURE() << result.error().what;
  return std::move(result.value());
}
inline void must(const Status& status) {
  if (!status) ADD_FAILURE() << status.error().what;
}

std::string text_of(const State& state);  // two states are the same when all of this is

inline NoteAdded note(const std::string& text) { return NoteAdded{text, "person"}; }

class StoreTest : public testing::Test {
 protected:
  ~StoreTest() override { store::clear_fault_plan(); }

  std::filesystem::path folder() const { return temp_.path() / "demo-1"; }
  std::filesystem::path log_path() const { return folder() / "log.db"; }

  Log new_log() const { return must(Log::create(folder(), "demo-1")); }
  Log old_log() const { return must(Log::open(folder())); }

  // A run's start and `notes` notes behind it.
  Log log_of(int64_t notes) const {
    Log log = new_log();
    RunStarted start;
    start.run = "demo-1";
    start.task_name = "demo";
    must(log.append(start));
    for (int64_t i = 0; i < notes; ++i) must(log.append(note(fmt::format("note {}", i))));
    return log;
  }

  std::vector<Event> events() const {
    std::vector<Event> all;
    must(must(Reader::open(folder())).each(0, [&](const Event& event) {
      all.push_back(event);
      return true;
    }));
    return all;
  }

  std::string exported(bool redacted = false) const {
    std::string text;
    must(export_run(folder(), redacted, [&](std::string_view line) -> Status {
      text += line;
      return {};
    }));
    return text;
  }

  // A statement as a person with the sqlite3 program would give it, past all triggers and checks.
  void tamper(const std::string& sql) const;

  TempFolder temp_ = must(TempFolder::make("marathon-store-test"));
};

}  // namespace marathon
