// Task: what may be edited, how it is built, checked and measured, and the baseline to beat.
//
// The text form is task.toml, schema 1; docs/task-format.md describes every key. Parsing is pure:
// text in, Task or diagnostics out. Reading the folder is `load_task` in judge/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/expression.h"
#include "base/result.h"

namespace marathon {

enum class TaskKind { kernel, command };
enum class Language { cpp, cuda, triton };
enum class DType { fp32, fp64, bf16, fp16, int32, int64 };
enum class Role { input, output };
enum class ShapeSet { listed, hidden, stress };  // listed: timed and shown; hidden, stress: checked only
enum class Direction { minimize, maximize };
enum class CacheState { warm, cold };
enum class Sanitizer { memcheck, racecheck, synccheck, initcheck };  // tools of compute-sanitizer

std::string_view to_string(TaskKind kind);
std::string_view to_string(Language language);
std::string_view to_string(DType dtype);
std::string_view to_string(ShapeSet set);
std::string_view to_string(Direction direction);
std::string_view to_string(Sanitizer sanitizer);
int64_t bytes_of(DType dtype);
bool is_floating(DType dtype);

// How an input's values are drawn. Which of a and b count depends on the kind.
struct Distribution {
  enum class Kind {
    normal,       // mean a, standard deviation b
    uniform,      // [a, b)
    log_uniform,  // exp(uniform(log a, log b)), a > 0
    constant,     // a
    integers,     // whole numbers in [a, b]
    sign,         // a or b, evenly
    half_half,    // the first half of the last axis is a, the second half is b
    repeat_row,   // normal(a, b) drawn once for a row of the last axis and repeated in every row
    neg_log_uniform,  // -log_uniform(a, b): decays in log space; text form { kind, low, high }, low > 0
    logit_log_uniform,  // log(p / (1 - p)), p log-uniform in [a, b), 0 < a < b < 1
    offsets,            // 0 and the sums of `lengths` in a random order: one axis, lengths + 1 elements
  };
  Kind kind = Kind::normal;
  double a = 0, b = 1;
  std::vector<int64_t> lengths = {};  // offsets only
  bool operator==(const Distribution&) const = default;
};

struct Tensor {
  std::string name;
  Role role = Role::input;
  DType dtype = DType::fp32;
  std::vector<Expression> shape;   // over the dims; row-major
  Distribution distribution;       // inputs only
  double normalize_last_axis = 0;  // > 0: each row of the last axis is scaled to this L2 norm
  // GPU tasks (docs/gpu.md). An input whose content is known while launches are prepared:
  bool host = false;
  // An output that is checked at `count` secret places of one axis.
  struct Sample {
    int64_t axis = 0, count = 0;
  };
  std::optional<Sample> sample;
};

struct Shape {
  std::string name;
  ShapeSet set = ShapeSet::listed;
  std::map<std::string, int64_t> dims;
  std::map<std::string, Distribution> distributions;  // overrides by tensor name
  double weight = 1;                                  // in the geometric mean over listed shapes
  bool timed = false;  // hidden: timed too, so that a candidate is not fast at listed shapes only
};

// Allowed error of one output: min(cap, max(factor × error of the honest emulation, minimum)).
// Errors are relative RMS, the worst over blocks; docs/measurement.md has the definition.
struct Tolerance {
  double factor = 1.5;
  double minimum = 0;                       // keeps a bound above rounding noise of one element
  double default_cap = 1e-2;
  std::map<std::string, double> cap;        // by output name
  double worst_element_factor = 30;         // worst |error| / RMS of its block, times the bound
};

// One choice of the search. Its value stands in params.toml in the workspace and reaches the build
// as -DNAME=value (define) or as the flag text of its index (flag).
struct Parameter {
  enum class Kind { define, flag };
  std::string name;
  Kind kind = Kind::define;
  std::vector<int64_t> values;          // define: the values; flag: 0 … n-1
  std::vector<std::string> flags;       // flag: the texts, one or more words each, "" allowed
  int64_t start = 0;                    // value in the starting solution
  std::string category;                 // algorithm, tiling, memory, layout, unrolling, compiler, …
  std::string help;
};

using Configuration = std::map<std::string, int64_t>;

struct Files {
  std::string start = "start";             // folder: the starting solution
  std::vector<std::string> editable;       // relative to the workspace; globs with * inside one folder
  std::vector<std::string> frozen;         // from the task folder, copied beside, read-only
  std::string oracle = "oracle.cc";        // "oracle.cu" where the task is for a GPU
  std::string cpu_oracle;                  // GPU tasks: cross-check at small shapes; empty: none
  std::string baseline = "baseline";       // folder with the same sources as [build]
  bool baseline_visible = true;            // may the agent read it
};

struct Build {
  std::vector<std::string> sources;        // compiled into one shared object
  std::vector<std::string> flags;
  double timeout_s = 120;
  int64_t max_memory_bytes = 4LL << 30;
};

struct Rules {
  int64_t threads = 1;
  std::vector<std::string> forbidden_text;      // regular expressions over each editable file
  std::vector<std::string> allowed_libraries;   // DT_NEEDED beyond libc, libm, libstdc++, libgcc_s
  int64_t max_source_bytes = 512LL << 10;
};

// The physical limit of a shape: max(flops / peak, bytes / bandwidth). Empty bytes: derived from
// the tensors, each input read once and each output written once.
struct FloorModel {
  std::optional<Expression> flops;
  std::optional<Expression> bytes;
};

struct MeasurePlan {
  CacheState cache = CacheState::warm;  // which figure decides; both are reported
  int64_t restarts = 5;                 // fresh processes; the bootstrap resamples these
  int64_t rounds = 6;                   // per restart, inputs fresh in each
  int64_t buffer_sets = 4;              // calls in one window, each on its own inputs
  double timeout_s = 20;                // one candidate call, checked by the judge
};

struct Target {
  double speedup = 0;    // goal: lower bound of the interval at least this; 0: no goal but "as fast as it goes"
  std::string text;      // the objective in words
};

struct Budget {          // 0: no limit
  int64_t evaluations = 0;
  int64_t tool_calls = 0;
  double hours = 0;      // active time on the monotonic clock
  double usd = 0;        // for a model's requests; what a server does not report is estimated high
  int64_t tokens = 0;    // of all requests and answers, cached ones too

  bool operator==(const Budget&) const = default;
};

// GPU tasks: what a candidate must pass, beyond check and measurement, to become the best.
struct JudgePlan {
  std::vector<Sanitizer> sanitize;  // in the order in which they run
};

struct Profile {
  bool on_new_best = true;
  std::string shape;     // empty: the listed shape with the largest weight
};

// kind = "command"
struct CommandSpec {
  std::vector<std::string> build, check, measure;  // argv each; build and check may be empty
  double timeout_s = 120;
  std::string metric_regex;     // one group; or
  std::string metric_json;      // a JSON pointer into measure's standard output
  std::string unit;
  Direction direction = Direction::minimize;
  int64_t repeats = 5;
  double min_gain = 0;          // relative; a metric that does not vary at all may use 0
  bool interleave = false;      // alternate candidate, incumbent and baseline (for times)
};

struct Task {
  int64_t schema = 1;
  std::string name, title, description;
  TaskKind kind = TaskKind::kernel;
  std::vector<Language> languages;
  Files files;
  Build build;
  std::vector<std::string> dims;        // order of MarathonArgs.dims
  std::vector<Tensor> tensors;          // order of MarathonArgs.tensors
  std::vector<Shape> shapes;
  Tolerance tolerance;
  FloorModel floor;
  std::vector<Parameter> parameters;
  std::vector<Expression> constraints;  // over parameters; all must be true
  Rules rules;
  MeasurePlan measure;
  Target target;
  Budget budget;
  Profile profile;
  JudgePlan judge;
  CommandSpec command;
};

struct Diagnostic {
  std::string file;
  int64_t line = 0, column = 0;      // 1-based; 0: the whole file
  bool warning = false;
  std::string message;               // "unknown key 'sorces' in [build]; did you mean 'sources'?"
};

std::string to_string(const Diagnostic& diagnostic);  // "file:3:7: error: …"

struct ParsedTask {
  Task task;                            // meaningful only when ok()
  std::vector<Diagnostic> diagnostics;  // every error found, not only the first
  bool ok() const;
};

// Parses and checks everything that the text alone can tell: keys, types, names that are used but
// not declared, expressions, constraints that no configuration meets, duplicate shapes.
ParsedTask parse_task(std::string_view toml, std::string_view file_name);

// Dims of a shape in the order of task.dims.
std::vector<int64_t> dims_of(const Task& task, const Shape& shape);
// Extent of each axis, and their product.
Result<std::vector<int64_t>> extents_of(const Task& task, const Tensor& tensor, const Shape& shape);
Result<int64_t> elements_of(const Task& task, const Tensor& tensor, const Shape& shape);

// Configurations.
bool is_valid(const Task& task, const Configuration& configuration);
Configuration start_configuration(const Task& task);
std::string to_params_toml(const Task& task, const Configuration& configuration);
// Every parameter must be there with a declared value; error invalid names the line otherwise.
Result<Configuration> parse_params_toml(const Task& task, std::string_view text);
// The same as a Python module: what a Triton candidate imports as marathon_params.
std::string to_params_module(const Task& task, const Configuration& configuration);
// Words between blanks.
std::vector<std::string> words_of(std::string_view text);
// The words that a configuration adds to the compiler's command line.
std::vector<std::string> build_words(const Task& task, const Configuration& configuration);

// Languages.
bool speaks(const Task& task, Language language);
bool is_gpu_task(const Task& task);                      // CUDA or Triton
Language language_of_source(std::string_view file_name);  // by its ending; .cc and the like: c++
// [build] sources that are compiled when a candidate is written in this language.
std::vector<std::string> sources_in(const Task& task, Language language);

inline constexpr std::string_view params_file = "params.toml";
// A baseline of a GPU task may be this Python module instead of the sources.
inline constexpr std::string_view python_baseline_file = "baseline.py";

}  // namespace marathon
