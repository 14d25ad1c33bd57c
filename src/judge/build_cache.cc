#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/file.h"
#include "base/hash.h"
#include "judge/build.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t max_library_bytes = 256LL << 20, max_output_bytes = 1 << 20;

// The one that is there.
fs::path library_in(const fs::path& entry) {
  const fs::path python = entry / library_name(Language::triton);
  return fs::exists(python) ? python : entry / library_name(Language::cpp);
}

Status fill(const fs::path& folder, const fs::path& name, const std::string& library,
            const BuildOutcome& outcome) {
  const fs::path file = folder / name;
  TRY(make_folders(folder / "cubins"));
  for (const fs::path& cubin : outcome.cubins)
    TRY(write_file_durable(folder / "cubins" / cubin.filename(),
                           TRY(read_file(cubin, max_library_bytes))));
  TRY(write_file_durable(file, library));
  if (::chmod(file.c_str(), 0555) != 0) return fail_errno("chmod " + file.string(), errno);
  TRY(write_file_durable(folder / "build.txt", outcome.output));
  return write_file_durable(folder / "library.sha256", outcome.library_hash);
}

Status move_in(const fs::path& beside, const fs::path& entry) {
  if (::rename(beside.c_str(), entry.c_str()) == 0) return {};
  if (from_cache(entry)) return remove_tree(beside);
  // A damaged entry stands in the way. It is moved aside in one step: another process that repairs
  // it at the same moment loses nothing.
  const fs::path damaged = beside.string() + ".damaged";
  ::rename(entry.c_str(), damaged.c_str());
  const bool moved = ::rename(beside.c_str(), entry.c_str()) == 0;
  const int error_number = errno;
  TRY(remove_tree(damaged));
  if (moved) return {};
  if (from_cache(entry)) return remove_tree(beside);
  return fail_errno("rename to " + entry.string(), error_number);
}

}  // namespace

std::string cache_key(const BuildJob& job, const Compiler& compiler) {
  Sha256 hash;
  hash.update_field("marathon build 3");
  hash.update_field(to_string(job.language));
  hash.update_field(job.architecture);
  hash.update_field(compiler.identity);
  hash.update_field(kernel_header);
  for (const std::string& flag : job.flags) hash.update_field(flag);
  hash.update_field("sources");
  for (const std::string& source : job.sources) hash.update_field(source);
  hash.update_field("files");
  for (const SourceFile& file : job.files) {
    hash.update_field(file.path.generic_string());
    hash.update_field(file.content);
  }
  return hash.finish_hex();
}

std::optional<BuildOutcome> from_cache(const fs::path& entry) {
  const Result<std::string> hash = read_file(entry / "library.sha256", 1000);
  if (!hash) return std::nullopt;
  const Result<std::string> now = sha256_file(library_in(entry));
  if (!now || *now != *hash) return std::nullopt;
  BuildOutcome outcome;
  outcome.ok = outcome.cached = true;
  outcome.library = library_in(entry);
  outcome.library_hash = *hash;
  if (Result<std::string> output = read_file(entry / "build.txt", max_output_bytes))
    outcome.output = *output;
  std::error_code none;
  for (const fs::directory_entry& cubin : fs::directory_iterator(entry / "cubins", none))
    outcome.cubins.push_back(cubin.path());
  std::sort(outcome.cubins.begin(), outcome.cubins.end());
  return outcome;
}

Result<BuildOutcome> publish(const fs::path& entry, const fs::path& library, BuildOutcome outcome) {
  static std::atomic<int64_t> count = 0;
  const fs::path beside = entry.string() + fmt::format(".tmp-{}-{}", ::getpid(), ++count);
  const std::string bytes = TRY(read_file(library, max_library_bytes));
  outcome.library_hash = sha256_hex(bytes);
  TRY(remove_tree(beside));
  const bool is_python = library.filename() == library_name(Language::triton);
  const Language named_for = is_python ? Language::triton : Language::cpp;
  Status done = fill(beside, library_name(named_for), bytes, outcome);
  if (done) done = move_in(beside, entry);
  if (!done) {
    (void)remove_tree(beside);
    return tl::unexpected(done.error());
  }
  // The winner of a race built from the same bytes; its library counts, whatever its date.
  std::optional<BuildOutcome> kept = from_cache(entry);
  if (!kept) return fail(Fault::corrupt, entry.string() + " changed while it was written; again");
  kept->cached = false;
  kept->output = std::move(outcome.output);
  kept->seconds = outcome.seconds;
  return std::move(*kept);
}

}  // namespace marathon
