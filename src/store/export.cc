#include "store/chain.h"
#include "store/open.h"
#include "store/redact.h"
#include "store/store.h"

namespace marathon {

using namespace store;  // NOLINT: the room's own inner namespace

namespace {

struct FirstPass {
  PrivateNames names;
  int64_t last_sequence = 0;
};

// Damage is told by the second pass, when what stands before it has been written.
FirstPass collect_names(RowReader& reader) {
  FirstPass pass;
  Chain chain;
  (void)walk(reader, chain, [&](const Event& event) -> Result<bool> {
    if (Result<Payload> payload = decode_payload(event.payload_type, event.payload))
      pass.names.collect(*payload);
    pass.last_sequence = event.sequence;
    return true;
  });
  return pass;
}

}  // namespace

Status export_run(const std::filesystem::path& run_folder, bool redacted,
                  const std::function<Status(std::string_view)>& write) {
  OpenLog log = TRY(open_for_reading(run_folder));
  const FirstPass pass = redacted ? collect_names(log.reader) : FirstPass{};
  Chain chain;
  return walk(log.reader, chain, [&](const Event& event) -> Result<bool> {
    // What a writer appended meanwhile may hold names that the first pass did not see.
    if (redacted && event.sequence > pass.last_sequence) return false;
    TRY(write(to_json_line(redacted ? redact_event(event, pass.names) : event) + "\n"));
    return true;
  });
}

}  // namespace marathon
