#!/usr/bin/env bash
# The real compute-sanitizer as a step of the judge: the honest start of tests/gpu/task must pass every tool, and each of four
# copies of it, with one fault that check and measurement do not see, must be refused by the tool that does.
#   tests/gpu/sanitize.sh OUT_FOLDER [TASK_FOLDER CANDIDATE_FOLDER]
# With a task and a candidate of it: what the four tools say of that one, whatever the task demands; nothing is expected.
# UNSAFE=1: without the jail. BIN: the folder of marathon. Leaves verdict, sanitize.txt and a log of each.
# Needs nvcc, compute-sanitizer and a GPU: exits with 77 without.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[ $# -gt 0 ] || { sed -n '2,7s/^# *//p' "$0"; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
bin=${BIN:-$root/build/release/bin}
command -v nvcc >/dev/null && [ -e /dev/nvidiactl ] || { echo "no nvcc or no GPU here"; exit 77; }
command -v "${COMPUTE_SANITIZER:-compute-sanitizer}" >/dev/null ||
  [ -x "$(dirname "$(realpath "$(command -v nvcc)")")/compute-sanitizer" ] || { echo "no compute-sanitizer here"; exit 77; }
failed=0

# judge NAME TASK CANDIDATE TOOLS EXPECTED: EXPECTED is clean, a tool that must refuse it, or any.
judge() {
  local name=$1 task=$out/$1/task candidate=$3 tools=$4 expected=$5
  rm -rf "${out:?}/$name"
  mkdir -p "$out/$name"
  cp -r "$2" "$task"
  # Its own demand, if it has one, is the last table of the file.
  sed -i '/^\[judge\]/,$d' "$task/task.toml"
  printf '\n[judge]\nsanitize = [%s]\n' "$tools" >>"$task/task.toml"
  cat >"$out/$name/request.json" <<JSON
{"schema": 1, "task_folder": "$task", "candidate_folder": "$(realpath "$candidate")", "cache_folder": "$out/cache",
 "result_folder": "$out/$name", "effort": "full", "race": false, "profile_new_best": false}
JSON
  echo "-- $name"
  "$bin/marathon" judge --request "$out/$name/request.json" --result "$out/$name/verdict.json" \
    ${UNSAFE:+--unsafe-no-sandbox} >"$out/$name/log" 2>&1 || { tail -5 "$out/$name/log"; failed=1; return 0; }
  python3 - "$out/$name/verdict.json" "$expected" <<'PY' || failed=1
import json, sys
verdict, expected = json.load(open(sys.argv[1])), sys.argv[2]
text = "\n".join(verdict["reasons"])
print(f"{verdict['verdict']}  sanitizers {verdict['provenance']['sanitize_s']:.1f} s")
print("\n".join("    " + reason[:400] for reason in verdict["reasons"]))
if expected == "any": good = True
elif expected == "clean": good = "compute-sanitizer finds nothing" in text
else: good = verdict["verdict"] == "rule_broken" and f"compute-sanitizer's {expected} finds" in text
if not good: print(f"  FAIL: expected {expected}")
sys.exit(not good)
PY
}
all='"memcheck", "racecheck", "synccheck", "initcheck"'
if [ $# -gt 0 ]; then
  # One at a time: the first that refuses ends the step.
  for tool in memcheck racecheck synccheck initcheck; do
    judge "$(basename "$1")-$(basename "$2")-$tool" "$1" "$2" "\"$tool\"" any
  done
  exit $failed
fi
judge honest "$root/tests/gpu/task" "$root/tests/gpu/task/start" "$all" clean
# fault TOOL CODE: the start with this at the head of its kernel.
fault() {
  mkdir -p "$out/candidates/$1"
  CODE=$2 awk '{ print } /^  uint4 held\[kept\];/ { print ENVIRON["CODE"]; found = 1 } END { exit !found }' \
    "$root/tests/gpu/task/start/solution.cu" >"$out/candidates/$1/solution.cu"
  judge "$1" "$root/tests/gpu/task" "$out/candidates/$1" "\"$1\"" "$1"
}
# Behind its shared memory, but in the block's last 128 bytes, which the hardware gives it anyhow.
fault memcheck '  __shared__ int few[8]; volatile int* past = few; if (threadIdx.x == 0) past[20] = 1;'
fault racecheck '  __shared__ volatile int one; one = threadIdx.x;'
fault synccheck '  if (threadIdx.x % 2 == 1) __syncwarp(0x55555555u);'
fault initcheck '  unsigned old; asm volatile("ld.global.u32 %0, [%1];" : "=r"(old) : "l"(out + blockIdx.x * pieces));'
exit $failed
