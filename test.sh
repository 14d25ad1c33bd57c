#!/usr/bin/env bash
# Installs, builds, runs every test.   ./test.sh [ctest arguments …]
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '/^set/q; s/^#  *//p' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")"

./build.sh all
tools/check_layers.sh
ctest --test-dir build/release --output-on-failure --no-tests=error -j 2 "$@"
