// The chain: which records count.
//
// A record fits when its hash is that of its content and it names the hash of the record before.
// Rows are never deleted, so a record that was cut or damaged stays where it is:
//
// - The last record does not fit its hash: it is *torn*. It counts as never written and is
// reported.
//   The writer goes on behind it under the next number; its record names the hash of the last one
//   that counts, which marks the torn one as passed over for ever. Nothing is renumbered.
// - A record in the middle does not fit and the one behind it was written on its true content: the
//   log is corrupt. So are a gap in the numbers and a record that names another predecessor.
//
// Refused: moving a torn row out (it needs DELETE, and destroys evidence), and refusing to open
// (one bad sector would cost a night).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/event.h"
#include "store/rows.h"

namespace marathon::store {

class Chain {
 public:
  Chain() = default;  // from the first record
  // From the record behind `sequence`. Without `hash` its predecessor is taken on trust.
  Chain(int64_t sequence, std::optional<std::string> hash)
      : last_sequence_(sequence), last_hash_(std::move(hash)) {}

  // True: the record counts. False: it does not fit; torn unless a later one contradicts.
  Result<bool> accept(const Event& event);

  int64_t last_sequence() const { return last_sequence_; }  // torn ones included
  const std::optional<std::string>& last_hash() const { return last_hash_; }
  // Torn records so far; the one at the very end too.
  std::vector<int64_t> torn() const;
  bool ends_torn() const { return suspect_.has_value(); }

 private:
  int64_t last_sequence_ = 0;
  std::optional<std::string> last_hash_ = std::string();  // of the last record that counts
  std::optional<int64_t> suspect_;
  std::vector<int64_t> passed_over_;
};

// Feeds every record behind the chain's end and calls `visit` for those that count, until it
// returns false. Reads in pages: see RowReader::page.
Status walk(RowReader& reader, Chain& chain,
            const std::function<Result<bool>(const Event&)>& visit);

// What to do about a corrupt log, to be put behind every such error.
std::string corrupt_advice();

}  // namespace marathon::store
