#!/usr/bin/env bash
# The checker of each shipped task refuses every mutant, and its starting solution passes.
source "$(dirname "$0")/lib.sh"
for task in "$root"/tasks/*/; do
  "$MARATHON" task check "$task" >"$scratch/out" 2>&1 || { echo "$task"; cat "$scratch/out"; exit 1; }
  grep -q 'the task is sound' "$scratch/out"
done
