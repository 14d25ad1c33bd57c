#!/usr/bin/env bash
# The rooms' order: base ← core ← { store | judge | agent } ← run ← app, and bench → core, base.
# Also: one door a room, heavy headers in .cc files only, each with few owners.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

declare -A may=(
  [base]="base" [core]="base core" [store]="base core store" [judge]="base core judge" [agent]="base core agent"
  [run]="base core store judge agent run" [bench]="base core bench"
  [app]="base core store judge agent run app"
)
bad=0
complain() { echo "$1" >&2; bad=1; }

for room in "${!may[@]}"; do
  [ -d "src/$room" ] || continue
  while IFS=: read -r file line text; do
    header=$(sed -n 's/.*#include "\([^"]*\)".*/\1/p' <<<"$text")
    target=${header%%/*}
    [[ $header == */* ]] || continue
    [[ -d src/$target ]] || continue
    [[ " ${may[$room]} " == *" $target "* ]] || complain "$file:$line: $room must not include $header"
    # Outside base and core, another room is entered by its one door only.
    if [[ $target != "$room" && $target != base && $target != core && $header != "$target/$target.h" ]]; then
      complain "$file:$line: enter $target through $target/$target.h, not $header"
    fi
  done < <(grep -rn '#include "' "src/$room" --include='*.cc' --include='*.h' || true)
done

while IFS= read -r hit; do
  complain "$hit: a heavy header belongs into a .cc file"
done < <(grep -rnE '#include <(nlohmann/json\.hpp|CLI/|toml\+\+|httplib|curl/|sqlite3\.h|seccomp\.h)' src --include='*.h' || true)

[ $bad -eq 0 ] && echo "layers: in order"
exit $bad
