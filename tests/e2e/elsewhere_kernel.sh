#!/usr/bin/env bash
# A kernel judged as on another machine: a quick look is no full judgement, the noise of the machine is measured, and the
# verdict carries where and how it was measured.
source "$(dirname "$0")/lib.sh"
task=$root/tasks/gemv-bf16
"$MARATHON" judge "$task" "$task/start" --pack "$scratch/request" --note "the start" >/dev/null
there=("$MARATHON" judge --request "$scratch/request" --result "$scratch/result.json")
"${there[@]}" --quick >"$scratch/out" 2>/dev/null
! grep -q 'noise of this machine' "$scratch/out"
[ "$(json "$(cat "$scratch/result.json")" 'j["results"][0]["effort"]')" = quick ]
"${there[@]}" >"$scratch/out" 2>/dev/null
grep -q 'noise of this machine' "$scratch/out"
result=$(cat "$scratch/result.json")
[ "$(json "$result" 'len(j["results"])')" = 1 ]
by='j["results"][0]["verdict"]["provenance"]'
[ "$(json "$result" "$by['effort'], $by['sandbox']")" = "('full', 'full')" ]
[ "$(json "$result" "all($by[k] for k in ('host', 'cpu', 'kernel', 'compiler', 'judge_version', 'binary_hash', 'baseline_hash', 'started_at_us'))")" = True ]
[ "$(json "$result" "$by['noise'] >= 0.001")" = True ]
