#!/usr/bin/env bash
# The installed library, as others include, link and find it. Installs the static library and the
# shared one, made of the same objects, moves them, and builds a small project with each, by two
# compilers, through CMake and pkg-config.
# MANTISSA: the command, in the build that has both libraries.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

: "${MANTISSA:?names the binary to test}"
built=$(dirname "$MANTISSA")
# shellcheck source=tests/checks.sh
source tests/checks.sh

refuses() { ! "${@:2}" >"$folder/refused" 2>&1 && grep -E -- "$1" "$folder/refused"; }
lacks() { ! grep -rE -- "$1" "${@:2}"; }

# install_to PREFIX ARGUMENTS...: as users install it, and then the folder is moved.
install_to() {
  cmake --install "$built" --prefix "$folder/installed" "${@:2}" && mv "$folder/installed" "$1"
}

# The files of a prefix besides the headers are the given ones; and all headers are there.
files_are() {
  diff <(cd "$1" && find . ! -type d ! -name '*.h' -printf '%P\n' | LC_ALL=C sort) \
    <(printf '%s\n' "${@:2}" | LC_ALL=C sort) &&
    diff -r include/mantissa "$1/include/mantissa"
}

# run_consumer PROGRAM: after five steps the weights equal the command's.
settings=(model=mlp data=fashion-mnist steps=5 threads=1)
weights_of() { grep -oP '"weights_sha256": *"\K[0-9a-f]+' "$1"; }
run_consumer() {
  rm -rf "$folder/run"
  "$1" "${settings[@]}" out="$folder/run" >"$folder/summary.json" || return
  [[ $(weights_of "$folder/summary.json") == "$expected" ]]
}
"$MANTISSA" train "${settings[@]/#/--}" --out "$folder/command" >"$folder/output" 2>&1
expected=$(weights_of "$folder/command/summary.json")
check "the command trains" test -n "$expected"

by_cmake() {  # by_cmake PREFIX COMPILER [SOURCE]: makes $folder/by_cmake/consumer
  rm -rf "$folder/by_cmake"
  cmake -S "${3:-tests/installed}" -B "$folder/by_cmake" -G Ninja -DCMAKE_PREFIX_PATH="$1" \
    -DCMAKE_CXX_COMPILER="$2" && cmake --build "$folder/by_cmake"
}
by_pkg_config() {  # by_pkg_config PREFIX COMPILER [--static]: makes $folder/by_pkg_config
  local flags
  flags=$(PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --cflags --libs "${@:3}" mantissa) || return
  # shellcheck disable=SC2086  # the words are the flags
  "$2" -std=c++20 tests/installed/main.cpp $flags -Wl,-rpath,"$1/lib" -o "$folder/by_pkg_config"
}
needs() { readelf --dynamic "$1" | grep -E "NEEDED.*\[$2"; }
needs_not() { ! needs "$@"; }

package=(lib/cmake/Mantissa/{FindNettle,FindSentencePiece,FindUtf8proc,MantissaConfig,MantissaConfigVersion}.cmake
  lib/pkgconfig/mantissa.pc)
version=$("$MANTISSA" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+')
soname=libmantissa.so.${version%.*}

check "static: installs" install_to "$folder/static"
check "static: has these files and no others" files_are "$folder/static" bin/mantissa \
  lib/libmantissa.a lib/libmantissa-mpi.so lib/cmake/Mantissa/MantissaStatic{,-release}.cmake "${package[@]}"
check "static: installs a command that runs" "$folder/static/bin/mantissa" info
check "shared: installs" install_to "$folder/shared" --component other_kind
check "shared: has these files and no others" files_are "$folder/shared" lib/libmantissa.so \
  "lib/$soname" "lib/libmantissa.so.$version" lib/cmake/Mantissa/MantissaShared{,-release}.cmake \
  "${package[@]}"

for kind in static shared; do
  prefix=$folder/$kind options=()
  [[ $kind == shared ]] || options=(--static)
  check "$kind: names no folder of the build" lacks "$PWD" "$prefix"/{include,lib/cmake,lib/pkgconfig}
  for compiler in g++ clang++; do
    check "$kind: builds by CMake and $compiler" by_cmake "$prefix" "$compiler"
    check "$kind: trains to the same weights" run_consumer "$folder/by_cmake/consumer"
    check "$kind: a program of version 0.1 runs" "$folder/by_cmake/older"
    check "$kind: builds by pkg-config and $compiler" \
      by_pkg_config "$prefix" "$compiler" "${options[@]}"
    check "$kind: trains to the same weights" run_consumer "$folder/by_pkg_config"
    if [[ $kind == shared ]]; then
      check "shared: is loaded by its soname" needs "$folder/by_cmake/consumer" "$soname\]"
      check "shared: is all that a program links" needs_not "$folder/by_pkg_config" 'lib(png|nettle)'
    fi
  done
done

# The project in the document, as it stands there.
block() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/{/^\`\`\`/d;p}" docs/library.md; }
mkdir "$folder/document"
block cmake | sed '/^add_subdirectory/,$d' >"$folder/document/CMakeLists.txt"
block cpp >"$folder/document/main.cpp"
check "builds the document's project" by_cmake "$folder/static" g++ "$folder/document"
run_document() { rm -rf "$folder/run" && (cd "$folder" && by_cmake/own) | grep weights_sha256; }
check "which trains" run_document

# README's network in C++, on the pictures of the examples.
mkdir "$folder/readme"
{
  printf '#include <mantissa/training.h>\n#include "shapes.h"\nint main() {\n'
  printf 'const Shapes shapes(1000, 0, 4, 1);\nconst mantissa::ArraySet train = shapes.arrays();\n'
  sed -n '/^```cpp$/,/^```$/{/^```/d;p}' README.md
  printf 'if (!history || !saved) return 1;\n'
  printf 'std::printf("%%.2f\\n", history->back().training.losses[0].accuracy);\n}\n'
} >"$folder/readme/main.cpp"
sed '/^add_subdirectory/,$d' "$folder/document/CMakeLists.txt" >"$folder/readme/CMakeLists.txt"
echo "target_include_directories(own PRIVATE $PWD/examples/cpp)" >>"$folder/readme/CMakeLists.txt"
check "builds README's network" by_cmake "$folder/static" g++ "$folder/readme"
# By chance one in four is right.
run_readme() { (cd "$folder" && by_cmake/own) | tee /dev/stderr | awk '{ exit !($1 > 0.5) }'; }
check "which learns" run_readme

# The examples, each of which says whether it learned.
check "builds the examples" by_cmake "$folder/static" g++ examples/cpp
run_example() { (cd "$folder" && "by_cmake/$1"); }
for example in own_network custom_op transfer; do
  check "example $example runs" run_example "$example"
done

exports=(tests/installed/check_exports)
library=$folder/shared/lib/libmantissa.so
check "shared: exports what the headers declare, and nothing else" \
  "${exports[@]}" include "$library"
# The check of exports finds both kinds of faults.
cp -r include "$folder/changed"
sed -i '/describe_data(/d' "$folder/changed/mantissa/mantissa.h"
check "a symbol that no header declares is found" \
  refuses 'describe_data.*in no public header' "${exports[@]}" "$folder/changed" "$library"
printf 'namespace mantissa { struct A { int forgotten(); }; }\n' >"$folder/changed/mantissa/a.h"
check "a declaration that is not exported is found" \
  refuses 'A::forgotten.*not exported' "${exports[@]}" "$folder/changed" "$library"

sed 's/Mantissa 0.1/Mantissa 0.2/' tests/installed/CMakeLists.txt >"$folder/changed/CMakeLists.txt"
check "another version is refused" refuses 'compatible with requested version' \
  cmake -S "$folder/changed" -B "$folder/changed/build" -DCMAKE_PREFIX_PATH="$folder/static"

finish
