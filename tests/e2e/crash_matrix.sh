#!/usr/bin/env bash
# SIGKILL after the n-th append, for every n of a run, then resume: the same fold as if nothing had happened.
#   CRASH_EVALUATIONS (30)  CRASH_STEP (1: every n)
source "$(dirname "$0")/lib.sh"
evaluations=${CRASH_EVALUATIONS:-30} step=${CRASH_STEP:-1}
run() { "$MARATHON" run "$root/tests/e2e/tiny" --evaluations "$evaluations" --no-report --name "$1" >/dev/null 2>&1; }

run whole
events=$(json "$("$MARATHON" status whole --json)" 'j["events"]')
want=$(fingerprint whole)

one() {
  local n=$1 name=kill-$1 code=0
  { MARATHON_TEST_KILL_AFTER_APPEND=$n run "$name" || code=$?; } 2>/dev/null
  [ "$code" = 137 ] || { echo "n=$n: exit $code, not killed"; return 1; }
  # Killed before the run was started at all: there is nothing to resume, and saying so is right.
  "$MARATHON" resume "$name" --no-report >/dev/null 2>"$scratch/$name.err" || { echo "n=$n: resume failed"; cat "$scratch/$name.err"; return 1; }
  local verified; verified=$("$MARATHON" verify --json "$name")
  [ "$(json "$verified" 'j["ok"]')" = True ] || { echo "n=$n: $verified"; return 1; }
  [ "$(json "$verified" 'j["fingerprint"]')" = "$want" ] || { echo "n=$n: another fold"; return 1; }
  rm -rf "$MARATHON_HOME/runs/$name"
}
export -f one run json; export MARATHON MARATHON_HOME root evaluations want scratch
# The last append is the ending: a kill after it leaves nothing to resume.
seq 1 "$step" $((events - 1)) | xargs -P 2 -I{} bash -c 'one {}'
echo "killed after each of $((events - 1)) appends (step $step): fold equal, log whole"
