#!/usr/bin/env bash
# install_test.sh BUILD_DIR: installs, moves the tree, and checks that its programs start there and that
# programs outside, README's among them, build and run with find_package(kiln).
set -euo pipefail
build=$1
consumer=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/consumer
root=$consumer/../../..
strict="-Wall -Wextra -Wpedantic -Werror"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export KILN_CACHE_DIR="$tmp/cache"

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

# What is installed for others: public headers alone, and not too many.
headers=$(cd "$tmp/moved/include" && find . -type f | wc -l)
if [[ $headers -gt 22 || -n $(find "$tmp/moved" -name '*.a') ]]; then
  echo "install_test: $headers headers, archives: $(find "$tmp/moved" -name '*.a' | wc -l); at most 22 and none" >&2
  exit 1
fi

# The examples as they stand in README.md and docs/api.md.
python3 -B "$(dirname "$consumer")/page_programs.py" "$root/docs/api.md" "$tmp"
for language in cpp c; do
  sed -n "/^\`\`\`$language\$/,/^\`\`\`\$/{/^\`\`\`/!p}" "$root/README.md" >"$tmp/readme.${language/cpp/cc}"
done
for project in "$consumer" "$root/examples/embed"; do
  where=$tmp/build/$(basename "$project")
  cmake -S "$project" -B "$where" -G Ninja -DCMAKE_PREFIX_PATH="$tmp/moved" -DREADME="$tmp/readme" -DPAGE="$tmp/page" --no-warn-unused-cli \
    -DCMAKE_C_FLAGS="$strict" -DCMAKE_CXX_FLAGS="$strict" >/dev/null 2>"$tmp/warnings" || { cat "$tmp/warnings" >&2; exit 1; }
  cmake --build "$where" >"$tmp/build.log" 2>&1 || { cat "$tmp/build.log" >&2; exit 1; }
  if [[ -s $tmp/warnings ]] || grep -i warning "$tmp/build.log"; then
    cat "$tmp/warnings" >&2
    exit 1
  fi
done
cd "$root"
"$tmp/moved/bin/kiln" compile examples/masked_softmax.graph --dim n=2 -o "$tmp/softmax.kiln" -q
for program in consumer/readme consumer/readme_c embed/package embed/package_c embed/package_hpp; do
  "$tmp/build/$program" "$tmp/softmax.kiln" 2>"$tmp/told" | grep -x '0.015625'
  if [[ -s $tmp/told ]]; then
    echo "install_test: $program says:" "$(cat "$tmp/told")" >&2
    exit 1
  fi
done

for program in page page_c page17; do
  "$tmp/build/consumer/$program"
done

# What docs/tutorial.md and docs/howto build against an installed tree.
python3 -B tests/scripts/guides_test.py "$tmp/moved/bin/kiln" "$build" "$tmp/moved"
# Models that are compiled while a project is built (kiln_add_model): of the right types alone, and again when they change.
cp -r "$root/examples/add_model" "$root/examples/masked_softmax.graph" "$tmp"
export KILN_CACHE_DIR=$tmp/cache
for generator in Ninja "Unix Makefiles"; do
  where=$tmp/build/add_model.${generator% *}
  again() { cmake --build "$where" >"$tmp/build.log" 2>&1 || { cat "$tmp/build.log" >&2; exit 1; }; }
  cmake -S "$tmp/add_model" -B "$where" -G "$generator" -DCMAKE_PREFIX_PATH="$tmp/moved" -DCMAKE_CXX_FLAGS="$strict" \
    -DMODEL="$tmp/masked_softmax.graph" >/dev/null
  again
  for program in classify classify_static; do "$where/$program" | grep -x '0.015625'; done
  made=$(stat -c %Y.%y "$where/softmax.kiln" "$where/classify" "$where/classify_static")
  again
  [[ $made == "$(stat -c %Y.%y "$where/softmax.kiln" "$where/classify" "$where/classify_static")" ]] ||
    { echo "install_test: $generator makes models anew though nothing has changed" >&2; exit 1; }
  sed -i 's/^const scale .*/const scale : f32 [] = 0.25/' "$tmp/masked_softmax.graph"
  sleep 1.1
  touch "$tmp/masked_softmax.graph"
  again
  for file in softmax.kiln softmax_inside.kiln classify_static; do
    [[ $where/$file -nt $tmp/masked_softmax.graph ]] || { echo "install_test: $generator leaves $file as it was" >&2; exit 1; }
  done
  # What the depfile alone names.
  sleep 1.1
  touch "$tmp/add_model/shapes.txt"
  again
  [[ $where/softmax.kiln -nt $tmp/add_model/shapes.txt && ! $where/softmax_inside.kiln -nt $tmp/add_model/shapes.txt ]] ||
    { echo "install_test: $generator does not read the depfile" >&2; exit 1; }
  cp "$root/examples/masked_softmax.graph" "$tmp"
done
sed -i 's/std::vector<float> x/std::vector<double> x/; s/1.0f/1.0/' "$tmp/add_model/classify.cc"
if cmake --build "$where" >"$tmp/build.log" 2>&1 || ! grep -q 'classify.cc.*error' "$tmp/build.log"; then
  echo "install_test: a program with an input of another type is built" >&2
  exit 1
fi

# By pkg-config, without CMake; the libraries are found where the tree lies.
libdir=$(dirname "$(find "$tmp/moved" -name libkiln.so)")
# shellcheck disable=SC2046  # words
cc "$tmp/readme.c" -o "$tmp/by_pkg_config" -std=c11 $(PKG_CONFIG_PATH="$libdir/pkgconfig" pkg-config --cflags --libs kiln_c) \
  -Wl,-rpath,"$libdir"
"$tmp/by_pkg_config" | grep -x '0.015625'
