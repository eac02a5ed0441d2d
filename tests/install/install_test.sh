#!/usr/bin/env bash
# install_test.sh BUILD_DIR: installs, moves the tree, and checks that its programs start there and that
# programs outside, README's among them, build and run with find_package(kiln).
set -euo pipefail
build=$1
consumer=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/consumer
root=$consumer/../../..
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

# The example as it stands in README.md.
sed -n '/^```cpp$/,/^```$/{/^```/!p}' "$root/README.md" >"$tmp/readme.cc"
cmake -S "$consumer" -B "$tmp/build" -G Ninja -DCMAKE_PREFIX_PATH="$tmp/moved" -DREADME="$tmp/readme.cc" >/dev/null
cmake --build "$tmp/build" >/dev/null
"$tmp/build/consumer" | grep -x 'x86-64[v34-]* 1.5 -2 8'
cd "$root"
"$tmp/moved/bin/kiln" compile examples/masked_softmax.graph --dim n=2 -o "$tmp/softmax.kiln" -q
for example in readme package; do
  KILN_CACHE_DIR="$tmp/cache" KILN_CODEGEN="$tmp/moved/libexec/kiln/kiln-codegen" \
    KILN_VALIDATE="$tmp/moved/libexec/kiln/kiln-validate" "$tmp/build/$example" "$tmp/softmax.kiln" | grep -x '0.015625'
done
