#!/usr/bin/env bash
# Builds oracles, emulations and starts of the three GPU tasks and compares them, without any judge.
#   tests/gpu/task_smoke.sh [--time]     --time: the listed shapes too, with milliseconds
# PYTHON names a Python with torch and Triton (default python3; without them that part is skipped).
# Needs nvcc and a GPU: exits with 77 without.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v nvcc >/dev/null && [ -e /dev/nvidiactl ] || { echo "no nvcc or no GPU here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tasks=(kda-forward mla-decode mla-prefill)
flags=(-gencode=arch=compute_90a,code=sm_90a -std=c++20 -O3 -I "$root/include")
library=(-shared -Xcompiler -fPIC)

nvcc "${flags[@]}" "$root/tests/gpu/task_smoke.cu" -o "$work/task_smoke" -ldl &
for task in "${tasks[@]}"; do
  folder=$root/tasks/$task
  nvcc "${flags[@]}" "${library[@]}" -DMARATHON_REAL=double "$folder/oracle.cu" -o "$work/$task-oracle.so" &
  nvcc "${flags[@]}" "${library[@]}" -DMARATHON_REAL=float -DMARATHON_EMULATION=1 "$folder/oracle.cu" \
    -o "$work/$task-emulation.so" &
  nvcc "${flags[@]}" "${library[@]}" "$folder/start-cuda/solution.cu" -o "$work/$task-start.so" &
done
for job in $(jobs -p); do wait "$job"; done

failed=0
for task in "${tasks[@]}"; do
  echo "== $task: CUDA start against the oracle"
  "$work/task_smoke" "$task" "$work/$task-oracle.so" "$work/$task-emulation.so" "$work/$task-start.so" "$@" ||
    failed=1
done
if "${PYTHON:-python3}" -c 'import torch, triton' 2>/dev/null; then
  "${PYTHON:-python3}" "$root/tests/gpu/task_smoke_triton.py" "$@" || failed=1
else
  echo "no torch or no Triton in ${PYTHON:-python3}: the Triton starts and the baselines were not run"
fi
exit "$failed"
