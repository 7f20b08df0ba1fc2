#!/usr/bin/env bash
# vit_tiny on the command line: it trains in integers and floats, goes on, is frozen and predicts, and
# is exported; the targets that lack its operators name them before they write anything.
# shellcheck disable=SC2016
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/cli/common.sh
source "$here/cli/common.sh"

train() {
  accepts "$1" "test accuracy" train --model vit_tiny --data "$data" --width 0.25 --batch-size 32 \
    --threads 1 --out "$folder/$2" "${@:3}"
}
train "trains in bfp8-text" text --format bfp8-text --steps 3
train "trains in fp32" float --format fp32 --steps 3
train "trains in dynamic fixed point" dynamic --format dfp8 --steps 3 --optimizer adamw
train "trains in bfp8" ours --steps 4 --checkpoint-every 2
accepts "the network as JSON" '"op": "prepend_rows"' info --model vit_tiny --graph
cp "$folder/stdout" "$folder/vit.json"
accepts "the same network from JSON" "test accuracy" train --model "$folder/vit.json" \
  --data "$data" --batch-size 32 --steps 2 --threads 1 --out "$folder/json"
accepts "evaluates" "accuracy" eval --checkpoint "$folder/ours" --data "$data"
run predict --checkpoint "$folder/ours" --data "$data" --index 0-15 --raw "$folder/a.npz" --quiet
run predict --checkpoint "$folder/ours" --data "$data" --index 0-15 --raw "$folder/b.npz" --quiet \
  --isa scalar
holds "the same logits on all CPUs" cmp "$folder/a.npz" "$folder/b.npz"
refuses "C lacks its operators" 2 "node 'token' \(prepend_rows\): C" \
  export --checkpoint "$folder/ours" --target c --out "$folder/x.c"
refuses "TensorFlow Lite, too" 2 "ties=up" \
  export --checkpoint "$folder/ours" --target tflite --out "$folder/x.tflite"
holds "nothing is written" eval '[[ ! -e $folder/x.c && ! -e $folder/x.tflite ]]'

# ONNX has its operators in float32: results are near, and the command says which layers are why.
accepts "ONNX has float32 for them" "results are near .* node 'block1.norm1' \(layer_norm\) is .*float32" \
  export --checkpoint "$folder/ours" --out "$folder/x.onnx"
holds "what stands in front of the positions is exact" eval '! grep -q prepend_rows "$folder/stdout"'
refuses "predict takes the run" 2 "does not load back. Name the run" \
  predict --checkpoint "$folder/x.onnx" --data "$data"
finish
