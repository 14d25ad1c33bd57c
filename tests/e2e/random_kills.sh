#!/usr/bin/env bash
# SIGKILL at random moments, again and again until the run ends: the same fold as the uninterrupted run's.
#   RANDOM_KILLS (40)  RANDOM_SEED (1)
source "$(dirname "$0")/lib.sh"
kills=${RANDOM_KILLS:-40} RANDOM=${RANDOM_SEED:-1} done_kills=0 round=0
start() { exec "$MARATHON" run "$root/tests/e2e/tiny" --evaluations 30 --no-report --name "$1"; }

(start whole) >/dev/null 2>&1
want=$(fingerprint whole)
while [ "$done_kills" -lt "$kills" ]; do
  round=$((round + 1)) name=r$round
  rm -rf "$MARATHON_HOME/runs/$name"
  (start "$name") >/dev/null 2>&1 &
  while true; do
    pid=$!
    sleep "0.$(printf '%03d' $((RANDOM % 250 + 20)))"
    kill -KILL $pid 2>/dev/null && done_kills=$((done_kills + 1))
    code=0; wait $pid 2>/dev/null || code=$?
    [ $code = 0 ] && break
    [ $code = 137 ] || { echo "round $round: exit $code"; exit 1; }
    if [ ! -e "$MARATHON_HOME/runs/$name/log.db" ]; then
      (start "$name") >/dev/null 2>&1 &
    elif [ "$(json "$("$MARATHON" status "$name" --json)" 'j["ending"]')" != None ]; then
      break
    else
      ("$MARATHON" resume "$name" --no-report) >/dev/null 2>"$scratch/err" &
    fi
  done
  verified=$("$MARATHON" verify --json "$name")
  [ "$(json "$verified" 'j["ok"], j["fingerprint"]')" = "(True, '$want')" ] || { echo "round $round: $verified, want $want"; exit 1; }
done
[ -z "$(left_running)" ]
echo "$done_kills kills over $round runs: fold equal, log whole"
