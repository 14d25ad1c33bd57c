// Every way in which a task file can be wrong, where that is reported and in which words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/task_fixture.h"

namespace marathon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// One change to a sound task, and where the error must stand and what it must say.
struct Case {
  std::string from, to, expected;
};

void expect_in_kernel(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    EXPECT_THAT(kernel_with(one.from, one.to), HasSubstr(one.expected))
        << one.from << " -> " << one.to;
  }
}

TEST(TaskErrors, Heading) {
  expect_in_kernel({
      {"schema = 1", "schema = 2", "task.toml:1:10: error: schema 2 is not known"},
      {"schema = 1\n", "", "task.toml:1:1: error: the task lacks 'schema'; write schema = 1"},
      {"schema = 1", "schema = \"1\"", ":1:10: error: 'schema' in the task must be a whole number"},
      {"name = \"kda-cpu\"", "name = \"KDA cpu\"", ":2:8: error: the name 'KDA cpu' must consist"},
      {"name = \"kda-cpu\"", "name = \"../x\"", ":2:8: error: the name '../x' must consist"},
      {"kind = \"kernel\"", "kind = \"kernal\"", "unknown kind 'kernal'; did you mean 'kernel'?"},
      {"speedup = 3.0", "speedup = 0.9", ":9:11: error: a speed-up of 0.9 is a loss"},
      {"speedup = 3.0", "speedup = nan", ":9:11: error: 'speedup' in [target] is nan"},
      {"speedup = 3.0", "speedup = inf", ":9:11: error: 'speedup' in [target] is inf"},
      {"speedup = 3.0", "speedup = -inf", ":9:11: error: 'speedup' in [target] is -inf"},
      {"[target]\n", "[command]\n[target]\n",
       ":8:1: error: [command] belongs to kind = \"command\""},
  });
}

TEST(TaskErrors, Syntax) {
  expect_in_kernel({
      {"speedup = 3.0", "speedup = 3.0.0", "task.toml:9:14: error: not valid TOML: "},
      {"speedup = 3.0", "speedup = 3.0\nspeedup = 4.0", "task.toml:10:"},
      {"schema = 1", "schema = \xff", "task.toml:1:9: error: not valid TOML"},
      {"title = \"KDA forward on one CPU core\"", "title = \"\u00e9\"; x", "task.toml:3:12:"},
      {"[budget]\nevaluations = 60", "[[budget]]\nevaluations = 60",
       "'budget' in the task must be a table, but is a list"},
      {"[[tensor]]\nname = \"q\"", "[tensor]\nname = \"q\"", "error: not valid TOML"},
  });
}

TEST(TaskErrors, Files) {
  expect_in_kernel({
      {"start = \"start\"", "start = \"../start\"",
       ":13:9: error: the path '../start' ('start' in [files]) must be relative"},
      {"oracle = \"oracle.cc\"", "oracle = \"/etc/passwd\"", "must be relative"},
      {"oracle = \"oracle.cc\"", "oracle = \"a//b\"", "written without"},
      {"oracle = \"oracle.cc\"", "oracle = \"./b\"", "written without"},
      {"oracle = \"oracle.cc\"", "oracle = \"a/./b\"", "written without"},
      {"oracle = \"oracle.cc\"", "oracle = \"b/\"", "written without"},
      {"oracle = \"oracle.cc\"", "oracle = \"\"", "is empty"},
      {"oracle = \"oracle.cc\"", "oracle = \"o*.cc\"", "must name one file"},
      {"oracle = \"oracle.cc\"", "oracle = \"o\\u001b[31m.cc\"", "'o\\x1b[31m.cc'"},
      {"\"solution.cc\", \"params", "\"src*/a.cc\", \"params",
       "may have '*' only in its last part"},
      {"frozen = [\"kda.h\"]", "frozen = [\"kda.h\", \"solution.*\"]",
       ":15:10: error: 'solution.*' is frozen, but 'solution.cc' makes it editable"},
      {"frozen = [\"kda.h\"]", "frozen = [\"kda.h\", \"kda.h\"]",
       ":15:20: error: 'kda.h' stands twice"},
      {"frozen = [\"kda.h\"]", "frozen = [\"oracle.*\"]",
       ":15:10: error: 'frozen' names the oracle 'oracle.cc'"},
      {"frozen = [\"kda.h\"]", "frozen = [\"kda.h\", 3]",
       ":15:20: error: 'frozen' in [files] must hold strings"},
      {"editable = [\"solution.cc\", \"params.toml\"]", "editable = []", "no file is editable"},
      {"\"params.toml\"]", "\"p.toml\"]", "add \"params.toml\" to 'editable'"},
  });
}

TEST(TaskErrors, BuildRulesMeasureBudgetProfile) {
  expect_in_kernel({
      {"sources = [\"solution.cc\"]", "sources = [\"other.cc\"]",
       ":21:11: error: the source 'other.cc' is neither editable nor frozen"},
      {"sources = [\"solution.cc\"]", "sources = \"solution.cc\"",
       ":21:11: error: 'sources' in [build] must be a list, but is a string"},
      {"\"-O3\"", "\"\"", ":22:24: error: 'flags' in [build] has an empty entry"},
      {"timeout_s = 100", "timeout_s = 0",
       ":23:13: error: 'timeout_s' in [build] is 0; it must be more than 0"},
      {"timeout_s = 100", "timeout_s = 1e9", "it must be more than 0 and at most 86400"},
      {"threads = 1", "threads = 0", "'threads' in [rules] is 0; it must be between 1 and 1024"},
      {R"("\\bsystem\\s*\\(")", R"("(")", ":94:19: error: '(' is not a regular expression"},
      {R"("\\bsystem\\s*\\(")", R"("")", "the regular expression is empty"},
      {R"("\\bsystem\\s*\\(")", "\"" + std::string(40, '(') + std::string(40, ')') + "\"",
       "nested deeper than 30 brackets"},
      {R"("\\bsystem\\s*\\(")", "\"" + std::string(2000, 'a') + "\"", "longer than 1000 bytes"},
      {"libgomp.so.1", "/lib/libgomp.so.1", "'/lib/libgomp.so.1' is a path"},
      {"cache = \"cold\"", "cache = \"cool\"", "unknown cache 'cool'; did you mean 'cold'?"},
      {"restarts = 5", "restarts = 5.5",
       "'restarts' in [measure] must be a whole number, but is a number with a fraction"},
      {"evaluations = 60", "evaluations = -1", "'evaluations' in [budget] is -1"},
      {"hours = 1.5", "hours = -0.5", "'hours' in [budget] is -0.5"},
      {"shape = \"T512\"", "shape = \"odd\"", "no listed shape is named 'odd'; there is only T512"},
  });
}

TEST(TaskErrors, DimsAndTensors) {
  expect_in_kernel({
      {R"(["B", "T", "K"])", R"(["B", "T", "K", "T"])",
       ":27:25: error: the dim name 'T' stands twice"},
      {R"(["B", "T", "K"])", R"(["B", "T", "K", "min"])",
       ":27:25: error: the dim name 'min' is a function"},
      {R"(["B", "T", "K"])", R"(["B", "T", "K", "2x"])",
       ":27:25: error: the dim name '2x' must be letters"},
      {"name = \"g\"", "name = \"q\"", ":38:8: error: the tensor name 'q' stands twice"},
      {"\"T + 1\"", "\"T + \"",
       ":33:20: error: in the expression 'T + ': column 5: expected a number"},
      {"\"T + 1\"", "\"T + * 1\"", ":33:20: error: in the expression"},
      {"\"T + 1\"", "\"\\u0054 + \"", ":33:15: error: in the expression"},
      {"\"T + 1\"", "\"N + 1\"", ":33:15: error: no dim is named 'N' (in 'N + 1')"},
      {"\"T + 1\"", "true",
       ":33:15: error: expected an expression in quotes, but this is true or false"},
      {"dtype = \"fp32\"", "dtype = \"float\"", ":32:9: error: unknown dtype 'float'"},
      {"std = 2.0", "std = -1", "'std' in the distribution of 'q' is -1; it must be between 0"},
      {"std = 2.0", "std = inf", "'std' in the distribution of 'q' is inf"},
      {"normalize_last_axis = 1.0", "normalize_last_axis = 0", "is 0; it must be more than 0"},
      {"dtype = \"bf16\"", "dtype = \"bf16\"\nnormalize_last_axis = 1.0",
       "an output is not normalised"},
      {"dtype = \"bf16\"", "dtype = \"bf16\"\ndistribution = { kind = \"normal\" }",
       "an output has no distribution"},
      {"role = \"output\"", "role = \"input\"", "no tensor is an output; nothing could be checked"},
  });
}

TEST(TaskErrors, Distributions) {
  const std::string whole = "kind = \"integers\", low = 0, high = 9";
  const std::string normal = "kind = \"normal\", mean = 0.0, std = 2.0";
  expect_in_kernel({
      {whole, "kind = \"integers\", low = 9, high = 0", "low 9 is above high 0; swap"},
      {whole, "kind = \"integers\", low = 0.5, high = 9", "must be whole numbers"},
      {whole, "kind = \"integers\", low = 0", "lacks 'high'"},
      {whole, "kind = \"normal\"", "int64 needs whole numbers"},
      {whole, "kind = \"constant\", value = 1e17", "do not fit into int64"},
      {whole, "kind = \"integers\", low = 0, high = 9, mean = 3", "unknown key 'mean'"},
      {"distribution = { " + whole + " }\n", "", "lacks 'distribution'; whole numbers need one"},
      {normal, "kind = \"log_uniform\", low = 0, high = 1",
       "'low' in the distribution of 'q' is 0"},
      {normal, "kind = \"neg_log_uniform\", low = -1, high = 1",
       "'low' in the distribution of 'q' is -1"},
      {normal, "kind = \"uniform\", low = 1, high = 1", "use { kind = \"constant\", value = 1 }"},
      {normal, "kind = \"nromal\"", ":34:25: error: unknown kind 'nromal'; did you mean 'normal'?"},
      {normal, "kind = \"constant\", value = 1e39", "do not fit into fp32"},
      {"distribution = { " + normal + " }", "distribution = \"normal\"",
       ":34:16: error: the distribution of 'q' must be a table"},
  });
}

TEST(TaskErrors, Shapes) {
  expect_in_kernel({
      {"name = \"odd\"", "name = \"T512\"", ":58:8: error: the shape name 'T512' stands twice"},
      {"name = \"odd\"", "name = \"odd one\"", ":58:8: error: the shape name 'odd one' must have"},
      {"set = \"listed\"", "set = \"stress\"", "no shape is listed; nothing would be timed"},
      {"set = \"hidden\"", "set = \"secret\"", ":59:7: error: unknown set 'secret'"},
      {"T = 77", "T = -1",
       ":60:8: error: axis 'T' of tensor 'o' is -1 at shape 'odd'; it must not be negative"},
      {"T = 512", "T = 0", "tensor 'o' is empty at the listed shape 'T512'"},
      {"T = 512", "T = 1000000000", ":53:8: error: tensor 'q' has 64000000064 elements of fp32"},
      {"B = 1, T = 512", "B = 1099511627776, T = 1099511627776", "has more than 2^63 elements"},
      {"T = 512", "T = 9007199254740993",
       ":53:21: error: 'T' in the dims of [[shape]] 'T512' is 9007199254740993"},
      {"B = 2, T = 77,", "B = 2,", ":60:8: error: the dims of [[shape]] 'odd' lacks 'T'"},
      {"weight = 2.0", "weight = 0", ":54:10: error: 'weight' in [[shape]] 'T512' is 0"},
      {"weight = 2.0", "weight = nan", ":54:10: error: 'weight' in [[shape]] 'T512' is nan"},
      {"set = \"hidden\"", "set = \"hidden\"\nweight = 2",
       ":60:10: error: only listed shapes are timed"},
      {"{ q = { kind", "{ o = { kind", ":55:19: error: no input is named 'o'"},
      {"{ q = { kind = \"constant\", value = -5.0 } }", "{ q = 3 }",
       ":55:23: error: the distribution of 'q' must be a table"},
      {"dims = { B = 2, T = 77, K = 64 }",
       "dims = { K = 64, T = 512, B = 1 }\n"
       "distributions = { q = { kind = \"constant\", value = -5 } }",
       ":57:1: error: shape 'odd' repeats 'T512'"},
  });
  // An empty sequence is a stress test, not a mistake.
  EXPECT_EQ(kernel_with("T = 77", "T = 0"), "");
}

TEST(TaskErrors, ToleranceAndFloor) {
  expect_in_kernel({
      {"factor = 1.5", "factor = 0.5", ":63:10: error: 'factor' in [tolerance] is 0.5"},
      {"minimum = 1e-7", "minimum = 1e-2", ":64:11: error: minimum 0.01 is above the cap 0.0001"},
      {"cap = { o = 1e-4 }", "cap = { oo = 1e-4 }",
       "unknown key 'oo' in 'cap' in [tolerance]; did you mean 'o'?"},
      {"cap = { o = 1e-4 }", "cap = 1", ":65:7: error: 'cap' in [tolerance] is 1"},
      {"cap = { o = 1e-4 }", "cap = nan", ":65:7: error: 'cap' in [tolerance] is nan"},
      {"flops = \"B*T*7*K\"", "flops = \"B*T*7*Z\"", ":69:9: error: no dim is named 'Z'"},
      {"flops = \"B*T*7*K\"", "flops = \"B - T\"",
       ":69:9: error: 'flops' in [floor] is -511 at shape 'T512'"},
      {"flops = \"B*T*7*K\"", "flops = \"T / (B - 1)\"",
       ":69:9: error: 'flops' in [floor] at shape 'T512': 'T / (B - 1)' divides by zero"},
  });
}

TEST(TaskErrors, Parameters) {
  expect_in_kernel({
      {"name = \"FORM\"", "name = \"CHUNK\"",
       ":79:8: error: the parameter name 'CHUNK' stands twice"},
      {"name = \"FORM\"", "name = \"int\"", "'int' cannot be a parameter"},
      {"name = \"FORM\"", "name = \"MARATHON_REAL\"", "'MARATHON_REAL' cannot be a parameter"},
      {"name = \"FORM\"", "name = \"F-1\"",
       ":79:8: error: the parameter name 'F-1' must be letters"},
      {"values = [8, 16, 32]", "values = []", ":74:10: error: 'values' is empty"},
      {"values = [8, 16, 32]", "values = [8, 16, 16]", ":74:18: error: the value 16 stands twice"},
      {"values = [8, 16, 32]", "values = [8, 16.0]",
       ":74:14: error: 'values' in [[parameter]] 'CHUNK' must hold whole"},
      {"values = [8, 16, 32]\n", "", ":72:1: error: [[parameter]] 'CHUNK' needs either 'values'"},
      {"values = [8, 16, 32]", "values = [8, 16, 32]\nflags = [\"\"]", "needs either 'values'"},
      {"start = 16", "start = 17", ":75:9: error: start 17 is not one of the values of 'CHUNK'"},
      {"start = 16\n", "", ":72:1: error: [[parameter]] 'CHUNK' lacks 'start'"},
      {"start = 0", "start = 3", "start 3 is not the index of a flag; it must be between 0 and 2"},
      {"\"-ffast-math\"", "\"\"", "error: '' stands twice"},
  });
}

TEST(TaskErrors, Constraints) {
  const std::string constraint = "FORM == 1 || CHUNK == 16";
  expect_in_kernel({
      {constraint, "FROM == 1 || CHUNK == 16",
       ":90:16: error: no parameter is named 'FROM' (in 'FROM == 1 || CHUNK == 16'); did you mean "
       "'FORM'?"},
      {constraint, "FORM == 1 | CHUNK == 16", ":90:27: error: in the expression"},
      {constraint, "FORM == 0",
       ":90:16: error: the start configuration (FORM = 1) does not meet 'FORM == 0'"},
      {constraint, "CHUNK > 99",
       ":90:16: error: no configuration meets all constraints (3 were tried)"},
      {constraint, "CHUNK / FORM > 0",
       ":90:16: error: 'CHUNK / FORM > 0' divides by zero or overflows for CHUNK = 8, FORM = 0"},
      {constraint, "1 == 1", ":90:16: error: the constraint '1 == 1' names no parameter"},
      {constraint, "CHUNK > 8", ":74:11: warning: no valid configuration has CHUNK = 8"},
  });
  EXPECT_EQ(kernel_with("\"" + constraint + "\"",
                        "\"FORM == 0 || FORM == 1\", \"FORM == 0 || CHUNK / FORM > 0\""),
            "");
  EXPECT_EQ(kernel_with("\"" + constraint + "\"", "\"FORM != 0\", \"CHUNK / FORM > 0\"")
                .find("divides by zero"),
            std::string::npos)
      << "the first constraint guards the second";
}

// 40 parameters of 30 values: nobody walks 30^40 configurations.
TEST(TaskErrors, ASpaceTooLargeToWalkIsSampled) {
  std::string parameters, sum = "0";
  for (int i = 0; i < 40; ++i) {
    const std::string name = "P" + std::to_string(i);
    parameters +=
        "[[parameter]]\nname = \"" + name + "\"\nvalues = [0,1,2,3,4,5,6,7,8,9]\nstart = 0\n";
    sum += " + " + name;
  }
  const std::string from = "[search]\nconstraints = [\"FORM == 1 || CHUNK == 16\"]";
  const auto with = [&](const std::string& constraint) {
    return kernel_with(from, parameters + "[search]\nconstraints = [\"" + constraint + "\"]");
  };
  EXPECT_EQ(with(sum + " < 10000"), "");
  EXPECT_THAT(with(sum + " > 10000"), HasSubstr("random configurations meets all constraints"));
  EXPECT_THAT(with(sum + " > 10000"), HasSubstr("does not meet"));
}

TEST(TaskErrors, CommandTasks) {
  const std::vector<Case> cases = {
      {"metric = { regex = 'total: (\\d+)' }\n", "",
       ":7:1: error: [command] lacks 'metric'; write metric ="},
      {"'total: (\\d+)'", "'total: \\d+'", "error: the regular expression has 0 groups"},
      {"'total: (\\d+)'", "'(a)(b)'", "error: the regular expression has 2 groups"},
      {"'total: (\\d+)'", "'(['", "is not a regular expression"},
      {"regex = 'total: (\\d+)'", "json = \"bytes\"", "error: 'bytes' is not a JSON pointer"},
      {"regex = 'total: (\\d+)'", "json = \"/a~2\"", "is not a JSON pointer"},
      {"regex = 'total: (\\d+)'", "json = \"/a\", regex = '(a)'", "exactly one of regex and json"},
      {"regex = 'total: (\\d+)'", "", "exactly one of regex and json"},
      {"measure = [\"./measure.sh\"]", "measure = []",
       ":10:11: error: 'measure' in [command] is empty"},
      {"measure = [\"./measure.sh\"]\n", "", "[command] lacks 'measure'"},
      {"direction = \"minimize\"", "direction = \"minimise\"", "did you mean 'minimize'?"},
      {"repeats = 3", "repeats = 0", "'repeats' in [command] is 0"},
      {"min_gain = 0.01", "min_gain = -1", "'min_gain' in [command] is -1"},
      {"[files]\n", "[files]\noracle = \"o.cc\"\n", ":5:10: error: a command task has no oracle"},
      {"[files]\n", "[build]\nsources = []\n[files]\n",
       ":4:1: error: 'build' belongs to kind = \"kernel\""},
      {"\"check.sh\"", "\"src/a.js\"", "'src/a.js' is frozen, but 'src/*.js' makes it editable"},
  };
  for (const Case& one : cases) {
    EXPECT_THAT(command_with(one.from, one.to), HasSubstr(one.expected))
        << one.from << " -> " << one.to;
  }
}

TEST(TaskErrors, EditableOverlapsAreJudgedAsPatterns) {
  EXPECT_THAT(command_with("\"check.sh\"", "\"src/main.*\""), HasSubstr("'src/main.*' is frozen"));
  EXPECT_EQ(command_with("\"check.sh\"", "\"src/deep/a.js\""), "");
  EXPECT_EQ(command_with("\"check.sh\"", "\"src/*.css\""), "");
  EXPECT_EQ(command_with("\"check.sh\"", "\"*.js\""), "");
}

TEST(TaskErrors, AnEmptyFileIsToldAllThatItLacks) {
  const std::string problems = all_problems("");
  for (const char* key : {"'schema'", "'name'", "'kind'", "'language'", "'files'", "'build'",
                          "'tensor'", "'shape'"}) {
    EXPECT_THAT(problems, HasSubstr(std::string("task.toml:1:1: error: the task lacks ") + key));
  }
}

TEST(TaskErrors, AreCutOffAfterTwoHundred) {
  std::string text = "schema = 1\n";
  for (int i = 0; i < 5000; ++i) text += "unknown" + std::to_string(i) + " = 1\n";
  const ParsedTask parsed = parse_task(text, "task.toml");
  EXPECT_FALSE(parsed.ok());
  ASSERT_EQ(parsed.diagnostics.size(), 201u);
  EXPECT_THAT(parsed.diagnostics.back().message, HasSubstr("more problems are not shown"));
}

std::string repeated(std::string_view piece, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += piece;
  return text;
}

// Found by fuzzing: toml++ 3.3 ended the process.
TEST(TaskErrors, ThatOnceEndedTheProcess) {
  EXPECT_THAT(all_problems("[\x1c[tensor]]"), HasSubstr("task.toml:1:2: error: not valid TOML"));
  EXPECT_THAT(all_problems("a = { b = \u03dd9 }"),
              HasSubstr("task.toml:1:11: error: not valid TOML"));
}

// toml++ 3.3 builds the first two and dies when it destroys them.
TEST(TaskErrors, DepthAndSizeAreBounded) {
  EXPECT_THAT(all_problems(repeated("a.", 100000) + "a = 1"),
              HasSubstr("more than 16 dotted parts"));
  EXPECT_THAT(all_problems("[" + repeated("a.", 100000) + "a]"),
              HasSubstr("more than 16 dotted parts"));
  EXPECT_THAT(all_problems("x = " + repeated("[", 100000)),
              StartsWith("task.toml:1:37: error: brackets are nested deeper than 32 levels"));
  EXPECT_THAT(all_problems("x = " + repeated("{a=", 100000)),
              HasSubstr("nested deeper than 32 levels"));
  EXPECT_THAT(all_problems(std::string(2 << 20, '#')), HasSubstr("larger than 1 MiB"));
}

TEST(TaskErrors, TextAndCommentsMayHoldDotsAndBrackets) {
  const std::string many = repeated(".", 1000) + repeated("[", 1000);
  const std::string problems = all_problems("description = '''\nit's " + many + "''' # it's '" +
                                            many + "\ntitle = \"\\\"" + many + "\"");
  EXPECT_THAT(problems, Not(HasSubstr("dotted parts")));
  EXPECT_THAT(problems, Not(HasSubstr("nested")));
}

double seconds_of(const std::string& text) {
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  EXPECT_FALSE(parse_task(text, "task.toml").ok());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Each takes well under a second; a parser that is quadratic anywhere needs minutes.
TEST(TaskErrors, HugeInputsTakeLinearTime) {
  const double limit_s = 10;
  std::string keys;
  for (int i = 0; i < 80000; ++i) keys += "k" + std::to_string(i) + "=1\n";
  EXPECT_LT(seconds_of(keys), limit_s);
  EXPECT_LT(seconds_of(repeated("[[tensor]]\n", 90000)), limit_s);
  EXPECT_LT(seconds_of("[search]\nconstraints = [" + repeated("\"+\",", 200000) + "]"), limit_s);
  EXPECT_LT(seconds_of(std::string(900000, 'k') + " = 1"), limit_s);
  EXPECT_LT(seconds_of("description = \"" + std::string(1000000, '\\')), limit_s);
  EXPECT_LT(seconds_of("[dims]\nnames = [" + repeated("\"a\",", 200000) + "]"), limit_s);
  EXPECT_LT(seconds_of(repeated("\"\"\"", 300000)), limit_s);
}

}  // namespace
}  // namespace marathon
