#!/usr/bin/env bash
# `export`: what is written, and what cannot be. That ONNX Runtime computes the same bits is shown by
# tests/long/onnx_export.
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
  refuses "export to another target" 2 "ort or portable" \
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

check_export
finish
