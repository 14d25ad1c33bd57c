#!/usr/bin/env bash
# A full disk, a short write and an I/O error at each write: nothing is lost, and it goes on when there is room.
#   FAULT_STEP (1: each write)
source "$(dirname "$0")/lib.sh"
run() { "$MARATHON" run "$root/tests/e2e/tiny" --evaluations 6 --no-report --name "$1" >"$scratch/$1.out" 2>"$scratch/$1.err"; }
run whole
want=$(fingerprint whole)
writes=${FAULT_WRITES:-60}

for kind in enospc short eio; do
  for n in $(seq 1 "${FAULT_STEP:-1}" "$writes"); do
    name=$kind-$n code=0
    MARATHON_TEST_FAULT=$kind:$n run "$name" || code=$?
    if [ $code != 0 ]; then
      [ $code = 3 ] || { echo "$name: exit $code"; cat "$scratch/$name.err"; exit 1; }
      [ -s "$scratch/$name.err" ]
      [ -e "$MARATHON_HOME/runs/$name/log.db" ] || continue
      "$MARATHON" resume "$name" --no-report >/dev/null 2>"$scratch/err" || { grep -q 'never started\|start a new' "$scratch/err" && continue; cat "$scratch/err"; exit 1; }
    fi
    verified=$("$MARATHON" verify --json "$name")
    [ "$(json "$verified" 'j["ok"], j["fingerprint"]')" = "(True, '$want')" ] || { echo "$name: $verified, want $want"; exit 1; }
    rm -rf "$MARATHON_HOME/runs/$name"
  done
done
echo "faults at each of $writes writes, three kinds: fold equal, log whole"

# prune removes nothing that it could not put on record.
run pruned
want=$("$MARATHON" prune --dry-run --json pruned)
[ "$(json "$want" 'j["removed_files"] > 0')" = True ]
MARATHON_TEST_FAULT=eio:1+1000 expect_exit 3 "$MARATHON" prune pruned
[ "$(json "$("$MARATHON" verify --json pruned)" 'j["ok"]')" = True ]
[ "$("$MARATHON" prune --dry-run --json pruned)" = "$want" ]
echo "prune with a broken disk: nothing is lost"
