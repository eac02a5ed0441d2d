#!/usr/bin/env bash
# install_test.sh BUILD_DIR: installs, moves the tree, and checks that its programs start there and that a
# program outside builds and runs with find_package(kiln).
set -euo pipefail
build=$1
consumer=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/consumer
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

cmake --install "$build" --prefix "$tmp/first" >/dev/null
mv "$tmp/first" "$tmp/moved"
"$tmp/moved/bin/kiln" --version
"$tmp/moved/libexec/kiln/kiln-codegen" --version
# Every shared library that is not the system's comes from the tree.
if ldd "$tmp/moved/bin/kiln" "$tmp/moved/libexec/kiln/kiln-codegen" |
  grep -E 'not found|lib(absl|kdnn|komp|Halide|protobuf)' | grep -v "$tmp/moved"; then
  echo "install_test: the libraries above are not taken from the tree" >&2
  exit 1
fi
# oneDNN runs on Kiln's threads.
if ldd "$tmp/moved/bin/kiln" | grep -E 'libgomp|libdnnl'; then
  echo "install_test: the libraries above are not to be linked" >&2
  exit 1
fi

cmake -S "$consumer" -B "$tmp/build" -G Ninja -DCMAKE_PREFIX_PATH="$tmp/moved" >/dev/null
cmake --build "$tmp/build" >/dev/null
"$tmp/build/consumer" | grep -x 'x86-64[v34-]* 1.5 -2 8'
