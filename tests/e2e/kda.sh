#!/usr/bin/env bash
# The headline CPU task for real: compiler, jail, oracle, clocks. A handful of evaluations; no figure is asserted.
source "$(dirname "$0")/lib.sh"
"$MARATHON" run "$root/tasks/kda-cpu" --evaluations 4 --name kda >"$scratch/log.txt" 2>&1 || { cat "$scratch/log.txt"; exit 1; }
status=$("$MARATHON" status kda --json)
[ "$(json "$status" 'j["evaluations"]')" = 4 ]
[ "$(json "$status" 'j["best"]["speedup"] > 0')" = True ]
"$MARATHON" verify kda >/dev/null
verdict=$("$MARATHON" judge "$root/tasks/kda-cpu" --quick --json)
[ "$(json "$verdict" 'j["verdict"] in ("same", "slower", "faster", "ambiguous")')" = True ]
[ "$(json "$verdict" 'j["provenance"]["sandbox"] != ""')" = True ]
[ -z "$(left_running)" ]
