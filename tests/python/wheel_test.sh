#!/usr/bin/env bash
# wheel_test.sh INTERPRETER BUILD_DIR: makes a wheel of the build, installs it into an empty environment, and runs there: the
# command, a model without NumPy, the tests of the package, its neighbours, and a model where there are no binutils.
set -euo pipefail
python=$1 build=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset PYTHONPATH KILN_CODEGEN KILN_VALIDATE
export KILN_CACHE_DIR=$tmp/cache PYTHONDONTWRITEBYTECODE=1

wheel=$("$root/scripts/wheel" --build "$build" -o "$tmp/wheel")
[[ $wheel == *-cp311-cp311-manylinux_2_*_x86_64.whl ]] || { echo "wheel_test: \"$wheel\" has no tag of a glibc" >&2; exit 1; }
"$python" -m venv --without-pip "$tmp/empty"
begin=$SECONDS
"$python" -m pip --python "$tmp/empty/bin/python" install -q --no-index --disable-pip-version-check "$wheel"
echo "installed in $((SECONDS - begin)) s: $(du -sh "$wheel" | cut -f1) packed, $(du -sh "$tmp/empty/lib" | cut -f1) unpacked"
mv "$tmp/empty" "$tmp/moved" # nothing in it knows where it was
"$tmp/moved/bin/python3" -m kiln --version

# Kiln's own libraries come from the wheel, and each once.
site=$("$tmp/moved/bin/python3" -c "import sysconfig; print(sysconfig.get_paths()['platlib'])")
if find "$site" -name '*.so*' -printf '%f\n' | sed 's/-[0-9a-f]*\.so/.so/; s/\.so.*//' | sort | uniq -d | grep .; then
  echo "wheel_test: the libraries above are in the wheel twice" >&2
  exit 1
fi
for text in LICENSE THIRD_PARTY.md nanobind-LICENSE halide-LICENSE.txt onednn/LICENSE; do
  [[ -s $(echo "$site"/kiln-*.dist-info/licenses)/$text ]] || { echo "wheel_test: no licence \"$text\"" >&2; exit 1; }
done

# Nothing but the wheel: no NumPy, no variables.
env -i "$tmp/moved/bin/python3" "$here/alone.py" "$root/examples/masked_softmax.graph" "$tmp/cache" built

# Without as and ld, where a mount namespace is to be had: the VM, with one notice.
# shellcheck disable=SC2016  # for the shell in the namespace
hide='for tool in as ld; do for dir in /usr/local/bin /usr/bin /bin; do [ ! -e $dir/$tool ] || mount --bind "$1/nothing" $dir/$tool; done; done; shift; exec "$@"'
: >"$tmp/nothing" # it cannot be executed
chmod 000 "$tmp/nothing"
if unshare -rm true 2>/dev/null; then
  unshare -rm sh -c "$hide" sh "$tmp" env -i "$tmp/moved/bin/python3" "$here/alone.py" "$root/examples/masked_softmax.graph" "$tmp/other" vm
else
  echo "wheel_test: no namespaces here; the case without binutils is left out"
fi

# The tests of the package, with the packages of scripts/fetch_python beside the wheel.
for test in api_test neighbours_test; do
  PYTHONPATH="$root/.deps/python" "$tmp/moved/bin/python3" "$here/$test.py"
done
