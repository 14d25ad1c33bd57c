#include "judge/profile_gpu.h"

#include "judge/gpu_tool_fixture.h"
#include "judge/pipeline.h"

namespace marathon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// As ncu 2025 prints it: what it says of itself, the names, their units, a line a launch.
std::string report(const std::vector<std::array<std::string, 3>>& columns,
                   const std::vector<std::string>& kernels = {"scale(float *, float *, long)"}) {
  std::string names = R"x("ID","Process ID","Process Name","Host Name","Kernel Name","Context",)x"
                      R"x("Stream","Block Size","Grid Size","Device","CC")x",
              units = R"x("","","","","","","","","","","")x";
  for (const auto& [name, unit, value] : columns) {
    names += ",\"" + name + "\"";
    units += ",\"" + unit + "\"";
  }
  std::string text =
      "==PROF== Connected to process 77 (/opt/marathon-worker)\n"
      "==PROF== Profiling \"scale\" - 0: 0%....50%....100% - 9 passes\n"
      "==PROF== Disconnected from process 77\n" +
      names + "\n" + units + "\n";
  int64_t id = 0;
  for (const std::string& kernel : kernels) {
    text += fmt::format(R"x("{}","77","marathon-worker","127.0.0.1","{}","1","13",)x"
                        R"x("(256, 1, 1)","(66, 2, 1)","0","9.0")x",
                        id++, kernel);
    for (const auto& [name, unit, value] : columns) text += ",\"" + value + "\"";
    text += "\n";
  }
  return text;
}

using Columns = std::vector<std::array<std::string, 3>>;

Columns memory_bound() {
  return {
      {"dram__bytes_read.sum", "byte", "1,600,000,000"},
      {"dram__bytes_write.sum", "byte", "400000000"},
      {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%", "88.4"},
      {"gpu__time_duration.sum", "ns", "500,000"},
      {"launch__occupancy_limit_blocks", "block", "32"},
      {"launch__occupancy_limit_registers", "block", "8"},
      {"launch__occupancy_limit_shared_mem", "block", "2"},
      {"launch__occupancy_limit_warps", "block", "8"},
      {"launch__registers_per_thread", "register/thread", "32"},
      {"launch__shared_mem_per_block_dynamic", "byte/block", "98304"},
      {"launch__shared_mem_per_block_static", "byte/block", "1024"},
      {"launch__waves_per_multiprocessor", "", "0.50"},
      {"lts__t_sector_hit_rate.pct", "%", "31.6"},
      {"lts__t_bytes.sum", "byte", "2500000000"},
      {"lts__throughput.avg.pct_of_peak_sustained_elapsed", "%", "45"},
      {"sm__maximum_warps_per_active_cycle_pct", "%", "25"},
      {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "%", "n/a"},
      {"sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "21"},
      {"sm__warps_active.avg.pct_of_peak_sustained_active", "%", "24.1"},
      {"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", "inst", "30"},
      {"smsp__average_warps_issue_stalled_long_scoreboard_not_issued_per_issue_active.ratio",
       "inst", "29"},
      {"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", "inst", "10"},
      {"smsp__average_warps_issue_stalled_selected_per_issue_active.ratio", "inst", "1"},
      {"smsp__issue_active.avg.pct_of_peak_sustained_active", "%", "14"}};
}

Columns with(Columns columns, const std::string& name, const std::string& value) {
  for (auto& column : columns) {
    if (column[0] == name) column[2] = value;
  }
  return columns;
}

GpuProfileFacts facts_of(const std::string& text) {
  GpuProfileFacts facts;
  facts.known.shape = "N1000";
  facts.known.bound_by = "memory";
  facts.known.time_us = 510;
  facts.known.floor_us = 255;
  facts.known.bytes = 1e9;
  facts.kernels = read_ncu(text);
  return facts;
}

std::string all(const GpuProfileFacts& facts) {
  std::string text;
  for (const std::string& sentence : sentences_of(facts)) text += sentence + "\n";
  return text;
}

TEST(Ncu, ATableOfLaunches) {
  const std::vector<NcuKernel> kernels =
      read_ncu(report(memory_bound(), {"scale(float *, long)", R"(say<""a"", 2>(int))"}));
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "scale(float *, long)");
  EXPECT_EQ(kernels[1].name, R"(say<"a", 2>(int))");
  EXPECT_EQ(kernels[0].grid, "(66, 2, 1)");
  EXPECT_EQ(kernels[0].block, "(256, 1, 1)");
  EXPECT_EQ(kernels[0].at("dram__bytes_read.sum"), 1.6e9);
  EXPECT_FALSE(kernels[0].has("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"));
}

TEST(Ncu, UnitsThatItChoseItself) {
  const NcuKernel kernel =
      read_ncu(report({{"gpu__time_duration.sum", "ms", "1.5"},
                       {"dram__bytes_read.sum", "Mbyte", "2"},
                       {"launch__shared_mem_per_block_static", "Kbyte/block", "1.02"}}))
          .at(0);
  EXPECT_EQ(kernel.at("gpu__time_duration.sum"), 1.5e6);
  EXPECT_EQ(kernel.at("dram__bytes_read.sum"), 2e6);
  EXPECT_EQ(kernel.at("launch__shared_mem_per_block_static"), 1020);
}

TEST(Ncu, GarbageIsNothing) {
  for (const char* text : {"", "\n\n", "\"ID\",", "\"ID\",\"Kernel Name\"\n", "==PROF== none"})
    EXPECT_THAT(read_ncu(text), IsEmpty()) << text;
  EXPECT_EQ(read_ncu("\"ID\",\"Kernel Name\"\n\"\"\n\"0\",\"a\",\"more\",\"cells\"\n").size(), 1u);
}

TEST(Ncu, WhyThereIsNoTable) {
  EXPECT_THAT(why_no_table("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"),
              HasSubstr("NVreg_RestrictProfilingToAdminUsers=0"));
  EXPECT_THAT(why_no_table("==PROF== x\n==ERROR== Failed to find metric abc\n"),
              HasSubstr("Failed to find metric abc"));
  EXPECT_THAT(why_no_table(""), HasSubstr("no kernel"));
}

TEST(GpuSentences, AKernelThatIsBoundByMemory) {
  const GpuProfileFacts facts = facts_of(report(memory_bound()));
  EXPECT_THAT(
      all(facts),
      AllOf(HasSubstr("At N1000 it runs at 50 % of the memory floor"),
            HasSubstr("scale is bound by DRAM (of their peaks: DRAM 88 %, L2 45 %, SM 21 %"),
            HasSubstr("an instruction issued in 14 % of the cycles"),
            HasSubstr("waits 40.0 cycles: 75 % for global memory or L2 (long_scoreboard), 25 % for "
                      "a barrier"),
            HasSubstr("Occupancy 24 % of 25 % possible, limited to 2 blocks a multiprocessor by "
                      "97.0 KB of shared memory a block"),
            HasSubstr("0.50 waves, so that a part of the GPU"),
            HasSubstr("DRAM: 1.60 GB read and 400.0 MB written, 2.00 times the 1.00 GB that the "
                      "task needs: something is read or written twice; through L2 2.50 GB, 32 %"),
            Not(HasSubstr("launches")), Not(HasSubstr("spill"))));
  const std::map<std::string, double> figures = figures_of(facts);
  EXPECT_EQ(figures.at("dram_over_least"), 2);
  EXPECT_EQ(figures.at("kernels_us"), 500);
  EXPECT_EQ(figures.at("stall_long_scoreboard"), 30);
  EXPECT_EQ(figures.at("registers"), 32);
  EXPECT_FALSE(figures.contains("tensor_pct"));
}

TEST(GpuSentences, LatencyAndTheTensorPipe) {
  const std::string dram = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
                    tensor = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active";
  const Columns idle = with(memory_bound(), dram, "12");
  EXPECT_THAT(all(facts_of(report(idle))), HasSubstr("scale is bound by latency"));
  EXPECT_THAT(all(facts_of(report(with(idle, tensor, "81")))),
              HasSubstr("scale is bound by the tensor pipe"));
}

TEST(GpuSentences, SpillsAndBankConflicts) {
  Columns columns = memory_bound();
  columns.push_back({"l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "sector", "1000"});
  columns.push_back({"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "", "30"});
  columns.push_back({"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "", "100"});
  EXPECT_THAT(all(facts_of(report(columns))),
              HasSubstr("Registers spill: 32.0 KB through local memory. 30 % of the passes through "
                        "shared memory are bank conflicts."));
}

TEST(GpuSentences, SharesOfSeveralKernels) {
  const std::string text = report(memory_bound(), {"a(int)", "b(int)", "a(int)", "a(int)"});
  EXPECT_THAT(all(facts_of(text)),
              HasSubstr("4 launches, 2000.0 µs one after the other: a 75 % (3 times), b 25 %."));
  EXPECT_EQ(figures_of(facts_of(text)).at("launches"), 4);
}

TEST(GpuSentences, NoneWithoutKernels) {
  EXPECT_THAT(sentences_of(GpuProfileFacts()), IsEmpty());
  EXPECT_THAT(figures_of(GpuProfileFacts()), IsEmpty());
}

// ---- the way to ncu

class NcuTest : public GpuToolTest {
 protected:
  // Writes `text` where --log-file says.
  void put_ncu(const std::string& text, int code = 0) {
    put(root() / "report", text);
    put_program(
        root() / "ncu",
        fmt::format("echo \"$@\" >{0}/words; while [ $1 != --log-file ]; do shift; done; cp "
                    "{0}/report $2; exit {1}\n",
                    root().string(), code));
  }
  ProfileSummary profile() {
    const LoadedTask task = must_load(root() / "task");
    const EnvironmentVariable ncu("NCU", (root() / "ncu").string());
    const Result<ProfileSummary> made =
        profile_gpu_kernel(task, request_, {}, {}, root() / "profile.txt", {});
    EXPECT_TRUE(made) << made.error().what;
    return made ? *made : ProfileSummary();
  }
};

TEST_F(NcuTest, AProfileByNcu) {
  put_ncu(report(memory_bound()));
  const ProfileSummary made = profile();
  EXPECT_EQ(made.source, "ncu");
  EXPECT_EQ(made.figures.at("registers"), 32);
  EXPECT_THAT(made.sentences.at(0), HasSubstr("scale is bound by DRAM"));
  EXPECT_THAT(text_of(root() / "profile.txt"), HasSubstr("\"Kernel Name\""));
  EXPECT_THAT(
      text_of(root() / "words"),
      AllOf(HasSubstr("--graph-profiling node"), HasSubstr("--profile-from-start off"),
            HasSubstr("--clock-control none"), HasSubstr("--target-processes application")));
  EXPECT_THAT(text_of(root() / "asked"), AllOf(HasSubstr("\"run-once\""), HasSubstr("\"N1000\"")));
}

TEST_F(NcuTest, WithoutNcuAndWithoutPermission) {
  const ProfileSummary none = profile();
  EXPECT_EQ(none.source, "none");
  EXPECT_THAT(none.sentences, ElementsAre(HasSubstr("No profile: ncu is not installed")));
  put_ncu("==ERROR== ERR_NVGPUCTRPERM - no permission\n", 1);
  EXPECT_THAT(profile().sentences, ElementsAre(HasSubstr("may not read this GPU's counters")));
}

}  // namespace
}  // namespace marathon
