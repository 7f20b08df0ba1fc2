#!/usr/bin/env bash
# Mantissa inside another project, by add_subdirectory: that project sees only the public interface,
# each keeps its own options, and no tests come along. Configures the project, compiles its own
# file, and asks Ninja what it would do for the rest: building everything takes minutes.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# shellcheck source=tests/checks.sh
source tests/checks.sh


build=$folder/build
# command_of FILE: how it is compiled.
command_of() {
  python3 - "$build/compile_commands.json" "$1" <<'PYTHON'
import json, sys
print([c["command"] for c in json.load(open(sys.argv[1])) if c["file"].endswith(sys.argv[2])][0])
PYTHON
}
has() { command_of "$1" | grep -qE -- "$2"; }
lacks() { ! has "$@"; }
# grep reads to the end, since a program that writes into a closed pipe fails.
would_run() { ninja -C "$build" -t commands "$1" | grep -E -- "$2" >/dev/null; }
would_not_run() { ! would_run "$@"; }
has_no_tests() { (cd "$build" && ctest -N) | grep -q 'Total Tests: 0'; }

check "configures" cmake -S tests/add_subdirectory -B "$build" -G Ninja -DMANTISSA_SOURCE="$PWD"
check "includes the public headers, and nothing else" \
  cmake --build "$build" --target CMakeFiles/consumer.dir/main.cpp.o
check "waits for no code of the library" would_not_run CMakeFiles/consumer.dir/main.cpp.o 'src/base/.*\.cpp\.o'
check "links the library" would_run consumer ' -o consumer .*mantissa/libmantissa.a'
check "keeps the command in its own folder" would_run all ' -o mantissa/mantissa '
check "brings no tests" has_no_tests
check "builds no tests" would_not_run all '_test'
check "leaves the project its warnings" lacks add_subdirectory/main.cpp '-Wshadow'
check "leaves the project its optimisation" lacks add_subdirectory/main.cpp ' -O'
check "is optimised, where the project does not say how" has src/numerics/format.cpp ' -O[23]'

check "configures for a shared library" \
  cmake -S tests/add_subdirectory -B "$build" -DBUILD_SHARED_LIBS=ON
check "links the shared library" would_run consumer ' -o consumer .*mantissa/libmantissa.so'
check "shows its public symbols only" would_run consumer '--version-script=.*libmantissa.so'
check "compiles the same objects for it" would_run consumer '-fPIC .*-fvisibility=hidden'

finish
