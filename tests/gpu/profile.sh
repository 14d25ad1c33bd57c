#!/usr/bin/env bash
# Judges candidates of GPU tasks with `marathon judge` and shows their profiles by ncu.
#   tests/gpu/profile.sh OUT_FOLDER TASK_FOLDER [CANDIDATE_FOLDER …]
# Without a candidate: every start* folder of the task. EFFORT quick (the default) or full; UNSAFE=1: without the jail.
# Leaves verdict, profile.txt (ncu's table) and a log for each. Needs nvcc, ncu and a GPU: exits with 77 without. BIN: the folder of marathon.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$1 task=$(cd "$2" && pwd)
shift 2
mkdir -p "$out"
out=$(cd "$out" && pwd)
bin=${BIN:-$root/build/release/bin}
command -v nvcc >/dev/null && [ -e /dev/nvidiactl ] || { echo "no nvcc or no GPU here"; exit 77; }
[ $# -gt 0 ] || set -- "$task"/start*
for candidate in "$@"; do
  name=$(basename "$task")-$(basename "$candidate")
  mkdir -p "$out/$name"
  cat >"$out/$name/request.json" <<JSON
{"schema": 1, "task_folder": "$task", "candidate_folder": "$(realpath "$candidate")", "cache_folder": "$out/cache",
 "result_folder": "$out/$name", "effort": "${EFFORT:-quick}", "race": false, "profile": true}
JSON
  echo "-- $name"
  "$bin/marathon" judge --request "$out/$name/request.json" --result "$out/$name/verdict.json" \
    ${UNSAFE:+--unsafe-no-sandbox} >"$out/$name/log" 2>&1 || { tail -5 "$out/$name/log"; continue; }
  python3 - "$out/$name/verdict.json" <<'PY'
import json, sys
verdict = json.load(open(sys.argv[1]))
by = verdict["provenance"]
print(f"{verdict['verdict']}  {verdict['speedup']:.3f}  profile {by['profile_s']:.1f} s")
print("\n".join("    " + reason[:300] for reason in verdict["reasons"]))
profile = verdict.get("profile") or {"source": "-", "sentences": [], "figures": {}}
print("  profile by", profile["source"])
print("\n".join("    " + sentence for sentence in profile["sentences"]))
print("   ", ", ".join(f"{name} {value:g}" for name, value in profile["figures"].items()))
PY
done
