#!/usr/bin/env bash
# symbols_test.sh LIBRARY LIST: what the shared library exports is what LIST says, a line each; with KILN_WRITE_SYMBOLS=1 it
# writes LIST. A symbol that goes, or whose type changes, needs another SOVERSION.
set -euo pipefail
library=$1 list=$2
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | LC_ALL=C sort -u | c++filt)
if [[ ${KILN_WRITE_SYMBOLS-} == 1 ]]; then
  printf '%s\n' "$exported" >"$list"
  exit 0
fi
diff -u "$list" <(printf '%s\n' "$exported") || {
  echo "symbols_test: \"$library\" exports other symbols than \"$list\" says (< and -: gone); KILN_WRITE_SYMBOLS=1 writes it anew" >&2
  exit 1
}
# Loaded when something is signed, checked or decompressed, and not before (persistent_cache/signature.h, base/zstd.h).
if readelf -d "$library" | grep -E 'NEEDED.*lib(crypto|zstd|xxhash)'; then
  echo "symbols_test: \"$library\" needs a library that it is to load on demand" >&2
  exit 1
fi
