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
