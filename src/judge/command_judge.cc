// Tasks of kind "command": build, check and measure are programs of the task. The files that grade
// are frozen: they are put back from the task's folder before each step, and a candidate that
// brings others breaks the rule.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "core/statistics.h"
#include "judge/pipeline.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

Verdict failed(VerdictKind kind, std::string reason) {
  Verdict verdict;
  verdict.kind = kind;
  verdict.reasons.push_back(std::move(reason));
  return verdict;
}

std::string tail_of(const ProcessResult& result) {
  const std::string& text = result.err.empty() ? result.out : result.err;
  return text.substr(text.size() - std::min<size_t>(text.size(), 300));
}

std::string how_it_ended(const ProcessResult& result, double timeout_s) {
  if (result.timed_out) return fmt::format("took longer than {:.0f} s", timeout_s);
  if (result.too_many_processes) return "started too many processes";
  if (result.too_much_memory) return "used too much memory";
  if (result.signal != 0) return fmt::format("was ended by signal {}", result.signal);
  return fmt::format("ended with exit code {}", result.exit_code);
}

Result<double> metric_in(const CommandSpec& command, const std::string& out) {
  if (!command.metric_json.empty()) {
    const Json json = TRY(parse_json(out));
    try {
      const Json& value = json.at(Json::json_pointer(command.metric_json));
      if (value.is_number()) return value.get<double>();
    } catch (const Json::exception&) {
      // Named below: a missing field and one of another kind are the same to the author.
    }
    return fail(Fault::invalid,
                "there is no number at " + command.metric_json + " in the output of measure");
  }
  const std::regex expression(command.metric_regex);
  std::smatch match;
  const std::string text = out.substr(0, 64 * 1024);
  if (!std::regex_search(text, match, expression) || match.size() < 2) {
    return fail(Fault::invalid,
                "the output of measure has nothing that matches " + command.metric_regex);
  }
  try {
    return std::stod(match[1].str());
  } catch (const std::exception&) {
    return fail(Fault::invalid,
                "'" + match[1].str() + "' in the output of measure is not a number");
  }
}

// What one implementation came to: samples, or a failure.
struct Measured {
  std::vector<double> samples;
  std::optional<Verdict> failure;
  double build_s = 0, check_s = 0, measure_s = 0;
};

// A workspace of one implementation, in the jail of a command task.
class Bench {
 public:
  Bench(const LoadedTask& task, const EvaluationRequest& request, std::stop_token stop)
      : task_(task), command_(task.task.command), request_(request), stop_(std::move(stop)) {}

  Status open(const fs::path& candidate) {
    scratch_.emplace(TRY(TempFolder::make("marathon-command")));
    TRY(make_folders(scratch_->path() / "tmp"));
    const fs::path work = scratch_->path() / "work";
    // The start's other files, then the candidate's editable ones: a candidate cannot bring new
    // graders.
    TRY(copy_tree(task_.folder / task_.task.files.start, work));
    for (const fs::path& file : TRY(editable_files(task_.task, work)))
      TRY(remove_tree(work / file));
    for (const fs::path& file : TRY(editable_files(task_.task, candidate))) {
      TRY(make_folders((work / file).parent_path()));
      TRY(write_file(work / file, TRY(read_file(candidate / file))));
      std::error_code none;
      fs::permissions(work / file, fs::status(candidate / file, none).permissions(), none);
    }
    return write_parameters(work);
  }

  // Parameters reach the task's commands as environment variables, one a name, and the words of
  // flags as FLAGS.
  Status write_parameters(const fs::path& work) {
    const Result<std::string> params = read_file(work / params_file, 1 << 20);
    if (!params || task_.task.parameters.empty()) return {};
    const Configuration configuration = TRY(parse_params_toml(task_.task, *params));
    if (!is_valid(task_.task, configuration))
      return fail(Fault::invalid, "params.toml: the values break a constraint of the task");
    for (const auto& [name, value] : configuration)
      environment_.push_back(fmt::format("{}={}", name, value));
    std::string words;
    for (const std::string& word : build_words(task_.task, configuration))
      words += (words.empty() ? "" : " ") + word;
    environment_.push_back("MARATHON_BUILD_WORDS=" + words);
    return {};
  }

  Result<ProcessResult> step(const std::vector<std::string>& argv) {
    TRY(put_frozen_back());
    ProcessSpec spec;
    spec.argv = argv;
    spec.folder = scratch_->path() / "work";
    spec.environment = clean_environment(scratch_->path() / "tmp");
    spec.environment.insert(spec.environment.end(), environment_.begin(), environment_.end());
    spec.timeout_s = command_.timeout_s;
    spec.max_processes = 256;
    spec.max_memory_bytes = task_.task.build.max_memory_bytes;
    spec.keep_bytes = 128 * 1024;
    Jail jail = toolchain_jail();
    jail.read_only.push_back("/etc");
    jail.read_execute.push_back(scratch_->path() / "work");
    jail.read_write = {scratch_->path() / "work", scratch_->path() / "tmp", "/dev/null",
                       "/dev/tty"};
    jail.allow_fork = jail.allow_exec = true;
    jail.max_file_bytes = 1LL << 30;
    jail.max_open_files = 1024;
    jail.max_cpu_s = static_cast<int64_t>(command_.timeout_s) * 4 + 10;
    return run_jailed(std::move(spec), jail, scratch_->path(), request_.unsafe_no_sandbox, stop_);
  }

 private:
  Status put_frozen_back() {
    for (const fs::path& file : TRY(frozen_files(task_))) {
      const fs::path to = scratch_->path() / "work" / file;
      TRY(remove_tree(to));
      TRY(make_folders(to.parent_path()));
      TRY(write_file(to, TRY(read_file(task_.folder / file))));
      std::error_code none;
      fs::permissions(to, fs::status(task_.folder / file, none).permissions(), none);
    }
    return {};
  }

  const LoadedTask& task_;
  const CommandSpec& command_;
  const EvaluationRequest& request_;
  std::stop_token stop_;
  std::optional<TempFolder> scratch_;
  std::vector<std::string> environment_;
};

class CommandJudge {
 public:
  CommandJudge(const LoadedTask& task, const EvaluationRequest& request, const StageSink& stage,
               std::stop_token stop)
      : task_(task),
        command_(task.task.command),
        request_(request),
        stage_(stage),
        stop_(std::move(stop)) {}

  Result<Verdict> run() {
    const int64_t start_us = monotonic_us(), wall_us = wall_time_us();
    Verdict verdict = TRY(decide());
    fill_provenance(verdict.provenance, task_, request_);
    verdict.metric_unit = command_.unit;
    verdict.provenance.noise = command_.min_gain;
    verdict.provenance.started_at_us = wall_us;
    verdict.provenance.seconds = 1e-6 * static_cast<double>(monotonic_us() - start_us);
    return verdict;
  }

 private:
  Result<Verdict> decide() {
    if (std::optional<std::string> broken = TRY(brought_a_grader()))
      return failed(VerdictKind::rule_broken, *broken);
    const fs::path baseline = task_.folder / baseline_folder();
    if (command_.interleave) return interleaved(baseline);
    Measured candidate = TRY(measure_all(request_.candidate_folder, true));
    if (candidate.failure) return std::move(*candidate.failure);
    const std::vector<double> base = TRY(trusted_samples(baseline, "baseline"));
    const std::vector<double> rival =
        request_.incumbent_folder.empty()
            ? base
            : TRY(trusted_samples(request_.incumbent_folder, "incumbent"));
    return compare(candidate.samples, rival, base);
  }

  std::string baseline_folder() const {
    return fs::is_directory(task_.folder / task_.task.files.baseline) ? task_.task.files.baseline
                                                                      : task_.task.files.start;
  }

  Result<std::optional<std::string>> brought_a_grader() {
    for (const fs::path& file : TRY(frozen_files(task_))) {
      const Result<std::string> own = read_file(request_.candidate_folder / file);
      if (own && *own != TRY(read_file(task_.folder / file))) {
        return std::optional<std::string>(fmt::format(
            "'{}' grades the candidate and is frozen, but it was changed", file.string()));
      }
    }
    return std::optional<std::string>();
  }

  Result<Measured> measure_all(const fs::path& folder, bool tell) {
    Bench bench(task_, request_, stop_);
    Measured measured;
    if (const Status opened = bench.open(folder); !opened) {
      if (opened.error().fault != Fault::invalid) return tl::unexpected(opened.error());
      measured.failure = failed(VerdictKind::rule_broken, opened.error().what);
      return measured;
    }
    TRY(prepare(bench, measured, tell));
    for (int64_t i = 0; i < command_.repeats && !measured.failure; ++i)
      TRY(sample(bench, measured));
    if (tell && !measured.failure)
      TRY(stage_("measure", fmt::format("{:g} {}", median(measured.samples), command_.unit),
                 measured.measure_s));
    return measured;
  }

  // Build and check.
  Status prepare(Bench& bench, Measured& measured, bool tell) {
    struct Step {
      const char* name;
      const std::vector<std::string>& argv;
      VerdictKind failure;
      double& seconds;
    };
    for (const Step& step :
         {Step{"build", command_.build, VerdictKind::build_failed, measured.build_s},
          Step{"check", command_.check, VerdictKind::wrong, measured.check_s}}) {
      if (step.argv.empty()) continue;
      const ProcessResult result = TRY(bench.step(step.argv));
      step.seconds = result.wall_s;
      const bool good = result.exit_code == 0 && !result.timed_out;
      if (tell)
        TRY(stage_(step.name, good ? "passed" : how_it_ended(result, command_.timeout_s),
                   result.wall_s));
      if (good) continue;
      const VerdictKind kind = result.timed_out ? VerdictKind::timed_out : step.failure;
      measured.failure =
          failed(kind, fmt::format("{} {}: {}", step.name, how_it_ended(result, command_.timeout_s),
                                   tail_of(result)));
      measured.failure->build_output = result.out + result.err;
      return {};
    }
    return {};
  }

  Status sample(Bench& bench, Measured& measured) {
    const ProcessResult result = TRY(bench.step(command_.measure));
    measured.measure_s += result.wall_s;
    if (result.timed_out || result.exit_code != 0) {
      const VerdictKind kind = result.timed_out ? VerdictKind::timed_out : VerdictKind::crashed;
      measured.failure = failed(
          kind,
          fmt::format("measure {}: {}", how_it_ended(result, command_.timeout_s), tail_of(result)));
      return {};
    }
    const Result<double> value = metric_in(command_, result.out);
    if (!value)
      measured.failure = failed(VerdictKind::crashed, value.error().what);
    else if (!std::isfinite(*value) || *value < 0)
      measured.failure = failed(VerdictKind::suspicious, fmt::format("the metric is {}", *value));
    else
      measured.samples.push_back(*value);
    return {};
  }

  // Baseline and incumbent are measured once and kept: their content does not change.
  Result<std::vector<double>> trusted_samples(const fs::path& folder, const char* name) {
    const std::string key = sha256_hex(task_.hash + TRY(candidate_hash(task_.task, folder)));
    const fs::path file = request_.cache_folder / "metrics" / (key + ".json");
    if (const Result<std::string> text = read_file(file, 1 << 20)) {
      const Result<Json> json = parse_json(*text);
      if (json && json->is_array() && !json->empty() && json->at(0).is_number())
        return json->get<std::vector<double>>();
    }
    const Measured measured = TRY(measure_all(folder, false));
    if (measured.failure) {
      return fail(Fault::invalid,
                  fmt::format("the {} fails ({}): {}", name, to_string(measured.failure->kind),
                              measured.failure->reasons.front()));
    }
    TRY(make_folders(file.parent_path()));
    TRY(write_file_durable(file, dump_json(Json(measured.samples))));
    return measured.samples;
  }

  // For times: candidate, incumbent and baseline in turn, so that drift hits all alike.
  Result<Verdict> interleaved(const fs::path& baseline) {
    const fs::path folders[3] = {request_.candidate_folder, request_.incumbent_folder, baseline};
    std::optional<Bench> benches[3];
    Measured measured[3];
    for (int i = 0; i < 3; ++i) {
      if (folders[i].empty()) continue;
      benches[i].emplace(task_, request_, stop_);
      const Status opened = benches[i]->open(folders[i]);
      if (!opened && (i > 0 || opened.error().fault != Fault::invalid))
        return tl::unexpected(opened.error());
      if (!opened) return failed(VerdictKind::rule_broken, opened.error().what);
      TRY(prepare(*benches[i], measured[i], i == 0));
      if (measured[i].failure) break;
    }
    for (int64_t round = 0; round < command_.repeats; ++round) {
      for (int turn = 0; turn < 3; ++turn) {
        const int i = static_cast<int>((turn + round) % 3);
        if (benches[i] && !measured[i].failure) TRY(sample(*benches[i], measured[i]));
      }
    }
    if (measured[0].failure) return std::move(*measured[0].failure);
    for (int i = 1; i < 3; ++i) {
      if (measured[i].failure)
        return fail(Fault::invalid,
                    "the incumbent or the baseline fails: " + measured[i].failure->reasons.front());
    }
    return compare(measured[0].samples, benches[1] ? measured[1].samples : measured[2].samples,
                   measured[2].samples);
  }

  // Better / worse as a ratio above 1 when the candidate is better, whatever the direction.
  Interval gain_over(const std::vector<double>& other, const std::vector<double>& own) const {
    const bool less = command_.direction == Direction::minimize;
    const double above = less ? median(other) : median(own),
                 below = less ? median(own) : median(other);
    if (below == 0) return above == 0 ? Interval{1, 1, 1} : Interval{1e9, 1e9, 1e9};
    // The same figure each time: the metric does not vary, and neither does the ratio.
    const auto constant = [](const std::vector<double>& v) {
      return std::all_of(v.begin(), v.end(), [&](double x) { return x == v.front(); });
    };
    if ((constant(other) && constant(own)) || above == 0)
      return {above / below, above / below, above / below};
    Random random(7);
    return bootstrap_ratio({{less ? PairedSamples{other, own} : PairedSamples{own, other}}}, {},
                           random);
  }

  Verdict compare(const std::vector<double>& own, const std::vector<double>& rival,
                  const std::vector<double>& base) const {
    Verdict verdict;
    verdict.metric = median(own);
    verdict.baseline_metric = median(base);
    verdict.speedup = gain_over(base, own);
    verdict.gain = gain_over(rival, own);
    const std::string figure =
        fmt::format("{:g} {} against {:g}", verdict.metric, command_.unit, median(rival));
    if (verdict.gain.low > 1 + command_.min_gain) {
      verdict.kind = VerdictKind::faster;
      verdict.confirmed = request_.effort == Effort::full;
    } else if (verdict.gain.high < 1 - command_.min_gain) {
      verdict.kind = VerdictKind::slower;
    } else {
      verdict.kind = VerdictKind::same;
    }
    verdict.reasons.push_back(figure);
    return verdict;
  }

  const LoadedTask& task_;
  const CommandSpec& command_;
  const EvaluationRequest& request_;
  const StageSink& stage_;
  std::stop_token stop_;
};

}  // namespace

Result<Verdict> judge_command(const LoadedTask& task, const EvaluationRequest& request,
                              const StageSink& stage, std::stop_token stop) {
  return CommandJudge(task, request, stage, std::move(stop)).run();
}

}  // namespace marathon
