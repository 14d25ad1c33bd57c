#!/usr/bin/env bash
# Judges implementations of a GPU task folder with the bench programs alone: builds by nvcc, asks marathon-judge, prints a line each.
#   tests/gpu/judge.sh TASK_FOLDER OUT_FOLDER BASELINE CANDIDATE …
# BASELINE and CANDIDATEs are folders with solution.cu or solution.py. MODE evaluate, noise or pairs (PAIRS of the baseline against itself),
# EFFORT full or quick, SEED, NOISE.
# Needs nvcc and a GPU: exits with 77 without. BIN names the folder of marathon-judge and marathon-worker.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
task=$(cd "$1" && pwd) out=$2 baseline=$3
shift 3
bin=${BIN:-$root/build/release/bin}
command -v nvcc >/dev/null && [ -e /dev/nvidiactl ] || { echo "no nvcc or no GPU here"; exit 77; }
work=${WORK:-$(mktemp -d)}
mkdir -p "$work" "$out"
flags=(-gencode=arch=compute_90a,code=sm_90a -std=c++20 -O3 -I "$root/include" -I "$task")

# build NAME SOURCE FLAGS …: NAME.so and NAME.cubin, once
build() {
  local name=$1 source=$2
  shift 2
  [ -e "$work/$name.so" ] && return
  nvcc "${flags[@]}" "$@" -cubin -o "$work/$name.cubin" "$source" &
  nvcc "${flags[@]}" "$@" -shared -Xcompiler -fPIC -cudart static -o "$work/$name.so" "$source"
  wait
}
# What a request says of an implementation: its library, and its cubins.
name_of() { echo "$(basename "$task")-$(basename "$1")"; }
make() { if [ -e "$1/solution.cu" ]; then build "$(name_of "$1")" "$1/solution.cu"; fi; }
library() { if [ -e "$1/solution.cu" ]; then echo "$work/$(name_of "$1").so"; else realpath "$1/solution.py"; fi; }
cubins() { if [ -e "$1/solution.cu" ]; then echo "[\"$work/$(name_of "$1").cubin\"]"; else echo "[]"; fi; }

oracle=$(basename "$task")-oracle
build "$oracle" "$task/oracle.cu" -DMARATHON_REAL=double &
build "$oracle-emulation" "$task/oracle.cu" -DMARATHON_REAL=float -DMARATHON_EMULATION=1 &
[ -e "$work/judge.cubin" ] || nvcc "${flags[@]}" -cubin -o "$work/judge.cubin" "$root/src/bench/cuda/judge_kernels.cu" &
for folder in "$baseline" "$@"; do make "$folder" & done
wait
if ! [ -e "$work/peaks.json" ]; then
  echo "{\"mode\": \"peaks\", \"judge_cubin\": \"$work/judge.cubin\"}" >"$work/request.json"
  "$bin/marathon-judge" --request "$work/request.json" --result "$work/peaks.json" || echo '{}' >"$work/peaks.json"
  cat "$work/peaks.json"
fi
for candidate in "$@"; do
  cat >"$work/request.json" <<JSON
{"mode": "${MODE:-evaluate}", "task_folder": "$task", "candidate": "$(library "$candidate")",
 "candidate_cubins": $(cubins "$candidate"), "baseline": "$(library "$baseline")",
 "baseline_cubins": $(cubins "$baseline"), "oracle": "$work/$oracle.so", "emulation": "$work/$oracle-emulation.so",
 "worker": "$bin/marathon-worker", "judge_cubin": "$work/judge.cubin", "seed": ${SEED:-$RANDOM},
 "effort": "${EFFORT:-full}", "race": false, "pairs": ${PAIRS:-1}, "noise": ${NOISE:-0}, "peaks": $(cat "$work/peaks.json")}
JSON
  result=$out/$(name_of "$candidate")-over-$(basename "$baseline").json
  echo "-- $(name_of "$candidate") over $(basename "$baseline")"
  "$bin/marathon-judge" --request "$work/request.json" --result "$result" >"$work/log" 2>&1 || tail -5 "$work/log"
  [ -e "$result" ] && python3 "$root/tests/gpu/show.py" "$result"
done
