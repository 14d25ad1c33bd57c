#!/usr/bin/env bash
# A person's own candidate: judged, logged, the same files twice answered from the log.
source "$(dirname "$0")/lib.sh"
"$MARATHON" run "$root/tasks/bundle-size" --evaluations 4 --name mine --no-report >/dev/null
before=$(json "$("$MARATHON" status mine --json)" 'j["evaluations"]')
mkdir "$scratch/from"
cp -r "$root/tasks/bundle-size/start/." "$scratch/from/"
for file in "$scratch"/from/*; do [ "${file##*.}" = toml ] || { echo "" >>"$file"; break; }; done
"$MARATHON" attempt mine --from "$scratch/from" --note "a blank line changes nothing" >/dev/null
after=$("$MARATHON" status mine --json)
[ "$(json "$after" 'j["evaluations"]')" = $((before + 1)) ]
"$MARATHON" attempt mine --from "$scratch/from" --note "the same again" >/dev/null
[ "$(json "$("$MARATHON" status mine --json)" 'j["evaluations"]')" = $((before + 1)) ]
"$MARATHON" log mine --json | grep -q 'a blank line changes nothing'
"$MARATHON" verify mine >/dev/null
