#!/usr/bin/env bash
# `export --target tflite`: LiteRT's three sets of kernels and TFLM compute the logits of
# `predict --raw`, and networks that would not are refused. tests/long/tflite_bits has larger ones.
#
# The runtimes come from PyPI into an environment in build/python, which stays for the next time.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/cli/common.sh
source "$here/cli/common.sh"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1 PYTHONDONTWRITEBYTECODE=1
venv=${TFLITE_VENV:-$here/../build/python/tflite}
if ! "$venv/bin/python" -c 'import ai_edge_litert, tflite, tflite_micro' 2>/dev/null; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  if ! "$venv/bin/pip" install numpy ai-edge-litert tflite-micro tflite; then
    echo "skipped: pip has no ai-edge-litert or tflite-micro"
    exit 77
  fi
fi

short() {
  run train --data "$data" --batch-size 32 --threads 1 --quiet "$@"
}

# the_same NAME [--ties]: what the runtimes compute.
the_same() {
  "$venv/bin/python" "$here/tflite_runtimes.py" "$folder/$1.tflite" "$folder/$1.npz" \
    "$data/t10k-images-idx3-ubyte" "${@:2}" >"$folder/stdout" 2>"$folder/stderr"
}

# check NAME OPTIONS...: trains, exports, compares.
check() {
  short --out "$folder/$1" "${@:2}"
  accepts "$1, export" "written to .*tflite: [0-9]+ nodes" \
    export --checkpoint "$folder/$1" --target tflite --out "$folder/$1.tflite"
  run predict --checkpoint "$folder/$1" --data "$data" --index 0-63 --raw "$folder/$1.npz" --quiet
  holds "$1, the same logits in four runtimes" the_same "$1"
  run predict --checkpoint "$folder/$1" --data "$data" --index 0-63 --raw "$folder/scalar.npz" \
    --isa scalar --quiet
  holds "$1, the same logits on all CPUs" cmp "$folder/$1.npz" "$folder/scalar.npz"
}

check mlp --model mlp --steps 8 --format bfp8-portable
check lenet5 --model lenet5 --steps 8 --format bfp8-portable
check resnet8 --model resnet8 --width 0.5 --steps 4 --format bfp8-portable
check ds_cnn --model ds_cnn --width 0.25 --steps 4 --format bfp8-portable
check mobilenet_v2 --model mobilenet_v2 --width 0.25 --steps 2 --format bfp8-portable
check w4a4 --model resnet8 --width 0.5 --steps 4 --format bfp:w=4,a=4,unsigned=yes,ties=up
holds "with ties, runtimes differ" the_same resnet8 --ties
run quantize --from "$folder/resnet8" --data "$data" --weights 4 --activations 4 --batch-size 32 \
  --steps 2 --format bfp:w=7,ties=up --threads 1 --quiet --out "$folder/grids"
run predict --checkpoint "$folder/grids" --data "$data" --index 0-63 --raw "$folder/grids.npz"
run export --checkpoint "$folder/grids" --target tflite --out "$folder/grids.tflite"
holds "grids of few bits, the same logits in four runtimes" the_same grids

run export --checkpoint "$folder/lenet5" --target tflite --out "$folder/again.tflite"
holds "the same file again" cmp "$folder/lenet5.tflite" "$folder/again.tflite"
refuses "an ONNX file of it" 2 "target tflite writes such networks" \
  export --checkpoint "$folder/lenet5" --out "$folder/lenet5.onnx"
refuses "to train from its frozen network" 2 "name its run or a checkpoint" \
  train --from "$folder/lenet5/model.safetensors" --data "$data" --out "$folder/none"
accepts "training goes on without batch norms" "test accuracy" train --from "$folder/resnet8" \
  --fold-batch-norm --data "$data" --batch-size 32 --steps 2 --learning-rate 0.001 --threads 1 \
  --format bfp:w=7,block=channel,ties=up --out "$folder/folded"
holds "they are folded" eval '! grep -q batch_norm "$folder/folded/network.json"'
run predict --checkpoint "$folder/folded" --data "$data" --index 0-63 --raw "$folder/folded.npz"
run export --checkpoint "$folder/folded" --target tflite --out "$folder/folded.tflite"
holds "folded, the same logits in four runtimes" the_same folded
short --model lenet5 --steps 2 --out "$folder/even"
refuses "a network with ties" 2 "ties=up" \
  export --checkpoint "$folder/even" --target tflite --out "$folder/even.tflite"
run info --model lenet5 --graph
sed 's/"op": "relu"/"op": "sigmoid"/' "$folder/stdout" >"$folder/sigmoid.json"
refuses "an operator that has no such form" 2 "node 'relu1' \(sigmoid\) has no form without ties" \
  train --model "$folder/sigmoid.json" --data "$data" --format bfp8-portable --steps 1 \
  --out "$folder/sigmoid"
holds "nothing is written" eval '[[ ! -e $folder/even.tflite && ! -e $folder/sigmoid ]]'
finish
