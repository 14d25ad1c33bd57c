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
# A link, and a name that nobody may edit, are not judged as something else in silence.
mkdir "$scratch/link"
cp -r "$root/tasks/bundle-size/start/." "$scratch/link/"
mv "$scratch/link/tool.c" "$scratch/real.c"
ln -s "$scratch/real.c" "$scratch/link/tool.c"
expect_exit 2 "$MARATHON" attempt mine --from "$scratch/link" --note "a link"
grep -q "'tool.c' is a symbolic link" "$scratch/err"
cp "$scratch/real.c" "$scratch/from/Tool.c"
expect_exit 0 "$MARATHON" attempt mine --from "$scratch/from" --note "a mistyped name beside the right one"
grep -q "not taken.*Tool.c" "$scratch/err"
# A log that was cut stays cut, whoever goes on with it.
"$MARATHON" run "$root/tasks/bundle-size" --evaluations 3 --name cut --no-report >/dev/null
events=$(json "$("$MARATHON" status cut --json)" 'j["events"]')
db=$MARATHON_HOME/runs/cut/log.db
triggers=$(sqlite3 "$db" "SELECT group_concat(sql, ';') FROM sqlite_master WHERE type = 'trigger'")
names=$(sqlite3 "$db" "SELECT name FROM sqlite_master WHERE type = 'trigger'")
for name in $names; do sqlite3 "$db" "DROP TRIGGER $name"; done
sqlite3 "$db" "DELETE FROM events WHERE sequence > $((events - 5))"
sqlite3 "$db" "$triggers"
expect_exit 3 "$MARATHON" verify cut
"$MARATHON" resume cut --no-report >/dev/null 2>"$scratch/err" || true
grep -q 'its tail is gone' "$scratch/err"
expect_exit 3 "$MARATHON" verify cut
grep -q 'goes on behind a cut' "$scratch/out"
