#!/usr/bin/env bash
# abi_test.sh KILN_H ABI: the C interface is binary compatible with what ABI records, by abidiff: types of functions, layouts of
# structs, values of enumerations. With KILN_WRITE_SYMBOLS=1 it writes ABI. What may change: docs/compatibility.md.
set -euo pipefail
header=$1 abi=$2
command -v abidiff >/dev/null || { echo "abi_test: skipped: there is no abidiff (scripts/setup --lint installs it)" >&2; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# A library that defines what the header declares: its debug information is the interface, whatever the compiler's flags for Kiln are.
python3 - "$header" >"$tmp/kiln_abi.c" <<'EOF'
import re, sys
text = re.sub(r'/\*.*?\*/', '', open(sys.argv[1]).read(), flags=re.S)
declared = [' '.join(one.split()) for one in re.findall(r'^KILN_C_API ([^;{}]*\));', text, flags=re.M)]
print('#include "kiln.h"')
for function in declared:
    print(function, '{ __builtin_trap(); }')
assert len(declared) == text.count('\nKILN_C_API '), 'a declaration was not understood'
EOF
cc -std=c11 -g -fPIC -shared -I "$(dirname "$header")" -Wl,-soname,libkiln.so.0 "$tmp/kiln_abi.c" -o "$tmp/libkiln.so"
read=(--headers-dir "$(dirname "$header")")
if [[ ${KILN_WRITE_SYMBOLS-} == 1 ]]; then
  abidw "${read[@]}" --no-show-locs --no-corpus-path --no-comp-dir-path --type-id-style hash "$tmp/libkiln.so" >"$abi"
  exit 0
fi
abidiff --no-show-locs "$abi" "$tmp/libkiln.so" || {
  echo "abi_test: \"$header\" is not binary compatible with \"$abi\", or has more; KILN_WRITE_SYMBOLS=1 writes it anew" >&2
  exit 1
}
