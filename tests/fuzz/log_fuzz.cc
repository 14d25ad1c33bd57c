// Opens a damaged log: whatever bytes are changed, every door gives a clear result. It never
// crashes, hangs, uses memory without bound or makes up events.
//
//   build/fuzz/bin/log_fuzz -max_total_time=600 -rss_limit_mb=512 -timeout=10
//
// The input is a list of edits of six bytes: which file (log.db, log.db-wal, snapshot.json), where
// (24 bits, modulo its size), what to do and a value.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "store/store.h"

namespace {

using namespace marathon;  // NOLINT: a test
namespace fs = std::filesystem;

constexpr std::array<const char*, 3> names = {"log.db", "log.db-wal", "snapshot.json"};
constexpr int64_t template_events = 24;

fs::path fuzz_folder() {
  static const TempFolder folder = std::move(*TempFolder::make("marathon-log-fuzz"));
  return folder.path();
}

void append_until(Log& log, int64_t sequence) {
  while (log.state().events < sequence) {
    const std::string text(static_cast<size_t>(log.state().events % 9 == 0 ? 5000 : 20), 'x');
    if (!log.append(NoteAdded{text, "person"})) std::abort();
  }
}

// A run that was killed: records in log.db, more of them in log.db-wal, and a snapshot.
void write_template(const fs::path& folder) {
  {
    Log log = std::move(*Log::create(folder, "fuzz"));
    RunStarted start;
    start.run = "fuzz";
    if (!log.append(start)) std::abort();
    append_until(log, template_events / 2);
    if (!log.write_snapshot()) std::abort();
  }
  Log log = std::move(*Log::open(folder));
  append_until(log, template_events);
  ::raise(SIGKILL);
}

const std::array<std::string, 3>& template_files() {
  static const std::array<std::string, 3> files = [] {
    const fs::path folder = fuzz_folder() / "template";
    const pid_t child = ::fork();
    if (child == 0) write_template(folder);
    ::waitpid(child, nullptr, 0);
    std::array<std::string, 3> bytes;
    for (size_t i = 0; i < names.size(); ++i) bytes[i] = *read_file(folder / names[i]);
    return bytes;
  }();
  return files;
}

void edit(std::array<std::string, 3>& files, const uint8_t* bytes) {
  std::string& file = files[bytes[0] % files.size()];
  if (file.empty()) return;
  const size_t at = (size_t{bytes[1]} << 16 | size_t{bytes[2]} << 8 | bytes[3]) % file.size();
  switch (bytes[4] % 5) {
    case 0:
      file[at] = static_cast<char>(bytes[5]);
      break;
    case 1:
      file[at] = static_cast<char>(file[at] ^ (1 << (bytes[5] % 8)));
      break;
    case 2:
      file.resize(at);
      break;
    case 3:
      file.insert(at, bytes[5], '\x55');
      break;
    case 4:
      file.replace(at, bytes[5], file.substr(0, bytes[5]));
      break;
  }
}

void check(const State& state) {
  if (state.events > template_events + 1) std::abort();
}

void open_by_every_door(const fs::path& folder) {
  (void)verify_run(folder);
  for (const bool redacted : {false, true})
    (void)export_run(folder, redacted, [](std::string_view) -> Status { return {}; });
  if (const Result<Reader> reader = Reader::open(folder)) {
    int64_t last = 0;
    (void)reader->each(0, [&](const Event& event) {
      if (event.sequence <= last) std::abort();
      last = event.sequence;
      return true;
    });
    for (const bool snapshot : {false, true}) {
      if (const Result<State> state = reader->fold(snapshot)) check(*state);
    }
  }
  if (Result<Log> log = Log::open(folder)) {
    if (const Result<Event> event = log->append(NoteAdded{"goes on", "person"}))
      check(log->state());
  }
  (void)verify_run(folder);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::array<std::string, 3> files = template_files();
  for (size_t i = 0; i + 6 <= size && i < 60; i += 6) edit(files, data + i);
  const fs::path folder = fuzz_folder() / "run";
  if (!remove_tree(folder) || !make_folders(folder)) std::abort();
  for (size_t i = 0; i < names.size(); ++i)
    if (!write_file(folder / names[i], files[i])) std::abort();
  open_by_every_door(folder);
  return 0;
}
