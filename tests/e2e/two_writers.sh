#!/usr/bin/env bash
# The second writer is refused by the name of the first, before anything else happens.
source "$(dirname "$0")/lib.sh"
"$MARATHON" run "$root/tests/e2e/tiny" --evaluations 400 --name busy --no-report >/dev/null 2>&1 &
writer=$!
until [ "$("$MARATHON" log busy 2>/dev/null | wc -l)" -gt 5 ]; do sleep 0.05; done
expect_exit 3 "$MARATHON" resume busy
grep -q "pid $writer" "$scratch/err"
expect_exit 3 "$MARATHON" attempt busy --from "$root/tests/e2e/tiny/start" --note "second writer"
grep -q "pid $writer" "$scratch/err"
"$MARATHON" status busy --json >/dev/null   # readers are welcome meanwhile
kill -INT $writer
code=0; wait $writer || code=$?
[ $code = 130 ]
"$MARATHON" verify busy >/dev/null
[ "$(json "$("$MARATHON" status busy --json)" 'j["ending"]')" = None ]
