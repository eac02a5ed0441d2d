#!/usr/bin/env bash
# digits_test.sh PROGRAM SEEDS: examples/train_digits/run with a built train_digits. Exit 77 where the digits cannot be fetched and
# KILN_OFFLINE says that they need not be.
set -uo pipefail
run=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/examples/train_digits/run
"$run" --program "$1" "$2"
code=$?
if [[ $code == 7 && ${KILN_OFFLINE-} == 1 ]]; then
  echo "the digits are not there, and are not fetched; skipped"
  exit 77
fi
exit $code
