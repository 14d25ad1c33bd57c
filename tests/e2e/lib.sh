# Sourced by every end-to-end test: a home of its own, helpers, and a line that says where it failed.
# Expects MARATHON (the program) in the environment; ctest sets it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${MARATHON:=$root/build/release/bin/marathon}"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/marathon-e2e-XXXXXX")
export MARATHON_HOME=$scratch/home
trap 'rm -rf "$scratch"' EXIT
trap 'echo "FAILED at ${BASH_SOURCE[1]:-$0}:$LINENO: $BASH_COMMAND" >&2' ERR

# json FILE-OR-TEXT EXPRESSION: evaluates a Python expression over the object `j`.
json() { python3 -c 'import json,sys; j=json.loads(sys.argv[1]); print(eval(sys.argv[2]))' "$1" "$2"; }
# expect_exit CODE command …: runs it and wants exactly this exit code.
expect_exit() {
  local want=$1 got=0
  shift
  "$@" >"$scratch/out" 2>"$scratch/err" || got=$?
  [ "$got" = "$want" ] || { echo "exit $got instead of $want: $*"; cat "$scratch/out" "$scratch/err"; return 1; }
}
# Processes whose command line holds the scratch folder's name: nothing may be left running.
left_running() { pgrep -f "$(basename "$scratch")" | grep -v "^$$\$" || true; }
fingerprint() { json "$("$MARATHON" verify --json "$1")" 'j["fingerprint"]'; }
