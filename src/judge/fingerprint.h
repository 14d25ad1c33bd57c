// How much of a candidate stands in known sources, told from hashes of their text: names that
// anybody could change do not count. A note for people, never a verdict. Inside of judge/ only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "judge/build.h"

namespace marathon {

// Made by tools/fingerprint.py, which also says how.
struct FingerprintList {
  struct Project {
    std::string name;              // "fla-core 0.6.0"
    std::vector<uint64_t> hashes;  // ascending
  };
  uint64_t modulus = 1;  // hashes that it divides are kept, of a candidate too
  std::vector<Project> projects;
};
Result<FingerprintList> read_fingerprints(std::string_view bytes);
// The list that this program was built with; without projects when there was none.
const FingerprintList& known_fingerprints();

// Of one file, by the ending of its name; empty for what is neither C++ nor Python.
std::vector<uint64_t> fingerprints_of(const SourceFile& file);

struct FingerprintReport {
  int64_t compared = 0;  // different fingerprints of the candidate
  bool has_list = false;
  struct Match {
    std::string project;
    int64_t found = 0;
    double share = 0;
  };
  std::vector<Match> matches;  // the largest share first; projects without any are left out
};
FingerprintReport compare_fingerprints(const std::vector<SourceFile>& files,
                                       const FingerprintList& list);
// "62 % of its 118 fingerprints stand in fla-core 0.6.0".
std::string note_on(const FingerprintReport& report);

}  // namespace marathon
