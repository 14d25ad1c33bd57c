#!/usr/bin/env bash
# Errors say what to do next, and leave nothing behind.
source "$(dirname "$0")/lib.sh"
expect_exit 0 "$MARATHON" --help
expect_exit 0 "$MARATHON" --version
expect_exit 2 "$MARATHON"
expect_exit 2 "$MARATHON" run
expect_exit 2 "$MARATHON" run "$scratch/none"
grep -q 'task.toml' "$scratch/err"
mkdir "$scratch/bad"
printf 'schema = 1\nname = "bad"\nkind = "kernel"\n[biuld]\nsources = ["a.cc"]\n' >"$scratch/bad/task.toml"
expect_exit 2 "$MARATHON" run "$scratch/bad"
grep -q 'task.toml:4' "$scratch/err"
grep -q "did you mean 'build'" "$scratch/err"
expect_exit 2 "$MARATHON" status --last
expect_exit 0 "$MARATHON" runs
[ ! -e "$MARATHON_HOME/runs" ] || [ -z "$(ls -A "$MARATHON_HOME/runs")" ]
[ "$(json "$("$MARATHON" runs --json)" 'j["runs"]')" = '[]' ]

# Values that a library would wrap, clamp or pass.
for wrong in "--hours nan" "--hours 0" "--seed -1" "--seed 18446744073709551616" "--evaluations 99999999999999999999" "--evaluations 0"; do
  # shellcheck disable=SC2086
  expect_exit 2 "$MARATHON" run "$scratch/none" $wrong
  grep -q "is no " "$scratch/err"
done
# Two runs named at once: neither is touched.
for command in status verify prune "attempt --from $scratch --note x"; do
  # shellcheck disable=SC2086
  expect_exit 2 "$MARATHON" $command some --last
  grep -q 'not both' "$scratch/err"
done
# Standard output that takes nothing: a full disk is told, a closed pager is not.
expect_exit 3 bash -c '"$0" runs --json >/dev/full' "$MARATHON"
grep -q 'standard output: No space left' "$scratch/err"
expect_exit 0 bash -c 'set -o pipefail; "$0" doctor --json | :' "$MARATHON"
