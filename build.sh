#!/usr/bin/env bash
# Installs what is missing and builds into build/release.   ./build.sh [ninja target …]
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '/^set/q; s/^#  *//p' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")"

if [ $# -eq 0 ]; then
  set -- marathon marathon-judge marathon-worker
fi
tests=OFF
for target in "$@"; do
  if [ "$target" = all ]; then tests=ON; fi
done
# A build folder that has tests keeps them: the demo after the tests need not configure anew.
if grep -qs 'MARATHON_TESTS:BOOL=ON' build/release/CMakeCache.txt; then tests=ON; fi

if [ "$tests" = ON ]; then tools/install.sh test; else tools/install.sh build; fi
mkdir -p build
cmake --preset release -DMARATHON_TESTS=$tests >build/configure.log 2>&1 || { cat build/configure.log >&2; exit 3; }
cmake --build build/release --target "$@"
