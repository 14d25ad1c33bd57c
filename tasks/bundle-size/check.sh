#!/bin/sh
# The program must do all that it did: every input, both ways.
set -eu
for input in input/*.bin; do
  ./sum < "$input" > output.txt
  cmp output.txt "${input%.bin}.expected"
  sed 1,3d output.txt | ./sum -d | cmp - "$input"
done
if echo '*' | ./sum -d > /dev/null 2>&1; then
  echo "sum -d takes what is not base64" >&2
  exit 1
fi
rm -f output.txt
