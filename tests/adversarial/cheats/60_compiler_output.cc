// expect: build_failed
// includes itself twice at every level and warns each time: gigabytes of messages
// clang-format off
#if __INCLUDE_LEVEL__ < 60
#warning a long line of words that says nothing and is said again and again and again and again
#include "solution.cc"
#include "solution.cc"
#else
#error the end is reached very late
#endif
