// Read-only access. A reader never writes to the log, never checkpoints and leaves no read
// transaction open, so that it can do no harm beside a writer.
#include <fmt/format.h>

#include "store/fold.h"
#include "store/open.h"
#include "store/store.h"

namespace marathon {

namespace fs = std::filesystem;
using namespace store;  // NOLINT: the room's own inner namespace

struct Reader::Impl {
  fs::path folder;
  OpenLog log;
};

Reader::Reader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader::~Reader() = default;

Result<Reader> Reader::open(const fs::path& run_folder) {
  OpenLog log = TRY(open_for_reading(run_folder));
  return Reader(std::make_unique<Impl>(Impl{run_folder, std::move(log)}));
}

Status Reader::each(int64_t after_sequence, const std::function<bool(const Event&)>& visit) const {
  Chain chain = after_sequence > 0 ? Chain(after_sequence, std::nullopt) : Chain();
  return walk(impl_->log.reader, chain,
              [&](const Event& event) -> Result<bool> { return visit(event); });
}

Result<Event> Reader::at(int64_t sequence) const {
  std::optional<Event> event = TRY(impl_->log.reader.one(sequence));
  if (!event) return fail(Fault::not_found, fmt::format("the log has no event {}", sequence));
  if (chain_hash(*event) != event->hash)
    return fail(Fault::corrupt, fmt::format("event {} does not fit its hash", sequence));
  return std::move(*event);
}

Result<State> Reader::fold(bool use_snapshot) const {
  return TRY(fold_log(impl_->folder, impl_->log.reader, use_snapshot)).state;
}

Result<int64_t> Reader::last_sequence() const { return impl_->log.reader.last_sequence(); }

}  // namespace marathon
