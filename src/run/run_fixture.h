// What the run's tests share: a home, a tiny task, a fake executor, agents that say what they are
// told.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "fakes/fake_executor.h"
#include "fakes/tiny_task.h"
#include "run/run.h"
#include "run/workspace.h"

namespace marathon {

template <class T>
T must(Result<T> result) {
  if (!result) ADD_FAILURE() << result.error().what;
  return std::move(result.value());
}
inline void must(const Status& status) {
  if (!status) ADD_FAILURE() << status.error().what;
}

// Answers turn n with its n-th entry; exhausted behind the last.
class ListProvider : public Provider {
 public:
  using Calls = std::vector<std::pair<std::string, std::string>>;  // name, arguments
  explicit ListProvider(std::vector<Calls> turns) : turns_(std::move(turns)) {}

  Result<Turn> next(const Context& context, std::stop_token) override {
    Turn turn;
    const size_t at = static_cast<size_t>(context.state.spent.turns);
    turn.exhausted = at >= turns_.size();
    if (turn.exhausted) return turn;
    for (const auto& [name, arguments] : turns_[at])
      turn.calls.push_back({fmt::format("{}-{}", at, turn.calls.size()), name, arguments});
    return turn;
  }
  std::string name() const override { return "list"; }
  std::string detail() const override { return "test"; }

 private:
  std::vector<Calls> turns_;
};

// In memory where there is room: what is tested is killed, not unplugged, and a sync costs nothing.
inline TempFolder test_folder() {
  const Result<int64_t> room = free_bytes("/dev/shm");
  if (room && *room > (512LL << 20) && ::access("/dev/shm", W_OK) == 0)
    ::setenv("TMPDIR", "/dev/shm", 0);
  return must(TempFolder::make("marathon-run-test"));
}

class RunTest : public testing::Test {
 protected:
  RunTest() { write_tiny_task(task()); }

  std::filesystem::path task() const { return temp_.path() / "task"; }
  std::filesystem::path home() const { return temp_.path() / "home"; }
  std::filesystem::path folder(const std::string& run = "tiny-run") const {
    return run_folder(home(), run);
  }

  RunOptions options() {
    RunOptions options;
    options.home = home();
    options.task_folder = task();
    options.name = "tiny-run";
    options.executor = &executor_;
    options.on_trouble = [this](const std::string& text) { troubles_.push_back(text); };
    return options;
  }

  RunOutcome start(std::vector<ListProvider::Calls> turns) {
    provider_ = std::make_unique<ListProvider>(std::move(turns));
    RunOptions with = options();
    with.provider = provider_.get();
    return must(start_run(with, {}));
  }

  std::vector<Event> events(const std::string& run = "tiny-run") const {
    std::vector<Event> all;
    must(must(Reader::open(folder(run))).each(0, [&](const Event& event) {
      all.push_back(event);
      return true;
    }));
    return all;
  }
  std::vector<std::string> kinds() const {
    std::vector<std::string> all;
    for (const Event& event : events()) all.push_back(event.payload_type);
    return all;
  }
  template <class Kind>
  std::vector<Kind> all_of() const {
    std::vector<Kind> found;
    for (const Event& event : events()) {
      const Payload payload = must(decode_payload(event.payload_type, event.payload));
      if (const Kind* kind = std::get_if<Kind>(&payload)) found.push_back(*kind);
    }
    return found;
  }
  std::vector<std::string> results() const {
    std::vector<std::string> texts;
    for (const ToolFinished& done : all_of<ToolFinished>()) texts.push_back(done.result);
    return texts;
  }

  void expect_clean() const {
    EXPECT_THAT(must(verify_run(folder())).problems, testing::IsEmpty());
  }

  TempFolder temp_ = test_folder();
  FakeExecutor executor_;
  std::unique_ptr<ListProvider> provider_;
  std::vector<std::string> troubles_;
};

inline std::string evaluate_call(const std::string& configuration = "") {
  return R"({"hypothesis": "h", "category": "c")" +
         (configuration.empty() ? "" : ", \"configuration\": " + configuration) + "}";
}

}  // namespace marathon
