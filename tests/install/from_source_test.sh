#!/usr/bin/env bash
# from_source_test.sh KILN DIRECTORY: examples/from_source, which is Kiln within another project's build, builds in DIRECTORY and runs; what is
# there from before is built on.
set -euo pipefail
kiln=$1 build=$2
export KILN_CACHE_DIR="$build/cache"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

cmake -S "$root/examples/from_source" -B "$build" -G Ninja -DFETCHCONTENT_SOURCE_DIR_KILN="$root" >/dev/null
cmake --build "$build" >"$build/build.log" 2>&1 || { cat "$build/build.log" >&2; exit 1; }
if [[ -n $(find "$build" -name kiln -type f -perm -u+x) ]] || ldd "$build/static_package" | grep libkiln; then
  echo "from_source_test: the command line was built, or a shared library of Kiln is linked" >&2
  exit 1
fi
"$kiln" compile "$root/examples/masked_softmax.graph" --dim n=2 -o "$build/softmax.kiln" -q >/dev/null
"$build/static_package" "$build/softmax.kiln" | grep -x '0.015625'
