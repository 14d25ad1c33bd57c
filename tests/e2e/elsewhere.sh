#!/usr/bin/env bash
# Candidates go to a machine that knows no run, are judged there through kills and stops, and come home: each once,
# whatever the process was doing when it was killed.
source "$(dirname "$0")/lib.sh"
home=$MARATHON_HOME there=$scratch/there
packed=(judge --request "$scratch/request" --result "$scratch/result.json")
judge_there() { MARATHON_HOME=$there "$MARATHON" "${packed[@]}" "$@"; }
verdicts() { [ -e "$scratch/result.json" ] && json "$(cat "$scratch/result.json")" 'len(j["results"])' || echo 0; }

cp -r "$root/tests/e2e/tiny" "$scratch/task"
sed -i '2i sleep 0.6' "$scratch/task/measure.sh"  # so that there is a middle to be killed in
"$MARATHON" run "$scratch/task" --evaluations 2 --name far --no-report >/dev/null
"$MARATHON" best far --out "$scratch/best" >/dev/null
for i in 1 2 3 4; do
  mkdir "$scratch/c$i"
  printf 'A = %s\nB = 4\nC = 2\nD = 0\n' $((i + 3)) >"$scratch/c$i/params.toml"
done
candidates=("$scratch"/c[1-4])

# ---- packing
expect_exit 2 "$MARATHON" judge "$scratch/task" "${candidates[@]}"
expect_exit 2 "$MARATHON" judge "$scratch/task" --pack "$scratch/request"
expect_exit 2 "$MARATHON" judge "$scratch/task" "${candidates[@]}" --pack "$scratch/request" --note a --note b
[ ! -e "$scratch/request" ]
"$MARATHON" judge "$scratch/task" "${candidates[@]}" --incumbent "$scratch/best" --pack "$scratch/request" \
  --note one --note two --note three --note four --category tiling | grep -q '4 candidates of task tiny'
expect_exit 2 "$MARATHON" judge "$scratch/task" "${candidates[@]}" --pack "$scratch/request"
grep -q 'name a new folder' "$scratch/err"
mv "$scratch/task" "$scratch/task.away"  # nothing of it is needed any more

# ---- judging: killed in the middle, then stopped, then to the end
MARATHON_HOME=$there "$MARATHON" "${packed[@]}" >"$scratch/out" 2>&1 &
job=$!
until [ "$(verdicts)" -ge 1 ]; do kill -0 $job; done
kill -9 $job 2>/dev/null
wait $job 2>/dev/null || true
first=$(verdicts)
[ "$first" -ge 1 ] && [ "$first" -lt 4 ]
MARATHON_HOME=$there "$MARATHON" "${packed[@]}" >"$scratch/out" 2>&1 &
job=$!
until [ "$(verdicts)" -gt "$first" ]; do kill -0 $job; done
kill -INT $job
code=0; wait $job || code=$?
second=$(verdicts)
[ $code = 130 ] && [ "$second" -lt 4 ]
grep -q 'candidates have a verdict in' "$scratch/out"
cp "$scratch/result.json" "$scratch/part.json"
[ "$(json "$(judge_there --json 2>/dev/null)" '[c["verdict"] for c in j["candidates"]]')" = "['faster', 'faster', 'faster', 'faster']" ]
[ "$(verdicts)" = 4 ]
# What was judged before the kill is what stands there now.
json "$(cat "$scratch/part.json")" 'j["results"][0]' >"$scratch/a"
json "$(cat "$scratch/result.json")" 'j["results"][0]' >"$scratch/b"
cmp "$scratch/a" "$scratch/b"
judge_there 2>&1 | grep -c 'judged before' | grep -qx 4
[ ! -e "$there/runs" ]

# ---- a changed request
cp -r "$scratch/request" "$scratch/changed"
echo '# kinder' >>"$scratch/changed/task/check.sh"
MARATHON_HOME=$there expect_exit 3 "$MARATHON" judge --request "$scratch/changed" --result "$scratch/other.json"
grep -q 'task/check.sh was changed since it was packed' "$scratch/err"
[ ! -e "$scratch/other.json" ]

# ---- taking them home
cp -r "$home" "$scratch/before"
"$MARATHON" attempt far --from-result "$scratch/result.json" >/dev/null
status=$("$MARATHON" status far --json)
[ "$(json "$status" 'j["evaluations"]')" = 6 ]
[ "$(json "$status" 'j["best"]["attempt"]')" -gt 2 ]
"$MARATHON" log far --json >"$scratch/log"
grep -q 'three' "$scratch/log"
"$MARATHON" verify far >/dev/null
want=$(fingerprint far) events=$(json "$status" 'j["events"]')
"$MARATHON" attempt far --from-result "$scratch/result.json" 2>&1 >/dev/null | grep -c 'in the log already' | grep -qx 4
[ "$(json "$("$MARATHON" status far --json)" 'j["events"]')" = "$events" ]
sed 's/"confirmed": true/"confirmed": false/' "$scratch/result.json" >"$scratch/forged.json"
expect_exit 3 "$MARATHON" attempt far --from-result "$scratch/forged.json"
grep -q 'does not fit its hash' "$scratch/err"
expect_exit 2 "$MARATHON" attempt far
expect_exit 2 "$MARATHON" attempt far --from "$scratch/c1" --from-result "$scratch/result.json" --note x

# ---- killed behind any of its appends, and done again
kills=0
for ((n = 1; n < 40; ++n)); do
  rm -rf "$home"
  cp -r "$scratch/before" "$home"
  if MARATHON_TEST_KILL_AFTER_APPEND=$n "$MARATHON" attempt far --from-result "$scratch/result.json" >/dev/null 2>&1; then break; fi
  kills=$((kills + 1))
  "$MARATHON" attempt far --from-result "$scratch/result.json" >/dev/null 2>&1
  "$MARATHON" verify far >/dev/null
  [ "$(fingerprint far)" = "$want" ]
done
[ $kills -ge 10 ]
[ -z "$(left_running)" ]
