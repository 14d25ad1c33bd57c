#!/usr/bin/env bash
# Sanitizers over the tests, a bounded fuzz, clang-tidy.   tools/check.sh [asan] [tsan] [fuzz] [tidy]
#   FUZZ_SECONDS (20) for each fuzz target
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/install.sh check
[ $# -eq 0 ] && set -- asan tsan fuzz tidy

configure() { cmake --preset "$1" >"build/configure-$1.log" 2>&1 || { cat "build/configure-$1.log" >&2; exit 3; }; }

for step in "$@"; do
  echo "-- $step"
  case $step in
    asan)
      configure asan
      cmake --build build/asan
      ctest --test-dir build/asan --output-on-failure --no-tests=error -j 2 -LE 'slow|measures'
      ;;
    tsan)
      configure tsan
      cmake --build build/tsan --target base_test store_test
      ctest --test-dir build/tsan --output-on-failure --no-tests=error -R '^(base|store)$'
      ;;
    fuzz)
      configure fuzz
      cmake --build build/fuzz --target task_fuzz log_fuzz sse_fuzz wire_fuzz
      for target in task log sse wire; do
        mkdir -p "build/fuzz/corpus/$target"
        seeds=tests/fuzz/corpus/$target  # the log target makes its own
        [ $target != wire ] || seeds=tests/golden/wire
        [ -d "$seeds" ] || seeds=
        "build/fuzz/bin/${target}_fuzz" -max_total_time="${FUZZ_SECONDS:-20}" -timeout=10 -rss_limit_mb=2048 \
          -artifact_prefix="build/fuzz/$target-" "build/fuzz/corpus/$target" ${seeds:+"$seeds"} \
          >"build/fuzz/$target.log" 2>&1 || { tail -40 "build/fuzz/$target.log"; exit 1; }
        tail -1 "build/fuzz/$target.log"
      done
      ;;
    tidy)
      configure release
      git ls-files 'src/*.cc' | grep -v '_test\.cc$' | xargs -P 2 -n 4 clang-tidy --quiet -p build/release 2>build/tidy.log
      ;;
    *) echo "check.sh: unknown step '$step' (asan, tsan, fuzz, tidy)" >&2; exit 2 ;;
  esac
done
