#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "judge/build.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t max_library_bytes = 256LL << 20, max_output_bytes = 1 << 20;

// What an entry is made of: each file's place in it and where it lies now.
struct Part {
  std::string name;
  fs::path from;
};

// A Python module stands in a folder with those that it imports.
Result<std::vector<Part>> parts_of(const fs::path& library, const BuildOutcome& outcome) {
  std::vector<Part> parts;
  if (library.extension() == ".py") {
    const fs::path folder = library.parent_path();
    for (const fs::path& file : TRY(list_files(folder)))
      parts.push_back({(fs::path("module") / file).generic_string(), folder / file});
    return parts;
  }
  parts.push_back({library.filename().string(), library});
  for (const fs::path& cubin : outcome.cubins)
    parts.push_back({(fs::path("cubins") / cubin.filename()).generic_string(), cubin});
  return parts;
}

Json to_json(const KernelResources& kernel) {
  return {{"name", kernel.name},
          {"kernel", kernel.kernel},
          {"registers", kernel.registers},
          {"spill_store_bytes", kernel.spill_store_bytes},
          {"spill_load_bytes", kernel.spill_load_bytes},
          {"stack_bytes", kernel.stack_bytes},
          {"static_shared_bytes", kernel.static_shared_bytes},
          {"barriers", kernel.barriers},
          {"max_threads", kernel.max_threads},
          {"source", kernel.source}};
}

KernelResources resources_from(const Json& json) {
  KernelResources kernel;
  kernel.name = json_string(json, "name");
  kernel.kernel = json_string(json, "kernel");
  kernel.registers = json_int(json, "registers");
  kernel.spill_store_bytes = json_int(json, "spill_store_bytes");
  kernel.spill_load_bytes = json_int(json, "spill_load_bytes");
  kernel.stack_bytes = json_int(json, "stack_bytes");
  kernel.static_shared_bytes = json_int(json, "static_shared_bytes");
  kernel.barriers = json_int(json, "barriers");
  kernel.max_threads = json_int(json, "max_threads");
  kernel.source = json_string(json, "source");
  return kernel;
}

Status fill(const fs::path& folder, const fs::path& library, const BuildOutcome& outcome) {
  TRY(make_folders(folder));
  Json hashes = Json::object(), kernels = Json::array();
  Sha256 all;
  std::string main_hash, main_name;
  for (const Part& part : TRY(parts_of(library, outcome))) {
    const fs::path file = folder / part.name;
    const std::string bytes = TRY(read_file(part.from, max_library_bytes));
    TRY(make_folders(file.parent_path()));
    TRY(write_file_durable(file, bytes));
    if (::chmod(file.c_str(), 0555) != 0) return fail_errno("chmod " + file.string(), errno);
    const std::string hash = sha256_hex(bytes);
    hashes[part.name] = hash;
    all.update_field(part.name);
    all.update_field(hash);
    if (part.from == library) main_hash = hash, main_name = part.name;
  }
  // Of a module all that it imports counts; the cubins are a part of the library.
  if (library.extension() == ".py") main_hash = all.finish_hex();
  for (const KernelResources& kernel : outcome.kernels) kernels.push_back(to_json(kernel));
  TRY(write_file_durable(folder / "build.txt", outcome.output));
  return write_file_durable(
      folder / "build.json",
      dump_json(
          {{"library", main_name}, {"hash", main_hash}, {"files", hashes}, {"kernels", kernels}}));
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
  hash.update_field("marathon build 4");
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
  const Result<std::string> text = read_file(entry / "build.json", max_output_bytes);
  if (!text) return std::nullopt;
  const Result<Json> json = parse_json(*text);
  if (!json || !json->is_object() || !json->contains("files") || !json->contains("kernels"))
    return std::nullopt;
  BuildOutcome outcome;
  outcome.ok = outcome.cached = true;
  outcome.library_hash = json_string(*json, "hash");
  const std::string library = json_string(*json, "library");
  for (const auto& [name, hash] : json->at("files").items()) {
    const Result<std::string> now = sha256_file(entry / name);
    if (!now || !hash.is_string() || *now != hash.get<std::string>()) return std::nullopt;
    if (name == library) outcome.library = entry / name;
    if (name.starts_with("cubins/")) outcome.cubins.push_back(entry / name);
  }
  if (outcome.library.empty()) return std::nullopt;
  for (const Json& kernel : json->at("kernels")) outcome.kernels.push_back(resources_from(kernel));
  if (Result<std::string> output = read_file(entry / "build.txt", max_output_bytes))
    outcome.output = *output;
  return outcome;
}

Result<BuildOutcome> publish(const fs::path& entry, const fs::path& library, BuildOutcome outcome) {
  static std::atomic<int64_t> count = 0;
  const fs::path beside = entry.string() + fmt::format(".tmp-{}-{}", ::getpid(), ++count);
  TRY(remove_tree(beside));
  Status done = fill(beside, library, outcome);
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
