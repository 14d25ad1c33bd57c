#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>

#include "app/app.h"

namespace marathon {

namespace {

constexpr const char* about =
    "Marathon improves a program against a measured target and can be believed afterwards.\n\n"
    "  marathon run tasks/kda-cpu              start a run; resume it with: marathon resume "
    "--last\n"
    "  marathon status --last                  where it stands\n"
    "  marathon report --last                  what came out, as one HTML file\n"
    "  marathon doctor                         what this machine lacks\n";

// The library's own check of ranges lets NaN pass, wraps negative numbers and clamps large ones.
bool is_whole_number(const std::string& text, size_t most_digits) {
  return !text.empty() && text.size() <= most_digits &&
         text.find_first_not_of("0123456789") == text.npos;
}

const CLI::Validator positive_count(
    [](const std::string& text) {
      const bool fits = is_whole_number(text, 12) && text.find_first_not_of('0') != text.npos;
      return fits ? std::string() : "'" + text + "' is no whole number from 1 to 999999999999";
    },
    "");
const CLI::Validator positive_hours(
    [](const std::string& text) {
      char* end = nullptr;
      const double value = std::strtod(text.c_str(), &end);
      const bool whole = !text.empty() && *end == '\0' && std::isfinite(value) && value > 0;
      return whole ? std::string() : "'" + text + "' is no number of hours above 0";
    },
    "");
const CLI::Validator seed_number(
    [](const std::string& text) {
      return is_whole_number(text, 18) ? std::string()
                                       : "'" + text + "' is no whole number of up to 18 digits";
    },
    "");

class Builder {
 public:
  Builder(CLI::App& app, CommandLine& line) : app_(app), line_(line) {}

  CLI::App* command(const std::string& name, const std::string& help) {
    CLI::App* sub = app_.add_subcommand(name, help);
    sub->callback([this, name] { line_.command = name; });
    return sub;
  }
  void task(CLI::App* sub) {
    sub->add_option("TASK", line_.task, "folder that holds task.toml")->required();
  }
  void run(CLI::App* sub) {
    sub->add_option("RUN", line_.run, "a run's name or a unique beginning of it");
    sub->add_flag("--last", line_.last, "the run that was written last");
  }
  void json(CLI::App* sub) {
    sub->add_flag("--json", line_.json, "one JSON object on standard output and nothing else");
  }
  void sandbox(CLI::App* sub) {
    sub->add_flag("--unsafe-no-sandbox", line_.unsafe_no_sandbox,
                  "run candidates without a jail where the kernel cannot give one");
  }
  void budget(CLI::App* sub) {
    sub->add_option("--evaluations", line_.evaluations, "at most so many candidates judged")
        ->check(positive_count);
    sub->add_option("--tool-calls", line_.tool_calls, "at most so many tool calls")
        ->check(positive_count);
    sub->add_option("--hours", line_.hours, "at most so many hours of active time")
        ->check(positive_hours);
  }

 private:
  CLI::App& app_;
  CommandLine& line_;
};

void add_run_commands(Builder& add, CommandLine& line) {
  CLI::App* run = add.command("run", "start a run and drive it to its end");
  add.task(run);
  run->add_option("--agent", line.agent, "search, or scripted:FILE (default: search)");
  run->add_option("--seed", line.seed, "of the search (default: 1)")->check(seed_number);
  run->add_option("--name", line.name, "the run's name (default: task, date, number)");
  run->add_flag("--no-report", line.no_report, "write no report at the end");
  add.budget(run);
  add.sandbox(run);
  add.json(run);

  CLI::App* resume = add.command("resume", "go on with a run that was stopped or killed");
  add.run(resume);
  add.budget(resume);
  resume->add_flag("--no-report", line.no_report, "write no report at the end");
  add.sandbox(resume);
  add.json(resume);

  CLI::App* attempt = add.command("attempt", "judge a candidate of your own and log it in a run");
  add.run(attempt);
  CLI::Option* from = attempt->add_option("--from", line.from, "folder with the changed files")
                          ->check(CLI::ExistingDirectory);
  attempt
      ->add_option("--from-result", line.from_result,
                   "verdicts that `judge --request` brought back from another machine")
      ->check(CLI::ExistingFile)
      ->excludes(from);
  attempt->add_option("--note", line.note, "the hypothesis: what should get better and why");
  attempt->add_option("--category", line.category,
                      "algorithm, tiling, memory, compiler … (default: person)");
  add.sandbox(attempt);
  add.json(attempt);
}

void add_judge_commands(Builder& add, CLI::App& app, CommandLine& line) {
  CLI::App* judge = add.command("judge", "judge one candidate without a run");
  judge->add_option("TASK", line.task, "folder that holds task.toml");
  judge->add_option("--candidate", line.candidate,
                    "folder with the editable files (default: the task's start)");
  judge->add_option("CANDIDATE", line.candidates,
                    "the same without --candidate; several with --pack");
  judge
      ->add_option("--incumbent", line.incumbent, "folder of the best so far: what is to be beaten")
      ->check(CLI::ExistingDirectory);
  judge->add_option("--pack", line.pack,
                    "judge nothing: put task and candidates into this new folder, for a machine "
                    "that has the GPU");
  judge->add_option("--note", line.notes, "hypothesis of each CANDIDATE in turn, or one for all")
      ->allow_extra_args(false);
  judge
      ->add_option("--category", line.categories,
                   "algorithm, tiling, memory … of each CANDIDATE in turn, or one for all")
      ->allow_extra_args(false);
  judge->add_option("--request", line.request, "a folder of --pack, or a request file, not TASK")
      ->check(CLI::ExistingPath);
  judge->add_option("--result", line.result,
                    "where the verdicts of --request go; what it has already is not judged again");
  judge->add_option("--seed", line.input_seed, "of the inputs (default: a secret one)")
      ->check(seed_number);
  judge->add_flag("--quick", line.quick,
                  "one listed shape, few restarts: for exploring, never promotes");
  add.sandbox(judge);
  add.json(judge);

  CLI::App* task = app.add_subcommand("task", "work on a task's definition");
  task->require_subcommand(1);
  CLI::App* check =
      task->add_subcommand("check", "lint task.toml and test the task's own checker with mutants");
  check->callback([&line] { line.command = "task check"; });
  add.task(check);
  add.sandbox(check);
  add.json(check);

  CLI::App* doctor = add.command("doctor", "what this machine can do and what to install");
  add.json(doctor);
}

void add_view_commands(Builder& add, CommandLine& line) {
  CLI::App* runs = add.command("runs", "list the runs");
  add.json(runs);
  CLI::App* status = add.command("status", "where a run stands");
  add.run(status);
  add.json(status);
  CLI::App* log = add.command("log", "the events of a run");
  add.run(log);
  log->add_flag("--follow", line.follow, "wait for more until the run ends");
  log->add_flag("--json", line.json, "one JSON object a line");
  CLI::App* best = add.command("best", "the best candidate's files");
  add.run(best);
  best->add_option("--out", line.out,
                   "empty or new folder to write them to (default: print what it is)");
  add.json(best);
  CLI::App* report = add.command("report", "write the report (HTML and Markdown)");
  add.run(report);
  report->add_option("--out", line.out,
                     "file ending in .html or .md (default: both, in the run's folder)");
  CLI::App* exported = add.command("export", "the whole log as JSON lines on standard output");
  add.run(exported);
  exported->add_flag("--redacted", line.redacted,
                     "without prompts, texts of turns, host names and secrets; hypotheses stay");
  CLI::App* verify = add.command("verify", "prove that nothing was cut out of a log or changed");
  add.run(verify);
  add.json(verify);
  CLI::App* prune = add.command("prune", "delete artifacts that nothing of note needs");
  add.run(prune);
  prune->add_flag("--dry-run", line.dry_run, "only say what would go");
  add.json(prune);
}

bool needs_run(const std::string& command) {
  static const std::vector<std::string> commands = {"resume", "attempt", "status", "log",  "best",
                                                    "report", "export",  "verify", "prune"};
  return std::find(commands.begin(), commands.end(), command) != commands.end();
}

void check_judge(const CommandLine& line) {
  if (line.task.empty() == line.request.empty())
    throw CLI::RequiredError("either TASK or --request DIR --result FILE");
  if (!line.request.empty() && line.result.empty()) throw CLI::RequiredError("--result FILE");
  const size_t count = line.candidates.size();
  if (!line.pack.empty()) {
    if (!line.request.empty() || count == 0 || !line.candidate.empty())
      throw CLI::RequiredError("--pack DIR goes with TASK CANDIDATE …: at least one CANDIDATE");
    for (const std::vector<std::string>* texts : {&line.notes, &line.categories}) {
      if (texts->size() > 1 && texts->size() != count)
        throw CLI::ValidationError("give one --note (and --category) for all, or one a CANDIDATE");
    }
    return;
  }
  if (count + (line.candidate.empty() ? 0 : 1) > 1)
    throw CLI::ValidationError("one CANDIDATE at a time, or several with --pack DIR");
  if (!line.notes.empty() || !line.categories.empty())
    throw CLI::ValidationError("--note and --category go with --pack DIR");
  if (!line.request.empty() && !line.incumbent.empty())
    throw CLI::ValidationError("the request names the incumbent: give --incumbent with --pack DIR");
}

void check_attempt(const CommandLine& line) {
  if (line.from.empty() == line.from_result.empty())
    throw CLI::RequiredError("either --from DIR --note TEXT or --from-result FILE");
  if (!line.from.empty() && line.note.empty()) throw CLI::RequiredError("--note TEXT");
}

}  // namespace

CommandLine parse_command_line(int argc, char** argv) {
  CommandLine line;
  CLI::App app{about, "marathon"};
  app.set_version_flag("--version", "marathon " MARATHON_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(28);
  Builder add(app, line);
  add_run_commands(add, line);
  add_judge_commands(add, app, line);
  add_view_commands(add, line);
  try {
    app.parse(argc, argv);
    if (!line.run.empty() && line.last)
      throw CLI::ValidationError("give RUN or --last, not both: which run is meant?");
    if (needs_run(line.command) && line.run.empty() && !line.last) {
      throw CLI::RequiredError("RUN (or --last; `marathon runs` lists them)");
    }
    if (line.command == "judge") check_judge(line);
    if (line.command == "attempt") check_attempt(line);
    if (line.last) line.run = "--last";
  } catch (const CLI::ParseError& error) {
    line.exit = app.exit(error) == 0 ? exit_ok : exit_usage;
  }
  return line;
}

}  // namespace marathon
