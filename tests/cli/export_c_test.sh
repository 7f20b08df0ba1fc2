#!/usr/bin/env bash
# Networks as C: what `mantissa export --target c` writes compiles without warnings, and computes
# the numbers of `predict --raw` and of `train`, bit for bit.
# Needs MANTISSA (the command), cc and python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/checks.sh

export XDG_CACHE_HOME=$folder/cache  # where profiles are kept
readonly numbers=tests/cli/export_c.py
readonly flags=(CFLAGS="-O1 -Werror")  # of tests/device_test.sh: more

pictures=$folder/squares small=$folder/small table=$folder/table
python3 "$numbers" data "$pictures"
python3 "$numbers" data "$small" 8
python3 "$numbers" table "$table"
for name in functions bends slopes windows convolutions gates; do
  python3 tests/device/networks.py $name >"$folder/$name.json"
done

# network NAME ARGUMENT...: trains some steps, exports the frozen network, compares all logits.
network() {
  local run=$folder/$1
  "$MANTISSA" train --data "$pictures" --steps 6 --batch-size 16 --quiet --out "$run" "${@:2}" &&
    "$MANTISSA" predict --checkpoint "$run" --index 0-63 --raw "$run.npz" --quiet &&
    "$MANTISSA" export --checkpoint "$run" --target c --out "$run.c" --quiet &&
    make -s -C "$run.c" "${flags[@]}" example &&
    python3 "$numbers" logits "$pictures" "$run.c/example" "$run.npz"
}

batches() {
  if [[ $pictures != "$table" ]]; then
    python3 "$numbers" batches "$pictures" "$@"
  else
    "$MANTISSA" data "$table" --json | python3 "$numbers" rows "$table" "$@"
  fi
}

# training NAME STEPS BATCH ARGUMENT...: the same steps here and in C leave the same weights.
training() {
  local run=$folder/$1
  "$MANTISSA" train --data "$pictures" --steps "$2" --batch-size "$3" --checkpoint-every "$2" \
    --seed 3 --lr-schedule constant --quiet --out "$run" "${@:4}" &&
    "$MANTISSA" export --checkpoint "$run" --target c --train --initial --out "$run.c" --quiet \
      ${budget:+--memory-budget "$budget"} &&
    make -s -C "$run.c" "${flags[@]}" train &&
    batches "$2" "$3" >"$run.batches" &&
    "$run.c/train" "$run.state" <"$run.batches" >/dev/null &&
    "$MANTISSA" import "$run.state" --run "$run" --out "$run.back" --quiet &&
    python3 "$numbers" states "$run" "$run.back"
}

check "mlp" network mlp --model mlp
check "lenet5, 4-bit weights" network lenet5-w4 --model lenet5 --format bfp:w=4,a=4
check "lenet5, an exponent for each channel" network lenet5-channel --model lenet5 \
  --format bfp:block=channel
check "resnet8" network resnet8 --model resnet8
check "inception_small" network inception --model inception_small --width 0.25
check "mobilenet_v2" network mobilenet --model mobilenet_v2 --width 0.25

pictures=$small check "gates, and batch norms behind no layer" network gates \
  --model "$folder/gates.json" --learning-rate 0.05

check "resnet8 in the tie-free form" network portable --model resnet8 --format bfp8-portable
check "ds_cnn in the tie-free form" network ds-cnn --model ds_cnn --format bfp8-portable

check "training mlp, bfp8, momentum" training train-mlp 8 16 --model mlp
check "training lenet5, dfp8, SGD" training train-lenet5 25 8 --model lenet5 --format dfp8 --optimizer sgd
check "training lenet5, Adam, stochastic rounding" training train-adam 4 8 --model lenet5 \
  --optimizer adam --format bfp:g=8,gr=stochastic,round=stochastic
check "training resnet8, two micro-batches" training train-resnet8 3 8 --model resnet8 \
  --micro-batch-size 4 --weight-decay 1e-4

check "training ds_cnn, with dropout" training train-ds-cnn 2 2 --model ds_cnn --width 0.25
budget=256KiB check "training ds_cnn in 256 KiB" training train-whole 1 1 --model ds_cnn
budget=64KiB check "training its last layer in 64 KiB, with micro-batches" training train-layer 1 8 \
  --model ds_cnn --micro-batch-size 1 --freeze 'stem*,block*'
pictures=$small check "training every point-wise function, dfp8" training train-functions 50 4 \
  --model "$folder/functions.json" --format dfp8 --learning-rate 0.02
pictures=$small check "ELU, softplus and mish" network bends --model "$folder/bends.json"
pictures=$small check "... trained" training train-bends 50 4 --model "$folder/bends.json" \
  --learning-rate 0.02
pictures=$small budget=36500B check "... computed again" training train-functions-again 20 1 \
  --model "$folder/functions.json" --optimizer sgd --learning-rate 0.01
check "... as the program says" grep -q "many_gelu: gelu, recompute" \
  "$folder/train-functions-again.c/mantissa_training.c"
pictures=$small check "training pools with windows, and concat" training train-windows 50 4 \
  --model "$folder/windows.json" --micro-batch-size 2 --learning-rate 0.02
pictures=$small check "training with ties=up" training train-portable 50 4 \
  --model "$folder/convolutions.json" --format bfp8-portable --learning-rate 0.05
pictures=$small check "... in dynamic fixed point" training train-portable-dfp 50 4 \
  --model "$folder/convolutions.json" --format dfp:w=7,ties=up --learning-rate 0.05
pictures=$small check "... of a network without its batch norms" training train-folded 20 4 \
  --from "$folder/train-portable" --fold-batch-norm --format bfp8-portable --learning-rate 0.02
check "... whose layers are rounded half up" eval \
  '(($(grep -c dev_layer_forward_half_up "$folder/train-folded.c/mantissa_training.c") == 3))'
pictures=$small check "training with --clip-norm, and a warm-up of four micro-batches" training \
  train-clipped 20 8 --model "$folder/convolutions.json" --format dfp:r_max=0.01 --clip-norm 0.5 \
  --micro-batch-size 2 --learning-rate 0.05
# Channels that are inverted, kept and left out.
pictures=$small check "training with inverted batch norms" training train-inverted 30 8 \
  --model "$folder/convolutions.json" --format bfp:inversion=yes,a=6 --micro-batch-size 4 \
  --learning-rate 0.3
pictures=$small check "... in dynamic fixed point" training train-inverted-dfp 30 8 \
  --model "$folder/convolutions.json" --format dfp:inversion=yes --micro-batch-size 4 \
  --learning-rate 0.1
pictures=$small budget=18500B check "... computed again" training train-inverted-again 20 4 \
  --model "$folder/convolutions.json" --format bfp:inversion=yes --learning-rate 0.05
check "... as the program says" grep -q "dev_inverted_again" \
  "$folder/train-inverted-again.c/mantissa_training.c"
pictures=$small check "training gates" training train-gates 50 4 --model "$folder/gates.json" \
  --format dfp8 --micro-batch-size 2 --learning-rate 0.05
pictures=$table check "training on a table: numbers, and a number to predict" training train-table \
  50 8 --model mlp --hidden 12 --optimizer adamw
check "training the last layers of lenet5" training train-last 6 8 --model lenet5 \
  --freeze 'conv*,linear1*'
# What stays is no part of the state.
check "... whose state is smaller" eval \
  '(($(stat -c %s "$folder/train-last.state") * 2 < $(stat -c %s "$folder/train-adam.state")))'

budget=450KiB check "training resnet8 in 450 KiB: values are computed again" training train-budget 3 1 \
  --model resnet8 --optimizer sgd
check "... as the program says" grep -q "dev_begin_again" "$folder/train-budget.c/mantissa_training.c"

# The example of a CMake project trains as the one of make did.
cmake_trains() {
  local build=$folder/cmake
  cmake -S "$folder/train-mlp.c" -B "$build" -DCMAKE_C_FLAGS="-Wall -Wextra -Werror" >/dev/null &&
    cmake --build "$build" -j2 >/dev/null &&
    "$build/train" "$build.state" <"$folder/train-mlp.batches" >/dev/null &&
    cmp "$build.state" "$folder/train-mlp.state"
}
cmake_predicts() {
  cmake -S "$folder/mlp.c" -B "$folder/mlp.cmake" >/dev/null &&
    cmake --build "$folder/mlp.cmake" -j2 >/dev/null &&
    python3 "$numbers" logits "$pictures" "$folder/mlp.cmake/example" "$folder/mlp.npz"
}
# As the IDE of Arduino does it: a sketch in C++, and all sources below src.
sketch() {
  local library=$folder/libraries/mantissa
  mkdir -p "$library" && cp -r "$folder/train-mlp.c" "$library/src" && rm "$library/src/train.c" &&
    cat >"$folder/sketch.cpp" <<'end' &&
#include <mantissa_training.h>
static mantissa_training training;
static uint32_t order[8];
void setup() {
  mantissa_begin(&training);
  dev_shuffle(3, 0, order, 8);
}
int main() {
  setup();
  return training.step == 0 && order[0] + order[7] > 0 ? 0 : 1;
}
end
    c++ -std=gnu++11 -Wall -Wextra -Werror -I"$library/src" -c "$folder/sketch.cpp" \
      -o "$folder/sketch.o" &&
    find "$library/src" -name '*.c' -exec cc -std=gnu11 -I"$library/src" -o "$folder/sketch" \
      "$folder/sketch.o" {} + &&
    "$folder/sketch"
}
# The lines for Zephyr, in a program of CMake.
target_sources_of_an_app() {
  local app=$folder/app
  mkdir -p "$app" && cp -r "$folder/train-mlp.c" "$app/a-trains" &&
    cp "$folder/train-mlp.c/train.c" "$app/main.c" &&
    cat >"$app/CMakeLists.txt" <<'end' &&
cmake_minimum_required(VERSION 3.16)
project(app C)
add_executable(app main.c)
file(GLOB_RECURSE sources a-trains/mantissa*.c a-trains/device/*.c a-trains/reference/*.c
     a-trains/scalars/*.c)
target_sources(app PRIVATE ${sources})
target_include_directories(app PRIVATE a-trains)
end
    cmake -S "$app" -B "$app/build" >/dev/null && cmake --build "$app/build" -j2 >/dev/null &&
    "$app/build/app" "$app.state" <"$folder/train-mlp.batches" >/dev/null &&
    cmp "$app.state" "$folder/train-mlp.state"
}
if command -v cmake >/dev/null; then
  check "CMake builds the training" cmake_trains
  check "... and the network" cmake_predicts
  check "... and sources of another program, as Zephyr does" target_sources_of_an_app
fi
check "a library of Arduino, with a sketch in C++" sketch

refuses() { # WORDS COMMAND...: exit status 2 and an error with these words
  local said status=0
  said=$("${@:2}" 2>&1) || status=$?
  [[ $status == 2 && $said == *"$1"* ]] || { echo "$status: $said"; return 1; }
}
"$MANTISSA" train --data "$pictures" --steps 1 --batch-size 16 --quiet --out "$folder/wide" --model lenet5 \
  --format bfp:a=16
check "values of 16 bits are refused, with the node" refuses "node 'normalise'" \
  "$MANTISSA" export --checkpoint "$folder/wide" --target c --out "$folder/wide.c"
check "... and nothing is written" test ! -e "$folder/wide.c"
"$MANTISSA" train --data "$small" --steps 1 --batch-size 16 --quiet --out "$folder/slopes" \
  --model "$folder/slopes.json"
check "PReLU is refused, with the node" refuses "node 'bent'" \
  "$MANTISSA" export --checkpoint "$folder/slopes" --target c --out "$folder/slopes.c"
for name in rows:gather_rows shares:softmax distances:attention upwards:transposed_convolution; do
  network=$folder/${name%:*}
  python3 tests/device/networks.py "${name%:*}" >"$network.json"
  "$MANTISSA" train --data "$small" --steps 1 --batch-size 16 --quiet --out "$network" \
    --model "$network.json"
  check "${name#*:} is refused, with the node" refuses "node 'missing' (${name#*:})" \
    "$MANTISSA" export --checkpoint "$network" --target c --out "$network.c"
  check "... and its training" refuses "node 'missing' (${name#*:}" \
    "$MANTISSA" export --checkpoint "$network" --target c --train --initial --out "$network.c"
  check "... and nothing is written" test ! -e "$network.c"
done
mkdir "$folder/mine" && touch "$folder/mine/notes.txt"
check "a folder with other files is refused" refuses "is not empty" \
  "$MANTISSA" export --checkpoint "$folder/mlp" --target c --out "$folder/mine"
check "an earlier export is replaced" "$MANTISSA" export --checkpoint "$folder/mlp" --target c \
  --out "$folder/mlp.c" --quiet
check "a prefix that is no C name is refused" refuses "no C name" \
  "$MANTISSA" export --checkpoint "$folder/mlp" --target c --prefix 1x --out "$folder/x.c"
damage() { # FILE PLACE: another byte there
  cp "$1" "$1.damaged" && printf '\x5a' | dd of="$1.damaged" bs=1 seek="$2" conv=notrunc status=none
}
damage "$folder/train-mlp.state" 3000
check "a damaged state is refused" refuses "checksum" "$MANTISSA" import \
  "$folder/train-mlp.state.damaged" --run "$folder/train-mlp" --out "$folder/b1"
check "a state of another program is refused" refuses "another network" "$MANTISSA" import \
  "$folder/train-mlp.state" --run "$folder/train-adam" --out "$folder/b2"
goes_on() {
  "$MANTISSA" train --resume --out "$folder/train-mlp.back" --quiet
}
check "a run goes on from a state that came back" goes_on
finish
