// What an export for strangers leaves out.
//
// Left out whole: texts that an agent or a person wrote to each other (turns, arguments and results
// of tools, notes, prompts), compiler output and strings of kinds of events that this version does
// not know. Everywhere else keys, tokens, passwords, addresses, host names and home folders are
// replaced in place. Figures, hashes, verdicts and times stay.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "core/event.h"

namespace marathon::store {

// What only the log itself can tell: names of hosts and people. Collected in a first pass.
struct PrivateNames {
  std::set<std::string> hosts, people;
  void collect(const Payload& payload);
};

std::string redact_text(std::string_view text, const PrivateNames& names);

// The same event with another payload; its hashes stay those of the original.
Event redact_event(const Event& event, const PrivateNames& names);

}  // namespace marathon::store
