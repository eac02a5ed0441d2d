#!/usr/bin/env bash
# debian_packages_test.sh BUILD_DIR: makes the Debian packages, has lintian judge them, unpacks them where nothing else is, and runs
# a model there: compiled by the one package, and from a program that has the runtime's alone.
set -euo pipefail
build=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
command -v lintian >/dev/null || { echo "debian_packages_test: no lintian; scripts/setup --lint installs it"; exit 77; }

export DPKG_DEB_COMPRESSOR_LEVEL=1 # what is in them is judged, not their size
# Whoever packages names himself; lintian refuses the address that stands in for him.
contact="Kiln's test <kiln@packages.debian.org>"
(cd "$build" && cpack -G DEB -D "CPACK_PACKAGE_CONTACT=$contact" -B "$tmp/made" >"$tmp/log" 2>&1) || { cat "$tmp/log" >&2; exit 1; }
packages=("$tmp"/made/*.deb)
[[ ${#packages[@]} == 4 ]] || { echo "debian_packages_test: ${#packages[@]} packages, not 4" >&2; exit 1; }
lintian --fail-on error,warning "${packages[@]}"

for package in "${packages[@]}"; do
  dpkg-deb --extract "$package" "$tmp/all"
done
dpkg-deb --extract "$tmp"/made/libkiln-runtime0_*.deb "$tmp/runtime"
export KILN_CACHE_DIR=$tmp/cache
"$tmp/all/usr/bin/kiln" compile -q "$root/examples/masked_softmax.graph" --dim n=2 -o "$tmp/softmax.kiln"
cc "$root/examples/embed/package.c" -I "$tmp/all/usr/include" -L "$tmp/runtime/usr/lib" -l:libkiln_runtime.so.0 \
  -Wl,-rpath,"$tmp/runtime/usr/lib" -Wl,-rpath-link,"$tmp/runtime/usr/lib/kiln" -o "$tmp/package"
env -i "$tmp/package" "$tmp/softmax.kiln" | grep -x '0.015625'
