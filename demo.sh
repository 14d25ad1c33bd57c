#!/usr/bin/env bash
# Builds Marathon and lets its embedded search improve a CPU kernel: no GPU, no key, about five and a half minutes.
#   ./demo.sh [marathon run arguments …]      e.g. ./demo.sh --evaluations 60
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '/^set/q; s/^#  *//p' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")"

./build.sh
[[ " $* " == *" --evaluations"* ]] || set -- --evaluations 20 "$@"
exec build/release/bin/marathon run tasks/kda-cpu --agent search "$@"
