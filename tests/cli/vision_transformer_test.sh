#!/usr/bin/env bash
# vit_tiny on the command line: it trains in integers and floats, goes on, is frozen and predicts;
# and the targets that lack its operators name them before they write anything.
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
refuses "and ONNX in integers" 2 "node 'token' \(prepend_rows\) has results of 16 bits" \
  export --checkpoint "$folder/ours" --out "$folder/x.onnx"
holds "nothing is written" eval '[[ ! -e $folder/x.c && ! -e $folder/x.tflite && ! -e $folder/x.onnx ]]'
finish
