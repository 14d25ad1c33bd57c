#!/usr/bin/env bash
# Installs what Marathon's build, tests and judge need, from Debian's or Ubuntu's own packages.
#   tools/install.sh [build|test|check]…   build: to build and run · test: and to test · check: and for sanitizers, fuzzing, lint
# Asks apt only when something is missing. Needs root or sudo only then.
set -euo pipefail

build=(g++ cmake ninja-build ccache pkg-config git binutils nlohmann-json3-dev libcli11-dev
       libtomlplusplus-dev libexpected-dev libfmt-dev libseccomp-dev libssl-dev libsqlite3-dev
       libcurl4-openssl-dev valgrind)
test=("${build[@]}" libgtest-dev libgmock-dev libbenchmark-dev sqlite3 python3)
check=("${test[@]}" clang libclang-rt-dev-any clang-tidy clang-format)

wanted=()
for group in "${@:-build}"; do
  case $group in
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    check) wanted+=("${check[@]}") ;;
    *) echo "install.sh: unknown group '$group' (build, test or check)" >&2; exit 2 ;;
  esac
done

# The sanitizer runtime is named after clang's version: 14 on Debian 12, 18 on Ubuntu 24.04.
clang_runtime() {
  local version
  version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -1)
  echo "libclang-rt-${version:-14}-dev"
}

missing=()
for package in $(printf '%s\n' "${wanted[@]}" | sort -u); do
  [ "$package" = libclang-rt-dev-any ] && package=$(clang_runtime)
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "install.sh: no apt-get here. Install these by hand: ${missing[*]}" >&2
  exit 3
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install.sh: run as root: apt-get install ${missing[*]}" >&2; exit 3; }
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
