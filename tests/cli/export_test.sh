#!/usr/bin/env bash
# `export`: what is written, and what cannot be. That ONNX Runtime computes the same bits is shown by
# tests/long/onnx/onnx_export.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# has_types FILE TYPE...: the file names these operators.
has_types() {
  local type
  for type in "${@:2}"; do grep -aq "$type" "$1" || return 1; done
}

short() {
  run train --data "$data" --batch-size 32 --steps 2 --quiet "$@"
}

check_export() {
  short --model lenet5 --out "$folder/lenet5"
  accepts "export" "written to .*a\.onnx: [0-9]+ nodes" \
    export --checkpoint "$folder/lenet5" --out "$folder/a.onnx"
  holds "export writes QDQ" has_types "$folder/a.onnx" pixels logits QuantizeLinear \
    DequantizeLinear Conv Gemm mantissa.weights_sha256
  run export --checkpoint "$folder/lenet5/model.safetensors" --target ort --out "$folder/b.onnx"
  holds "export writes the same bytes" cmp "$folder/a.onnx" "$folder/b.onnx"
  prints_json "export --json" export --checkpoint "$folder/lenet5" --out "$folder/a.onnx" --json
  accepts "export --target portable" "float32" \
    export --checkpoint "$folder/lenet5" --target portable --out "$folder/portable.onnx"
  refuses "export to another target" 2 "ort, portable, tflite, c, gguf, huggingface or peft" \
    export --checkpoint "$folder/lenet5" --target tpu --out "$folder/a.onnx"
  refuses "export without a file" 2 "--out" export --checkpoint "$folder/lenet5"
  refuses "export into no folder" 2 "no folder" \
    export --checkpoint "$folder/lenet5" --out "$folder/none/a.onnx"
  short --model resnet8 --out "$folder/resnet8"
  accepts "export with batch norms" "written to" \
    export --checkpoint "$folder/resnet8" --out "$folder/resnet8.onnx"
  short --model lenet5 --format fp32 --out "$folder/fp32"
  refuses "export of fp32" 2 "computes in fp32" \
    export --checkpoint "$folder/fp32" --out "$folder/fp32.onnx"
  short --model lenet5 --format bfp:a=12 --out "$folder/wide"
  refuses "export of more than 8 bits" 2 "networks of 8 bits" \
    export --checkpoint "$folder/wide" --out "$folder/wide.onnx"
  holds "nothing is written where nothing can be" eval '[[ ! -e $folder/wide.onnx ]]'
}

# changed NAME OLD NEW: a copy of a.onnx in which the first OLD is NEW, of the same length.
changed() {
  python3 - "$folder/a.onnx" "$folder/$1.onnx" "$2" "$3" <<'PYTHON'
import sys
data = open(sys.argv[1], "rb").read()
old, new = (text.encode() for text in sys.argv[3:])
assert old in data and len(old) == len(new)
open(sys.argv[2], "wb").write(data.replace(old, new, 1))
PYTHON
}

# computes_the_same RUN TARGET: the exported network predicts the mantissas of the run.
computes_the_same() {
  local file=$folder/$1-$2.onnx
  run export --checkpoint "$folder/$1" --target "$2" --out "$file"
  run predict --checkpoint "$folder/$1" --data "$data" --index 0-63 --raw "$folder/run.npz"
  run predict --checkpoint "$file" --data "$data" --index 0-63 --raw "$folder/file.npz"
  ((status == 0)) && cmp "$folder/run.npz" "$folder/file.npz"
}

check_loading() {
  local network target
  short --model mlp --out "$folder/mlp"
  run quantize --from "$folder/resnet8" --data "$data" --weights 4 --activations 4 --ends 0 \
    --batch-size 32 --out "$folder/w4a4"
  for network in mlp lenet5 resnet8 w4a4; do
    for target in ort portable; do
      holds "the same mantissas: $network, $target" computes_the_same "$network" "$target"
    done
  done
  run eval --checkpoint "$folder/a.onnx" --data "$data" --out "$folder/file.json"
  run eval --checkpoint "$folder/lenet5" --data "$data" --out "$folder/run.json"
  holds "eval of the file" cmp "$folder/file.json" "$folder/run.json"
  run export --checkpoint "$folder/a.onnx" --target portable --out "$folder/again.onnx"
  holds "the file is exported to another target" cmp "$folder/again.onnx" "$folder/portable.onnx"
  accepts "the file's network" '"mantissa network 1"' info "$folder/a.onnx" --graph
  run train --from "$folder/a.onnx" --data "$data" --batch-size 32 --steps 1 --out "$folder/tuned"
  holds "training starts from it" grep -q "taken: 10 of 10 parameters" "$folder/stderr"
}

# refused NAME PATTERN: predict refuses the file of this name.
refused() {
  refuses "$1: predict refuses it" 2 "$2" predict --checkpoint "$folder/$1.onnx" --data "$data"
}

check_changed_files() {
  python3 - "$folder" <<'PYTHON'
import sys
data = open(sys.argv[1] + "/a.onnx", "rb").read()
at = data.index(b"conv1.weightsJ") + 20  # raw_data, field 9, follows the name
for name, change in ("weight", at), ("bias", data.index(b"conv1.biasJ") + 14):
    other = bytearray(data)
    other[change] ^= 1
    open(f"{sys.argv[1]}/{name}.onnx", "wb").write(other)
open(sys.argv[1] + "/truncated.onnx", "wb").write(data[:len(data) // 2])
open(sys.argv[1] + "/longer.onnx", "wb").write(data + b"\xa2\x06\x00")  # an unknown field
PYTHON
  refused weight "weight.onnx: was changed after its export: its weights are not those that were"
  refused bias "was changed after its export: tensor 'conv1.bias' differs"
  refused truncated "damaged, or not an ONNX file"
  refused longer "was changed after its export: its graph differs"
  changed graph MaxPool MinPool
  refused graph "was changed after its export: its graph differs"
  changed without-hash mantissa.model_sha256 mantissa.model_sha257
  refused without-hash "its weights are not those that were exported"
  changed without-network mantissa.frozen mantissa.frozem
  refused without-network "was exported by an earlier version"
  changed name mantissa.data mantissa.date
  refused name "its metadata differ"
  cp "$(dirname "${BASH_SOURCE[0]}")/../fixtures/small.onnx" "$folder/foreign.onnx"
  refused foreign "did not write.*mantissa run.*mantissa train --from"
  refuses "serve refuses it, too" 2 "was changed after its export" \
    serve --checkpoint "$folder/weight.onnx" --port 0
  refuses "eval refuses it, too" 2 "was changed after its export" \
    eval --checkpoint "$folder/weight.onnx" --data "$data"
}

check_export
check_loading
check_changed_files
finish
