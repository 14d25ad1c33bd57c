// expect: build_failed
// instantiates templates without end in sight
#include "prefix.h"

template <unsigned long n, unsigned long way>
struct Tree {
  static constexpr unsigned long value =
      Tree<n - 1, 2 * way>::value + Tree<n - 1, 2 * way + 1>::value;
};
template <unsigned long way>
struct Tree<0, way> {
  static constexpr unsigned long value = way;
};

extern "C" int marathon_run(const MarathonArgs* args) {
  prefix_plain(prefix_args(args));
  return Tree<40, 1>::value == 0;
}
