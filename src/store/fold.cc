#include "store/fold.h"

#include <fmt/format.h>

#include "store/snapshot.h"

namespace marathon::store {

Result<Folded> fold_log(const std::filesystem::path& run_folder, RowReader& reader,
                        bool use_snapshot) {
  Folded folded;
  if (use_snapshot) {
    if (std::optional<State> saved = load_snapshot(run_folder, reader)) {
      folded.state = std::move(*saved);
      folded.snapshot_events = folded.state.events;
      folded.chain = Chain(folded.state.events, folded.state.last_hash);
    }
  }
  TRY(walk(reader, folded.chain, [&](const Event& event) -> Result<bool> {
    const Result<Payload> payload = decode_payload(event.payload_type, event.payload);
    if (!payload) {
      return fail(Fault::corrupt,
                  fmt::format("event {} is as it was written, but this version cannot read it: {}. "
                              "Use the version of marathon that wrote it",
                              event.sequence, payload.error().what));
    }
    apply(folded.state, event, *payload);
    return true;
  }));
  return folded;
}

std::string describe_torn(const Chain& chain) {
  std::string text;
  for (const int64_t sequence : chain.torn()) {
    text += fmt::format("{}event {} does not fit its hash and counts as never written",
                        text.empty() ? "" : "; ", sequence);
  }
  return text;
}

}  // namespace marathon::store
