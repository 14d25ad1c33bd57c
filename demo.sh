#!/usr/bin/env bash
# Builds Marathon and lets its embedded search improve a CPU kernel: no GPU, no key, about five minutes.
#   ./demo.sh [marathon run arguments …]      e.g. ./demo.sh --evaluations 60
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

./build.sh
[[ " $* " == *" --evaluations"* ]] || set -- --evaluations 30 "$@"
exec build/release/bin/marathon run tasks/kda-cpu --agent search "$@"
