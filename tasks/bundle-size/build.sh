#!/bin/sh
# Builds ./sum from tool.c with the choices of params.toml. One pass of the shell, no process but the
# compiler's: an evaluation should take a tenth of a second.
set -eu
while read -r name equals value; do
  [ "$equals" = "=" ] || continue
  case "$value" in *[!0-9]* | '') echo "params.toml: $name needs a whole number" >&2 && exit 1 ;; esac
  case "$name" in [A-Z]*) eval "$name=\$value" ;; esac
done < params.toml

case "$OPTIMISE" in 0) flags=-O2 ;; 1) flags=-Os ;; 2) flags=-O1 ;; *) flags=-O3 ;; esac
[ "$SECTIONS" = 0 ] || flags="$flags -ffunction-sections -fdata-sections -Wl,--gc-sections"
[ "$UNWIND" = 0 ] || flags="$flags -fno-asynchronous-unwind-tables -fno-unwind-tables"
[ "$STRIP" = 0 ] || flags="$flags -s"
[ "$PIE" = 0 ] || flags="$flags -fno-pie -no-pie"
case "$LAYOUT" in 1 | 3) flags="$flags -Wl,-z,noseparate-code" ;; esac
case "$LAYOUT" in 2 | 3) flags="$flags -Wl,-z,norelro" ;; esac
[ "$NOTES" = 0 ] || flags="$flags -fno-ident -Wl,--build-id=none"
case "$HASH" in 1) flags="$flags -Wl,--hash-style=gnu" ;; 2) flags="$flags -Wl,--hash-style=sysv" ;; esac

# shellcheck disable=SC2086  # flags are words
"${CC:-gcc}" -std=c11 -pipe -DCRC_TABLE="$CRC_TABLE" $flags tool.c -o sum
if [ "$STRIP" = 2 ]; then
  objcopy -R .comment -R .note.ABI-tag -R .note.gnu.property -R .gnu.version sum 2>/dev/null
fi
