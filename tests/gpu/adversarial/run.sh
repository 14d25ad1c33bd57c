#!/usr/bin/env bash
# Judges every fixture for a GPU and wants the verdict in its first line: `// expect: wrong|crashed`.
#   tests/gpu/adversarial/run.sh [--without-gpu] [--out FILE] [PATTERN …]
# PATTERN: shell patterns of names ('3*', '*.py'); all of cheats/ and honest/ without one.
# --without-gpu: what is decided before a GPU is needed; everything else must get as far as that.
# --out: every result as JSON. Ends with 77 without nvcc, or without a GPU unless --without-gpu.
source "$(dirname "$0")/../../e2e/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
without_gpu=0 out="" patterns=()
while [ $# -gt 0 ]; do
  case $1 in
    --without-gpu) without_gpu=1 ;;
    --out) out=$2; shift ;;
    -*) sed -n '2,6s/^# //p' "$0"; exit 2 ;;
    *) patterns+=("$1") ;;
  esac
  shift
done
if ! command -v nvcc >/dev/null && ! [ -x /usr/local/cuda/bin/nvcc ]; then echo "no nvcc here"; exit 77; fi
[ $without_gpu = 1 ] || [ -e /dev/nvidiactl ] || { echo "no GPU here"; exit 77; }

# After these the GPU is asked again with an honest kernel.
dangerous=" 13 29 30 31 32 33 35 37 38 54 "
no_driver=/nonexistent/libcuda.so

cp -r "$here/task" "$scratch/cold"
cp -r "$here/task" "$scratch/warm"
sed -i 's/^cache = .*/cache = "warm"/' "$scratch/warm/task.toml"

header() { sed -n "1,4s/^\(\/\/\|#\) $1: *//p" "$2"; }
wanted() {
  [ ${#patterns[@]} -gt 0 ] || return 0
  local pattern
  for pattern in "${patterns[@]}"; do
    # shellcheck disable=SC2053
    [[ $1 == $pattern || ${1%.*} == $pattern ]] && return 0
  done
  return 1
}
# judge FIXTURE: leaves NAME.verdict (or NAME.error) in the scratch folder.
judge() {
  local fixture=$1 name folder cache
  name=$(basename "$fixture") cache=$(header cache "$fixture")
  folder=$scratch/candidates/$name
  mkdir -p "$folder"
  cp "$fixture" "$folder/solution.${fixture##*.}"
  "$MARATHON" judge "$scratch/${cache:-cold}" --candidate "$folder" --quick --json \
    >"$scratch/$name.verdict" 2>"$scratch/$name.error" || true
}
export -f judge header
export scratch MARATHON

fixtures=()
for fixture in "$here"/{cheats,honest}/*.{cu,py}; do
  if wanted "$(basename "$fixture")"; then fixtures+=("$fixture"); fi
done
[ ${#fixtures[@]} -gt 0 ] || { echo "no fixture has such a name"; exit 2; }

# Without a driver a judge stops where it needs a GPU: that builds all of them, as many at a time as
# there are cores, and the build cache has them afterwards.
build_all() {
  printf '%s\0' "${fixtures[@]}" |
    MARATHON_CUDA_DRIVER=$no_driver xargs -0 -P "$(nproc)" -I{} bash -c 'judge "$1"' _ {}
}

# look FIXTURE SECONDS: one line, one row of the JSON; false when it is not as expected.
look() {
  python3 "$here/look.py" "$1" "$scratch/$(basename "$1")" "$2" $without_gpu "$scratch/rows"
}

start=$SECONDS failed=0
build_all
echo "built ${#fixtures[@]} in $((SECONDS - start)) s"
for fixture in "${fixtures[@]}"; do
  name=$(basename "$fixture") began=$(date +%s.%N)
  if [ $without_gpu = 0 ]; then
    judge "$fixture"
    # `ambiguous` says nothing about a candidate: something else was on the GPU.
    if grep -q '"verdict": *"ambiguous"' "$scratch/$name.verdict"; then judge "$fixture"; fi
  fi
  look "$fixture" "$(python3 -c "import time; print(time.time() - $began)")" || failed=$((failed + 1))
  if [ $without_gpu = 0 ] && [[ $fixture == */cheats/* && $dangerous == *" ${name%%_*} "* ]]; then
    began=$(date +%s.%N)
    judge "$here/honest/01_plain.cu"
    look "$here/honest/01_plain.cu" "$(python3 -c "import time; print(time.time() - $began)")" ||
      failed=$((failed + 1))
  fi
done
left=$(left_running)
[ -z "$left" ] || { echo "left running: $left"; failed=$((failed + 1)); }
[ -z "$out" ] || python3 "$here/look.py" --collect "$scratch/rows" >"$out"
echo "${#fixtures[@]} fixtures, $failed DIFFER, $((SECONDS - start)) s"
[ $failed -eq 0 ]
