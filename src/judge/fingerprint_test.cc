#include "judge/fingerprint.h"

#include <nlohmann/json.hpp>

#include "judge/judge_fixture.h"

namespace marathon {
namespace {

using testing::HasSubstr;

const std::string kernel = R"(
@triton.jit
def gate_kernel(g, out, T, H: tl.constexpr, BT: tl.constexpr):
    # running sums of the gate
    i_t, i_h = tl.program_id(0), tl.program_id(1)
    p = tl.make_block_ptr(g + i_h, (T,), (H,), (i_t * BT,), (BT,), (0,))
    q = tl.make_block_ptr(out + i_h, (T,), (H,), (i_t * BT,), (BT,), (0,))
    b = tl.load(p, boundary_check=(0,)).to(tl.float32)
    b = tl.cumsum(b, axis=0)
    tl.store(q, b.to(q.dtype.element_ty), boundary_check=(0,))
)";

// Other names, other comments, other blanks.
const std::string renamed = R"(
@triton.jit
def running(x, to, length, heads: tl.constexpr, size: tl.constexpr):
    """Nothing of ours."""
    chunk, head = tl.program_id(0), tl.program_id(1)
    here = tl.make_block_ptr(x + head, (length,), (heads,), (chunk * size,),
                             (size,), (0,))
    there = tl.make_block_ptr(to + head, (length,), (heads,), (chunk * size,), (size,), (0,))
    value = tl.load(here, boundary_check=(0,)).to(tl.float32)
    value = tl.cumsum(value, axis=0)
    tl.store(there, value.to(there.dtype.element_ty), boundary_check=(0,))
)";

const std::string other = R"(
@triton.jit
def norm(x, y, C, B: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, B)
    value = tl.load(x + row * C + column, mask=column < C, other=0.0)
    scale = tl.rsqrt(tl.sum(value * value, 0) / C + 1e-6)
    tl.store(y + row * C + column, value * scale, mask=column < C)
)";

FingerprintList list_of(const std::string& text) {
  FingerprintList list;
  std::vector<uint64_t> hashes = fingerprints_of({"known.py", text});
  std::sort(hashes.begin(), hashes.end());
  list.projects.push_back({"known 1.0", std::move(hashes)});
  return list;
}

TEST(Fingerprint, RenamingHidesNothing) {
  const FingerprintReport report = compare_fingerprints({{"a.py", renamed}}, list_of(kernel));
  ASSERT_EQ(report.matches.size(), 1u);
  EXPECT_GT(report.matches[0].share, 0.7);
  EXPECT_THAT(note_on(report), HasSubstr("fingerprints stand in known 1.0"));
}

TEST(Fingerprint, AnotherKernelIsAnother) {
  const FingerprintReport report = compare_fingerprints({{"a.py", other}}, list_of(kernel));
  EXPECT_LT(report.matches.empty() ? 0 : report.matches[0].share, 0.1);
  EXPECT_GT(report.compared, 10);
}

TEST(Fingerprint, NotesOnNothing) {
  EXPECT_THAT(note_on(compare_fingerprints({{"a.py", kernel}}, {})), HasSubstr("no list"));
  EXPECT_THAT(note_on(compare_fingerprints({{"a.py", "x = 1\n"}}, list_of(kernel))),
              HasSubstr("too short"));
  EXPECT_THAT(note_on(compare_fingerprints({{"a.txt", kernel}}, list_of(kernel))),
              HasSubstr("too short"));
}

TEST(Fingerprint, TheModulusIsOneForBoth) {
  FingerprintList list = list_of(kernel);
  const int64_t all = compare_fingerprints({{"a.py", renamed}}, list).compared;
  list.modulus = 4;
  const FingerprintReport few = compare_fingerprints({{"a.py", renamed}}, list);
  EXPECT_LT(few.compared, all);
  EXPECT_GT(few.compared, 0);
}

std::string list_text(const std::string& head, const std::vector<uint64_t>& hashes) {
  std::string text = head;
  for (const uint64_t hash : hashes) text.append(reinterpret_cast<const char*>(&hash), 8);
  return text;
}

TEST(Fingerprint, AListIsReadWithoutBelievingIt) {
  const std::string head = "marathon fingerprints 1\ngram 12 window 8 modulus 2\n";
  const Result<FingerprintList> list =
      read_fingerprints(list_text(head + "project 2 a b\nproject 1 c\n\n", {2, 4, 6}));
  ASSERT_TRUE(list) << list.error().what;
  EXPECT_EQ(list->modulus, 2u);
  ASSERT_EQ(list->projects.size(), 2u);
  EXPECT_EQ(list->projects[0].name, "a b");
  EXPECT_EQ(list->projects[1].hashes, std::vector<uint64_t>{6});
  EXPECT_TRUE(read_fingerprints("")->projects.empty());
  EXPECT_FALSE(read_fingerprints("something else"));
  EXPECT_FALSE(read_fingerprints(head));
  EXPECT_FALSE(read_fingerprints(list_text(head + "project 9 a\n\n", {2, 4})));
  EXPECT_FALSE(read_fingerprints(list_text(head + "project 2 a\n\n", {4, 2})));
  EXPECT_FALSE(read_fingerprints(head + "project 999999999999999999999 a\n\n"));
  EXPECT_FALSE(read_fingerprints("marathon fingerprints 1\ngram 5 window 8 modulus 2\n\n"));
}

TEST(Fingerprint, TheListThatIsBuiltIn) {
  for (const FingerprintList::Project& project : known_fingerprints().projects)
    EXPECT_GT(project.hashes.size(), 100u) << project.name;
}

// The script makes lists, this program reads them: both must see the same in a file.
TEST(Fingerprint, TheScriptFindsTheSame) {
  const fs::path root = MARATHON_SOURCE_DIR;
  std::vector<fs::path> files = {root / "tools/fingerprint.py", root / "src/judge/fingerprint.cc",
                                 root / "src/judge/rules_gpu_test.cc",
                                 root / "src/bench/cuda/judge_kernels.cu"};
  const TempFolder folder = temp_folder();
  put(folder.path() / "odd.py",
      "a = f'{x!r:>{w}}' \\\n + rb'''\n''' ; b = 1e-3j if x else .5\n'open\n");
  put(folder.path() / "odd.cu",
      "auto s = u8R\"x(\")x\"; char c = '\\'';\nint a = 1'000 \\\n + 0x1p-3; \"open\n/*");
  put(folder.path() / "kernel.py", kernel + other);
  for (const char* name : {"odd.py", "odd.cu", "kernel.py"}) files.push_back(folder.path() / name);
  const std::string grown = std::string(100, '\0') + "\x1c\x7f\xc3\xa9 g\xc3\xbcnstig = '\xff';\n";
  put(folder.path() / "bytes.py", grown + kernel);
  files.push_back(folder.path() / "bytes.py");
  for (const fs::path& file : files) {
    ProcessSpec spec;
    spec.argv = {"python3", (root / "tools/fingerprint.py").string(), "--hashes", file.string()};
    spec.environment = clean_environment(folder.path());
    spec.keep_bytes = 1 << 20;
    const Result<ProcessResult> ran = run_process(spec);
    if (!ran) GTEST_SKIP() << "no python3 here";
    ASSERT_EQ(ran->exit_code, 0) << ran->err;
    std::string own;
    for (const uint64_t hash : fingerprints_of({file.filename(), text_of(file)}))
      own += fmt::format("{:016x}\n", hash);
    EXPECT_EQ(own, ran->out) << file;
    if (file.parent_path() != folder.path()) {
      EXPECT_GT(own.size(), 1000u) << file;
    }
  }
}

}  // namespace
}  // namespace marathon
