#!/bin/sh
# Builds ./sum from tool.c with the choices of params.toml.
set -eu
value() { sed -n "s/^$1 *= *\([0-9]*\)$/\1/p" params.toml; }
pick() { # NAME word-of-value-0 word-of-value-1 …
  index=$(value "$1")
  shift "$((index + 1))"
  echo "$1"
}

flags="$(pick OPTIMISE -O2 -Os -O1 -O3)"
flags="$flags $(pick SECTIONS '' '-ffunction-sections -fdata-sections -Wl,--gc-sections')"
flags="$flags $(pick UNWIND '' '-fno-asynchronous-unwind-tables -fno-unwind-tables')"
flags="$flags $(pick STRIP '' -s -s)"
flags="$flags $(pick PIE '' '-fno-pie -no-pie')"
flags="$flags $(pick LAYOUT '' -Wl,-z,noseparate-code -Wl,-z,norelro '-Wl,-z,noseparate-code -Wl,-z,norelro')"
flags="$flags $(pick NOTES '' '-fno-ident -Wl,--build-id=none')"
flags="$flags $(pick HASH '' -Wl,--hash-style=gnu -Wl,--hash-style=sysv)"

# shellcheck disable=SC2086
"${CC:-gcc}" -std=c11 -DCRC_TABLE="$(value CRC_TABLE)" $flags tool.c -o sum
if [ "$(value STRIP)" = 2 ]; then
  objcopy -R .comment -R .note.ABI-tag -R .note.gnu.property -R .gnu.version sum 2>/dev/null
fi
