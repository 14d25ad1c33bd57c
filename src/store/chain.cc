#include "store/chain.h"

#include <fmt/format.h>

namespace marathon::store {

namespace {

tl::unexpected<Error> fail_corrupt(const std::string& what) {
  return fail(Fault::corrupt, what + ". " + corrupt_advice());
}

}  // namespace

std::string corrupt_advice() {
  return "Keep a copy of the run's folder. `marathon verify` lists all damage, `marathon export` "
         "writes what stands before it; then restore the folder from a backup or start a new run";
}

Result<bool> Chain::accept(const Event& event) {
  if (event.sequence != last_sequence_ + 1) {
    return fail_corrupt(fmt::format("the log is damaged: event {} follows event {}", event.sequence,
                                    last_sequence_));
  }
  const bool links = !last_hash_ || event.previous_hash == *last_hash_;
  if (links && chain_hash(event) == event.hash) {
    if (suspect_) passed_over_.push_back(*suspect_);
    suspect_.reset();
    last_sequence_ = event.sequence;
    last_hash_ = event.hash;
    return true;
  }
  if (suspect_) {
    return fail_corrupt(fmt::format(
        "the log is damaged: event {} does not fit its hash, and it is not the last", *suspect_));
  }
  if (chain_hash(event) == event.hash) {
    return fail_corrupt(fmt::format(
        "the log is damaged: event {} was not written behind the event {} that stands before it",
        event.sequence, last_sequence_));
  }
  suspect_ = event.sequence;
  last_sequence_ = event.sequence;
  return false;
}

std::vector<int64_t> Chain::torn() const {
  std::vector<int64_t> all = passed_over_;
  if (suspect_) all.push_back(*suspect_);
  return all;
}

Status walk(RowReader& reader, Chain& chain,
            const std::function<Result<bool>(const Event&)>& visit) {
  std::vector<Event> rows;
  while (true) {
    const size_t count = TRY(reader.page(chain.last_sequence(), rows));
    if (count == 0) return {};
    for (size_t i = 0; i < count; ++i) {
      if (!TRY(chain.accept(rows[i]))) continue;
      if (!TRY(visit(rows[i]))) return {};
    }
  }
}

}  // namespace marathon::store
