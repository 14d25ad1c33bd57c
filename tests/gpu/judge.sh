#!/usr/bin/env bash
# Judges one implementation of a GPU task folder with the bench programs alone: builds by nvcc, asks marathon-judge, prints the verdict.
#   tests/gpu/judge.sh TASK_FOLDER CANDIDATE_FOLDER OUT.json [evaluate|noise] [BASELINE_FOLDER]
# Needs nvcc and a GPU: exits with 77 without. BIN names the folder of marathon-judge and marathon-worker.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
task=$(cd "$1" && pwd) candidate=$2 out=$3 mode=${4:-evaluate} baseline=${5:-$task/baseline}
bin=${BIN:-$root/build/release/bin}
command -v nvcc >/dev/null && [ -e /dev/nvidiactl ] || { echo "no nvcc or no GPU here"; exit 77; }
work=${WORK:-$(mktemp -d)}
mkdir -p "$work"
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
build oracle "$task/oracle.cu" -DMARATHON_REAL=double &
build emulation "$task/oracle.cu" -DMARATHON_REAL=float -DMARATHON_EMULATION=1 &
build baseline "$baseline/solution.cu" &
build "candidate-$(basename "$candidate")" "$candidate/solution.cu" &
[ -e "$work/judge.cubin" ] || nvcc "${flags[@]}" -cubin -o "$work/judge.cubin" "$root/src/bench/cuda/judge_kernels.cu"
wait
cat >"$work/request.json" <<JSON
{"mode": "$mode", "task_folder": "$task", "candidate": "$work/candidate-$(basename "$candidate").so",
 "candidate_cubins": ["$work/candidate-$(basename "$candidate").cubin"], "baseline": "$work/baseline.so",
 "baseline_cubins": ["$work/baseline.cubin"], "oracle": "$work/oracle.so", "emulation": "$work/emulation.so",
 "worker": "$bin/marathon-worker", "judge_cubin": "$work/judge.cubin", "seed": ${SEED:-$RANDOM},
 "effort": "${EFFORT:-full}", "race": false, "noise": ${NOISE:-0}}
JSON
"$bin/marathon-judge" --request "$work/request.json" --result "$out"
