#!/usr/bin/env bash
# Networks from ONNX: import, train --model and train --from. tests/fixtures/small.onnx is PyTorch's
# export of two convolutions and a linear layer for 28x28 pictures and 7 classes.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

model=$folder/small.onnx
cp "$(dirname "${BASH_SOURCE[0]}")/../fixtures/small.onnx" "$model"
short=(--data "$data" --steps 4 --batch-size 16)

run import "$model" --out "$folder/small.safetensors"
holds "import writes the network" eval '((status == 0)) && [[ -s $folder/small.safetensors ]]'
holds "and says what it assumed" grep -q "mean 0 and std 1: assumed" "$folder/stderr"
run import "$model" --input-mean 0.5 --input-std 0.25 --out "$folder/small.safetensors" --json
holds "the mean can be said" grep -q "mean 0.5 and std 0.25\"" "$folder/stdout"
refuses "a mean that is none" 2 "input-mean" import "$model" --input-mean many --out "$folder/x"
refuses "no file to write" 2 "--out: name" import "$model"
refuses "another output" 2 "no output 'nothing'" import "$model" --output nothing --out "$folder/x"
refuses "means without a model" 2 "is for ONNX models" \
  train --model mlp --input-mean 0.5 --out "$folder/x"

for from in "$model" "$folder/small.safetensors"; do
  run train --from "$from" "${short[@]}" --out "$folder/run" --overwrite
  holds "trains from ${from##*.}" eval '((status == 0))'
  holds "and tells what it took" grep -q "taken: [46] of 6 parameters" "$folder/stderr"
done
run train --model "$model" "${short[@]}" --out "$folder/fresh"
holds "trains the architecture alone" eval '((status == 0)) && [[ ! -e $folder/fresh/start.safetensors ]]'
run train --from "$model" "${short[@]}" --out "$folder/kept"
rm "$model"
run train --config "$folder/kept/config.toml" --out "$folder/again"
run verify "$folder/kept" "$folder/again"
holds "the run needs the model no more" eval '((status == 0))'

finish
