#!/usr/bin/env bash
# Guards the kernels' speed, since times are too noisy for that. Compares the CPU instructions that
# the operators of a few training steps execute, counted by callgrind, with instruction_counts.txt.
#
#   tests/instruction_counts_test.sh            fails if more than 1 % (and 200) above
#                                               the record are executed
#   tests/instruction_counts_test.sh --update   records what is executed now
#
# The record holds for the compiler that it names; with another one the test is skipped (exit code
# 77). Callgrind has no AVX-512: the AVX2 and scalar kernels are counted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=$(dirname "${MANTISSA:-build/release-tests/mantissa}")
program=$build/tests/instruction_counts
record=tests/instruction_counts.txt
cache=$build/CMakeFiles
if ! grep -q 'CMAKE_BUILD_TYPE:STRING=Release' "$build/CMakeCache.txt"; then
  echo "skipped: $build is not compiled as users run it (cmake --preset release-tests)"
  exit 77
fi
compiler=$(sed -nE 's/^set\(CMAKE_CXX_COMPILER_(ID|VERSION) "(.*)"\)/\2/p' "$cache"/*/CMakeCXXCompiler.cmake | xargs)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

if [[ ${1:-} != --update ]]; then
  recorded=$(sed -n 's/^# compiler: //p' "$record")  # fails if there is no record
  if [[ $recorded != "$compiler" ]]; then
    echo "skipped: recorded with '$recorded', built with '$compiler'"
    exit 77
  fi
fi

status=0
# The C library chooses its memcpy by the CPU: one choice for all.
GLIBC_TUNABLES=glibc.cpu.hwcaps=-ERMS,-FSRM:glibc.cpu.x86_non_temporal_threshold=0x1000000 \
  valgrind -q --tool=callgrind --instr-atstart=no --callgrind-out-file="$folder/dump" "$program" ||
  status=$?
((status == 0)) || exit "$status"

# Each dump has a line with its name and one with its count.
grep -hE '^(desc: Trigger: Client Request: |totals: )' "$folder"/dump.* |
  awk '/^desc/ { sub(/^desc: Trigger: Client Request: /, ""); name = $0; next }
       name != "" && name != "between" { sum[name] += $2; name = "" }
       END { for (n in sum) printf "%s %d\n", n, sum[n] }' | LC_ALL=C sort >"$folder/counts"
[[ -s $folder/counts ]] || { echo "callgrind wrote no dumps"; exit 1; }

if [[ ${1:-} == --update ]]; then
  {
    echo "# CPU instructions of one training step: network, format, phase, operator, kernel, count."
    echo "# Written by tests/instruction_counts_test.sh --update"
    echo "# compiler: $compiler"
    cat "$folder/counts"
  } >"$record"
  echo "$record: $(wc -l <"$folder/counts") counts"
  exit
fi

awk -v limit=1 -v few=200 '
  function key(  i, text) { text = $1; for (i = 2; i < NF; ++i) text = text " " $i; return text }
  /^#/ { next }
  FNR == NR { before[key()] = $NF; next }
  {
    name = key()
    if (!(name in before)) { printf "not recorded: %s %d\n", name, $NF; bad = 1; next }
    more = $NF - before[name]
    percent = 100 * more / before[name]
    change = sprintf("%s: %d, was %d (%+.1f %%)", name, $NF, before[name], percent)
    if (percent > limit && more > few) { print "more: " change; bad = 1 }
    if (percent < -limit && more < -few) print "fewer, to be recorded: " change
    delete before[name]
  }
  END {
    for (name in before) { printf "no longer executed: %s\n", name; bad = 1 }
    if (bad) print "If that is meant: tests/instruction_counts_test.sh --update"
    exit bad
  }' "$record" "$folder/counts"
echo "instructions of $(wc -l <"$folder/counts") kernels are as recorded"
