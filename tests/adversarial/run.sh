#!/usr/bin/env bash
# Judges every fixture and wants the verdict in its first line: `// expect: wrong|crashed`.
#   tests/adversarial/run.sh [name …]     all of cheats/ and honest/ without a name
source "$(dirname "$0")/../e2e/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
failed=0 count=0
canary=$scratch/canary; echo untouched >"$canary"

judge_fixture() {
  local fixture=$1 folder=$scratch/candidate want verdict got
  want=$(sed -n '1s/^\/\/ expect: *//p' "$fixture")
  [ -n "$want" ] || { echo "FAIL $fixture: no '// expect:' in its first line"; return 1; }
  rm -rf "$folder"; cp -r "$here/task/start" "$folder"; cp "$fixture" "$folder/solution.cc"
  verdict=$("$MARATHON" judge "$here/task" --candidate "$folder" --json 2>"$scratch/err") || {
    echo "FAIL $(basename "$fixture"): the judge itself failed: $(tail -1 "$scratch/err")"; return 1; }
  got=$(json "$verdict" 'j["verdict"]')
  # `ambiguous` says nothing about a candidate: other work disturbed the machine. It may be judged again.
  for _ in 1 2 3; do
    [ "$got" = ambiguous ] || break
    verdict=$("$MARATHON" judge "$here/task" --candidate "$folder" --json 2>"$scratch/err") || return 1
    got=$(json "$verdict" 'j["verdict"]')
  done
  if [[ "|$want|" != *"|$got|"* ]]; then
    echo "FAIL $(basename "$fixture"): $got instead of $want: $(json "$verdict" 'j["reasons"][:2]')"; return 1
  fi
  printf 'ok   %-40s %-13s %s\n' "$(basename "$fixture" .cc)" "$got" "$(json "$verdict" 'str(j["reasons"][0])[:100] if j["reasons"] else ""')"
}

for fixture in "$here"/cheats/*.cc "$here"/honest/*.cc; do
  if [ $# -gt 0 ] && [[ " $* " != *" $(basename "$fixture" .cc) "* ]]; then continue; fi
  count=$((count + 1))
  judge_fixture "$fixture" || failed=$((failed + 1))
done
[ "$(cat "$canary")" = untouched ]
left=$(left_running)
[ -z "$left" ] || { echo "left running: $left"; ps -fp $left || true; failed=$((failed + 1)); }
echo "$count fixtures, $failed failed"
[ $count -gt 0 ] && [ $failed -eq 0 ]
