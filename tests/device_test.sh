#!/usr/bin/env bash
# The C of an exported network computes the same bits on every machine: x86-64 by two compilers,
# 32-bit x86, aarch64, 32-bit ARM, riscv64, big-endian s390x, and Cortex-M0, M3, M4, M7 and M55 under
# qemu, with a stack of 2 KiB. Its programs link nothing of a library but division of whole numbers.
#
#   MANTISSA=build/dev/mantissa tests/device_test.sh          each machine with one of the networks
#   MANTISSA=build/dev/mantissa tests/device_test.sh --all    with all of them
#
# Machines whose tools are missing are skipped, by name (tools/install_packages device).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tests/checks.sh
source tests/device/targets.sh
every=no
[[ ${1:-} != --all ]] || every=yes
export XDG_CACHE_HOME=$folder/cache

readonly steps=24 batch=4 seed=3
pictures=$folder/pictures
python3 tests/cli/export_c.py data "$pictures" 8
mkdir "$folder/infers" "$folder/trains"
python3 tests/device/make_data.py "$pictures" 32 >"$folder/infers/data.h"
python3 tests/device/make_data.py "$pictures" $steps $batch $seed >"$folder/trains/data.h"

# exports NAME ARGUMENT...: a trained network in $folder/NAME.infers, its training in NAME.trains.
exports() {
  local run=$folder/$1.run
  "$MANTISSA" train --data "$pictures" --steps $steps --batch-size $batch --seed $seed \
    --lr-schedule constant --quiet --out "$run" "${@:2}" &&
    "$MANTISSA" export --checkpoint "$run" --target c --out "$folder/$1.infers" --quiet &&
    "$MANTISSA" export --checkpoint "$run" --target c --train --initial --quiet \
      --out "$folder/$1.trains"
}

# prints HASH COMMAND...: the command prints this hash.
prints() {
  local said
  said=$("${@:2}") && echo "$said" && [[ $said == *"hash $1"* ]]
}

has() { command -v "$1" >/dev/null || { echo "skipped: no $1"; return 1; }; }

# analyzed EXPORT...: gcc follows the paths through each file, and finds no fault. Files that several
# exports share are read once.
analyzed() {
  find "$@" -name '*.c' -exec sha256sum {} + | sort | awk '!seen[$1]++ { print $2 }' |
    while read -r file; do
      for export in "$@"; do [[ $file != "$export"/* ]] || printf '%s\n%s\n' "$export" "$file"; done
    done |
    xargs -P 2 -n 2 sh -c 'exec gcc -std=c99 -O2 -Wall -Wextra -Werror -fanalyzer -I "$0" -o /dev/null -c "$1"'
}

# machines_of COMPILERS MACHINES BOARDS: for the calls of on_all that follow; --all takes all.
machines_of() {
  [[ $every == no ]] || set -- "gcc -O0,clang -O3" "i686 aarch64 arm riscv64 s390x" \
    "microbit mps2-an385 mps2-an386 mps2-an500 mps3-an547"
  IFS=, read -ra compilers <<<"$1"
  read -ra machines <<<"$2"
  read -ra cortexes <<<"$3"
}

# on_all NAME KIND FLAG...: the program runs on all machines, and prints what it prints here.
on_all() {
  local export=$folder/$1.$2 data=$folder/$2 flags=("${@:3}") name=$1.$2 hash board
  hash=$(run_hosted here cc "" "$export" "$data" -O2 "${flags[@]}") && hash=${hash##*hash }
  [[ $hash =~ ^[0-9a-f]{8}$ ]] || { check "$name runs here" false; return; }
  local compiler level machine emulator
  for compiler in "${compilers[@]}"; do
    read -r compiler level <<<"$compiler"
    check "$name, $compiler $level" prints "$hash" run_hosted "$compiler" "$compiler" "" "$export" \
      "$data" "$level" "${flags[@]}"
  done
  check "$name, sanitizers" prints "$hash" run_hosted sanitized gcc "" "$export" "$data" -O1 -g \
    -fsanitize=undefined,address -fno-sanitize-recover=all "${flags[@]}"
  for machine in "${machines[@]}"; do
    compiler=$machine-linux-gnu
    [[ $machine != arm ]] || compiler=arm-linux-gnueabihf
    emulator=qemu-$machine
    [[ $machine != i686 ]] || emulator=env
    if has "$compiler-gcc" && has "$emulator"; then
      check "$name, $machine" prints "$hash" run_hosted "$machine" "$compiler-gcc" "$emulator" \
        "$export" "$data" -O2 -static "${flags[@]}"
    fi
  done
  on_boards "$1" "$2" "$hash" "${cortexes[*]}" "${flags[@]}"
}

# on_boards NAME KIND HASH BOARDS FLAG...
on_boards() {
  local export=$folder/$1.$2 data=$folder/$2 name=$1.$2 board
  has arm-none-eabi-gcc && has qemu-system-arm || return 0
  for board in $4; do
    # 16 KiB of memory.
    [[ $board != microbit || $name != convolutions.trains ]] || continue
    check "$name, $board" prints "$3" run_board "$board" "$export" "$data" -Os "${@:5}"
    check "$name, $board: no library" has_no_library "$export/$board.elf"
  done
}

# uneven BITS: the same of weights of few bits, on machines without SMLAD, with it, and with MVE.
uneven() {
  local name=uneven$1 hash
  exports "$name" --model "$folder/uneven.json" --format "bfp:w=$1" --learning-rate 0.001
  hash=$(run_hosted sanitized gcc "" "$folder/$name.infers" "$folder/infers" -O1 -g \
    -fsanitize=undefined,address -fno-sanitize-recover=all) && hash=${hash##*hash }
  check "$name has weights of $1 bits" grep -q "dev_convolution_words_$1(" \
    "$folder/$name.infers/mantissa.c"
  on_boards "$name" infers "$hash" "microbit mps2-an386"
  FLOAT_ABI=hard on_boards "$name" infers "$hash" mps3-an547
}

# has_instruction INSTRUCTION FLAG...: the loops over words have it (objdump knows no vectors).
has_instruction() {
  local sources=$folder/uneven8.infers
  arm-none-eabi-gcc -std=c99 -Os -mthumb -ffreestanding "${@:2}" -I"$sources" -S -o - \
    "$sources/device/runtime/words.c" | grep "$1"
}

for network in perceptron convolutions functions windows gates uneven; do
  python3 tests/device/networks.py $network >"$folder/$network.json"
done
exports perceptron --model "$folder/perceptron.json" --format dfp8 --optimizer sgd
exports convolutions --model "$folder/convolutions.json" --micro-batch-size 2
machines_of "gcc -O0" "i686 arm riscv64" "microbit mps2-an500"
on_all perceptron infers
on_all perceptron trains -DTRAINS
machines_of "clang -O3" "aarch64 s390x" "mps2-an385 mps2-an386 mps3-an547"
on_all convolutions infers
on_all convolutions trains -DTRAINS
# What those two lack, on the machines that differ most.
machines_of "" s390x mps2-an386
exports functions --model "$folder/functions.json" --learning-rate 0.02
exports windows --model "$folder/windows.json" --learning-rate 0.02 --format dfp8 \
  --micro-batch-size 2 --clip-norm 1
exports gates --model "$folder/gates.json" --learning-rate 0.05
exports portable --model "$folder/convolutions.json" --format bfp8-portable
exports inverted --model "$folder/convolutions.json" --format bfp:inversion=yes
on_all functions trains -DTRAINS
on_all windows trains -DTRAINS
on_all gates infers
on_all gates trains -DTRAINS
on_all portable trains -DTRAINS
on_all inverted trains -DTRAINS
check "all sources, -fanalyzer" analyzed "$folder"/{perceptron,convolutions,gates}.{infers,trains} \
  "$folder"/{functions,windows,portable,inverted}.trains
for bits in 8 4 2; do uneven $bits; done
if has arm-none-eabi-gcc; then
  check "SMLAD" has_instruction smlad -mcpu=cortex-m4 -mfloat-abi=soft
  check "MVE" has_instruction vmladava -mcpu=cortex-m55 -mfloat-abi=hard
fi
finish
