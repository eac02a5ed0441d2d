#!/usr/bin/env bash
# enums_test.sh SOURCE INCLUDE LIBRARY: a program of g++ -O2 passes public enums by value to the library, whichever compiler that is of
# (docs/compatibility.md).
set -euo pipefail
source=$1 include=$2 library=$3
command -v g++ >/dev/null || { echo "enums_test: skipped: there is no g++" >&2; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# shellcheck disable=SC2046  # words
g++ -std=c++20 -O2 -Wall -Wextra -Werror -I "$include" "$source" -o "$tmp/enums" "$library" \
  -Wl,-rpath,"$(dirname "$library")" $(pkg-config --libs absl_status absl_statusor absl_strings)
"$tmp/enums"
