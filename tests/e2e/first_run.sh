#!/usr/bin/env bash
# A whole run on the command task: every view of it, from the same log.
source "$(dirname "$0")/lib.sh"

"$MARATHON" run "$root/tasks/bundle-size" --evaluations 12 --name first >"$scratch/log.txt"
grep -q '^report: ' "$scratch/log.txt"
status=$("$MARATHON" status first --json)
[ "$(json "$status" 'j["evaluations"]')" = 12 ]
[ "$(json "$status" 'j["run"], j["best"]["speedup"] >= 1, j["ending"] is not None')" = "('first', True, True)" ]
for field in run task state ending evaluations tool_calls turns best goal budget events; do
  json "$status" "j['$field']" >/dev/null
done
"$MARATHON" verify first | grep -q 'whole and unchanged'
"$MARATHON" export first >"$scratch/one"; "$MARATHON" export first >"$scratch/two"
cmp "$scratch/one" "$scratch/two"
[ "$(wc -l <"$scratch/one")" = "$(json "$status" 'j["events"]')" ]
[ "$("$MARATHON" log first --json | tail -1 | python3 -c 'import json,sys; print(json.load(sys.stdin)["payload_type"])')" = run.ended ]
"$MARATHON" best first --out "$scratch/best" >/dev/null
[ -s "$scratch/best/params.toml" ]
for file in report.html report.md; do [ -s "$MARATHON_HOME/runs/first/$file" ]; done
"$MARATHON" runs | grep -q '^first '
expect_exit 2 "$MARATHON" resume first
grep -q 'ended' "$scratch/err"
expect_exit 2 "$MARATHON" status none
[ -z "$(left_running)" ]
