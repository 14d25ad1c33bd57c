// The store's speed and memory.
//
//   build/bench/bin/store_bench [--benchmark_filter=…]
//   MARATHON_BENCH_EVENTS (1000000)   how long the long log is
//   MARATHON_BENCH_FOLDER ($TMPDIR)   where logs are written: an append waits for this disk
//
// The long log has the mixture of a real run: twelve events an evaluation, one of them a verdict
// over four shapes. It is written in one transaction by the store's own row writer, since a million
// appends, each waiting for the disk, would take minutes and measure nothing else.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "store/rows.h"
#include "store/store.h"

namespace marathon {
namespace {

namespace fs = std::filesystem;

template <class T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "{}\n", result.error().what);
  std::exit(3);
}
void must(const Status& status) {
  if (status) return;
  fmt::print(stderr, "{}\n", status.error().what);
  std::exit(3);
}

int64_t long_log_events() {
  const char* text = std::getenv("MARATHON_BENCH_EVENTS");
  return text ? std::atoll(text) : 1'000'000;
}

TempFolder bench_folder() {
  if (const char* folder = std::getenv("MARATHON_BENCH_FOLDER")) ::setenv("TMPDIR", folder, 1);
  return must(TempFolder::make("marathon-store-bench"));
}

// Resident bytes now, from the kernel.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

Verdict verdict_of(int64_t evaluation) {
  Verdict verdict;
  verdict.kind = VerdictKind::slower;
  verdict.speedup = {2.1 + static_cast<double>(evaluation % 100) / 977, 2.05, 2.2};
  verdict.gain = {0.97, 0.96, 0.98};
  verdict.reasons = {"slower than the incumbent: ratio 0.970 (0.961–0.979), noise 0.4 %"};
  for (int i = 0; i < 4; ++i) {
    ShapeResult shape;
    shape.name = fmt::format("T{}-H4-D64", 512 << i);
    shape.set = "listed";
    shape.time_us = 1234.567 * (i + 1) + static_cast<double>(evaluation);
    shape.baseline_us = 2.3 * shape.time_us;
    shape.incumbent_us = 0.98 * shape.time_us;
    shape.speedup = verdict.speedup;
    shape.floor_us = 100.25;
    shape.bound_by = "arithmetic";
    shape.error = 3.1e-7;
    shape.outputs = {{"o", 3.1e-7, 1e-6, 2e-7, 4.2, "b 0 h 3 rows 64–127"}};
    verdict.shapes.push_back(shape);
  }
  verdict.provenance.host = "bench";
  verdict.provenance.cpu = "a CPU with a long name @ 2.70GHz";
  verdict.provenance.compiler = "g++ (Debian 12.2.0-14) 12.2.0";
  verdict.provenance.flags = "-std=c++20 -O3 -march=native";
  return verdict;
}

class LongLog {
 public:
  explicit LongLog(const fs::path& folder)
      : database_(must(store::Database::open(folder / store::log_file, store::OpenMode::write))),
        writer_(must(store::RowWriter::make(database_))) {
    must(database_.run("BEGIN"));
  }

  void add(const Payload& payload) {
    Event event;
    event.sequence = ++sequence_;
    event.id = fmt::format("bench/{}", sequence_);
    event.stream_id = "bench";
    event.recorded_at_us = wall_time_us();
    event.record_type = record_type(payload);
    event.payload_type = payload_type(payload);
    event.payload = encode_payload(payload);
    event.previous_hash = last_hash_;
    event.hash = last_hash_ = chain_hash(event);
    must(writer_.insert(event));
  }

  void evaluation(int64_t n) {
    const std::string candidate = sha256_hex(fmt::format("candidate {}", n));
    const std::string key = sha256_hex(candidate), call = fmt::format("call-{}", n);
    add(TurnStarted{n});
    TurnFinished turn;
    turn.turn = n;
    turn.calls = {{call, "evaluate", R"({"CHUNK":16,"FORM":1,"UNROLL":4})"}};
    add(turn);
    add(ToolStarted{n, call, "evaluate"});
    CandidateAdded added{candidate,
                         "",
                         {{"params.toml", candidate}, {"solution.cc", key}},
                         key.substr(0, 40),
                         "a wider tile keeps more sums in registers",
                         "tiling",
                         "search",
                         {}};
    added.configuration = {{"CHUNK", n % 64}, {"FORM", 1}, {"UNROLL", 4}, {"FLAGS", 2}};
    add(added);
    add(EvaluationStarted{n, candidate, "", key, 77});
    for (const char* stage : {"build", "rules", "check", "measure", "profile"})
      add(EvaluationStage{n, stage, "done", 0.5});
    add(EvaluationFinished{n, candidate, key, verdict_of(n), 2.0 * static_cast<double>(n)});
    add(ToolFinished{
        n, call, "evaluate", true, "slower: 2.1 × the baseline, 0.97 × the best", {}, 0});
  }

  int64_t sequence() const { return sequence_; }
  void finish() {
    must(database_.run("COMMIT"));
    must(database_.checkpoint(true));
  }

 private:
  store::Database database_;
  store::RowWriter writer_;
  int64_t sequence_ = 0;
  std::string last_hash_;
};

// Made once and shared by all benchmarks that read it.
const fs::path& long_log() {
  static const TempFolder folder = bench_folder();
  static const fs::path run = [] {
    fs::path path = folder.path() / "bench";
    { const Log log = must(Log::create(path, "bench")); }
    LongLog log(path);
    RunStarted start;
    start.run = "bench";
    log.add(start);
    for (int64_t n = 1; log.sequence() < long_log_events(); ++n) log.evaluation(n);
    log.finish();
    return path;
  }();
  return run;
}

// Runs in a fresh process, so that the memory of earlier benchmarks is not counted. Returns how
// many bytes it grew by at most.
int64_t peak_growth(const std::function<void()>& body) {
  int pipe_fds[2];
  if (::pipe(pipe_fds) != 0) std::exit(3);
  const pid_t child = ::fork();
  if (child == 0) {
    ::malloc_trim(0);  // what the parent freed must not be there to be used again
    { std::ofstream("/proc/self/clear_refs") << "5"; }  // the peak starts from here
    const int64_t before = resident_bytes();
    body();
    std::ifstream status("/proc/self/status");
    int64_t peak_kb = 0;
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmHWM:")) peak_kb = std::atoll(line.c_str() + 6);
    const int64_t grown = peak_kb * 1024 - before;
    ::_exit(::write(pipe_fds[1], &grown, sizeof grown) == sizeof grown ? 0 : 1);
  }
  int64_t grown = 0;
  if (::read(pipe_fds[0], &grown, sizeof grown) != sizeof grown) std::exit(3);
  ::waitpid(child, nullptr, 0);
  ::close(pipe_fds[0]);
  ::close(pipe_fds[1]);
  return grown;
}

// Limit: 0.5 ms median.
void AppendDurable(benchmark::State& state) {
  const TempFolder folder = bench_folder();
  Log log = must(Log::create(folder.path() / "bench", "bench"));
  const NoteAdded note{std::string(static_cast<size_t>(state.range(0)), 'x'), "person"};
  std::vector<double> ms;
  while (state.KeepRunning()) {
    const int64_t start = monotonic_ns();
    must(log.append(note));
    ms.push_back(static_cast<double>(monotonic_ns() - start) / 1e6);
  }
  std::ranges::sort(ms);
  state.counters["median_ms"] = ms[ms.size() / 2];
  state.counters["p99_ms"] = ms[ms.size() * 99 / 100];
}
BENCHMARK(AppendDurable)->Arg(100)->Arg(2000)->Arg(15000)->Unit(benchmark::kMillisecond);

// The fold itself: decoded events onto the state. Limit: 1,000,000 events a second.
void FoldInMemory(benchmark::State& state) {
  constexpr size_t events_held = 100'000;
  std::vector<std::pair<Event, Payload>> events;
  must(must(Reader::open(long_log())).each(0, [&](const Event& event) {
    events.emplace_back(event, must(decode_payload(event.payload_type, event.payload)));
    return events.size() < events_held;
  }));
  while (state.KeepRunning()) {
    State folded;
    for (const auto& [event, payload] : events) apply(folded, event, payload);
    benchmark::DoNotOptimize(folded.events);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(events.size()));
}
BENCHMARK(FoldInMemory)->Unit(benchmark::kMillisecond);

// Limit: 15 s and 200 MB for 1,000,000 events.
void FoldWithoutSnapshot(benchmark::State& state) {
  const fs::path& folder = long_log();
  int64_t events = 0;
  while (state.KeepRunning()) events = must(must(Reader::open(folder)).fold(false)).events;
  state.SetItemsProcessed(state.iterations() * events);
  state.counters["peak_mb"] =
      static_cast<double>(peak_growth([&] { must(must(Reader::open(folder)).fold(false)); })) / 1e6;
  state.counters["log_mb"] = static_cast<double>(fs::file_size(folder / "log.db")) / 1e6;
}
BENCHMARK(FoldWithoutSnapshot)->Unit(benchmark::kSecond)->Iterations(1);

// Limit: 2 s for 1,000,000 events.
void OpenWithSnapshot(benchmark::State& state) {
  const fs::path& folder = long_log();
  must(must(Log::open(folder)).write_snapshot());
  while (state.KeepRunning()) {
    const Log log = must(Log::open(folder));
    if (!log.report().from_snapshot) std::exit(3);
  }
  state.counters["peak_mb"] =
      static_cast<double>(peak_growth([&] { must(Log::open(folder)); })) / 1e6;
  state.counters["write_peak_mb"] =
      static_cast<double>(peak_growth([&] { must(must(Log::open(folder)).write_snapshot()); })) /
      1e6;
  state.counters["snapshot_mb"] =
      static_cast<double>(fs::file_size(folder / "snapshot.json")) / 1e6;
}
BENCHMARK(OpenWithSnapshot)->Unit(benchmark::kSecond)->Iterations(3);

void ReadWithoutFold(benchmark::State& state) {
  const fs::path& folder = long_log();
  int64_t events = 0;
  while (state.KeepRunning()) {
    must(must(Reader::open(folder)).each(0, [&](const Event&) { return ++events > 0; }));
  }
  state.SetItemsProcessed(events);
}
BENCHMARK(ReadWithoutFold)->Unit(benchmark::kSecond)->Iterations(1);

void Verify(benchmark::State& state) {
  const fs::path& folder = long_log();
  while (state.KeepRunning()) must(verify_run(folder));
}
BENCHMARK(Verify)->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace marathon

BENCHMARK_MAIN();
