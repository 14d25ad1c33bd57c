#!/usr/bin/env bash
# Installs, builds, runs every test.   ./test.sh [ctest arguments …]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

./build.sh all
tools/check_layers.sh
ctest --test-dir build/release --output-on-failure --no-tests=error -j 2 "$@"
