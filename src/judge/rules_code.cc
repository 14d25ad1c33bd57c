// Instructions that a kernel has no use for: system calls, clocks, other address spaces. A jump
// into the middle of an instruction hides them from any listing; the jail is what holds them then.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "judge/elf.h"
#include "judge/rules.h"

namespace marathon {

using namespace std::string_view_literals;

namespace {

constexpr double objdump_limit_s = 60;
constexpr int64_t max_listing_bytes = 512LL << 20;

// The opcodes of x86-64. Other processors have no such short list: there objdump is always asked.
constexpr std::array<std::string_view, 10> opcodes = {
    "\x0f\x05"sv,      // syscall
    "\x0f\x34"sv,      // sysenter
    "\xcd\x80"sv,      // int 0x80
    "\x0f\x31"sv,      // rdtsc
    "\x0f\x01\xf9"sv,  // rdtscp
    "\x0f\x33"sv,      // rdpmc
    "\x0f\xae"sv,      // rd/wrfsbase, rd/wrgsbase, and fences, clflush
    "\x0f\xc7"sv,      // rdpid, rdrand
    "\x0f\x01\xef"sv,  // wrpkru
    "\x0f\x01\xee"sv,  // rdpkru
};

constexpr std::array<std::string_view, 15> mnemonics = {
    "syscall",  "sysenter", "sysexit",  "int",    "rdtsc",  "rdtscp", "rdpmc", "rdfsbase",
    "rdgsbase", "wrfsbase", "wrgsbase", "rdpkru", "wrpkru", "svc",    "rdpid"};

// "    1139:\tsyscall" or "    1139:\trep movsb": the first word after the tab.
std::string_view mnemonic_of(std::string_view line) {
  const size_t tab = line.find(":\t");
  if (tab == std::string_view::npos) return {};
  line.remove_prefix(tab + 2);
  return line.substr(0, line.find_first_of(" \t"));
}

}  // namespace

bool may_hold_forbidden_instruction(std::string_view code) {
#if defined(__x86_64__)
  return std::any_of(opcodes.begin(), opcodes.end(), [&](std::string_view opcode) {
    return code.find(opcode) != std::string_view::npos;
  });
#else
  return !code.empty();
#endif
}

std::optional<std::string> forbidden_instruction(std::string_view listing) {
  std::string_view function = "?";
  while (!listing.empty()) {
    const std::string_view line = listing.substr(0, listing.find('\n'));
    listing.remove_prefix(std::min(listing.size(), line.size() + 1));
    if (line.ends_with(">:")) {
      const size_t open = line.find('<');
      if (open != std::string_view::npos) function = line.substr(open + 1, line.size() - open - 3);
      continue;
    }
    const std::string_view mnemonic = mnemonic_of(line);
    const bool counts_ticks =  // AArch64's clock and counters
        mnemonic == "mrs" && (line.find("cntvct") != std::string_view::npos ||
                              line.find("cntpct") != std::string_view::npos ||
                              line.find("pmccntr") != std::string_view::npos);
    if (counts_ticks ||
        std::find(mnemonics.begin(), mnemonics.end(), mnemonic) != mnemonics.end()) {
      return fmt::format(
          "it holds the instruction '{}' in '{}': a kernel computes and does nothing else",
          mnemonic, function.substr(0, 200));
    }
  }
  return std::nullopt;
}

Result<std::optional<std::string>> broken_library_rule(const BinaryRules& rules,
                                                       const BuildOutcome& built,
                                                       bool unsafe_no_sandbox,
                                                       std::stop_token stop) {
  const std::string bytes = TRY(read_file(built.library));
  if (std::optional<std::string> broken = broken_binary_rule(rules, bytes)) return broken;
  const ElfFacts facts = TRY(read_elf(bytes));
  const std::string_view view = bytes;
  const bool ask = std::any_of(facts.code.begin(), facts.code.end(), [&](const auto& part) {
    return part.first < view.size() &&
           may_hold_forbidden_instruction(view.substr(part.first, part.second));
  });
  const std::optional<std::filesystem::path> objdump = find_program("objdump");
  if (!ask || !objdump) return std::optional<std::string>();

  const TempFolder scratch = TRY(TempFolder::make("marathon-rules"));
  ProcessSpec spec;
  spec.argv = {objdump->string(), "-d", "--no-show-raw-insn", built.library.string()};
  spec.folder = scratch.path();
  spec.environment = clean_environment(scratch.path());
  spec.timeout_s = objdump_limit_s;
  spec.output_file = scratch.path() / "listing";
  spec.output_file_max = max_listing_bytes;
  spec.max_memory_bytes = 2LL << 30;
  Jail jail = toolchain_jail();
  jail.read_only.push_back(built.library);
  jail.allow_exec = true;
  jail.max_file_bytes = 1;
  const ProcessResult result =
      TRY(run_jailed(std::move(spec), jail, scratch.path(), unsafe_no_sandbox, stop));
  if (result.exit_code != 0) {
    return std::optional<std::string>(
        "its instructions cannot be listed (objdump failed), so that they cannot be judged");
  }
  return forbidden_instruction(TRY(read_file(scratch.path() / "listing", max_listing_bytes)));
}

}  // namespace marathon
