#!/usr/bin/env bash
# Exported networks of few bits in ONNX Runtime: both targets, weights of 2 to 8 bits, convolutions
# (depthwise and grouped ones, too) and linear layers, grids with an offset, at its four levels of
# optimisation; and layers that it computes in float32 and float64, to the same bits or near. tests/long/onnx/onnx_export has larger networks, and other CPUs.
#
# ONNX Runtime comes from PyPI into an environment in build/python, which stays for the next time.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1 PYTHONDONTWRITEBYTECODE=1
venv=${ONNX_VENV:-$here/../build/python/onnxruntime}
if ! "$venv/bin/python" -c 'import numpy, onnxruntime' 2>/dev/null; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  if ! "$venv/bin/pip" install numpy onnxruntime; then
    echo "skipped: pip has no onnxruntime"
    exit 77
  fi
fi
# shellcheck source=tests/cli/common.sh
source "$here/cli/common.sh"

# made NAME COMMAND...: the run $folder/NAME, and its logits.
made() {
  run "${@:2}" --data "$data" --threads 1 --quiet --out "$folder/$1"
  ((status == 0)) || return 1
  run predict --checkpoint "$folder/$1" --data "$data" --index 0-63 --raw "$folder/$1.npz" --quiet
  ((status == 0))
}

# computes_the_same NAME TARGET [--near]: the file's logits are the run's
computes_the_same() {
  local file=$folder/$1-$2.onnx
  run export --checkpoint "$folder/$1" --target "$2" --out "$file"
  ((status == 0)) && "$venv/bin/python" "$here/onnx_runtime.py" "$file" "$folder/$1.npz" \
    "$data/t10k-images-idx3-ubyte" "${@:3}"
}

# check NAME [--near of the portable file]
check() {
  holds "$1, ort" computes_the_same "$1" ort
  # shellcheck disable=SC2086
  holds "$1, portable" computes_the_same "$1" portable ${2:-}
}

from=(quantize --from "$folder/run" --ends 0)
holds "training" made run train --model "$here/onnx_runtime_network.json" --batch-size 32 --epochs 4
check run
for bits in 2 3 4 5 6 7 8; do
  name=w${bits}a$((bits < 8 ? 8 : 4))
  holds "quantising to $name" made "$name" "${from[@]}" --weights "$bits" --activations "${name#*a}"
  check "$name" "$( ((bits <= 4)) && echo --near)"
done
for method in 'lsqplus 4' 'wrpn 3' 'lsqplus 7'; do
  name=offset-${method/ /-}
  holds "$name" made "$name" "${from[@]}" --weights 5 --activations "${method#* }" \
    --train "${method% *}" --steps 4
  holds "$name has an offset" grep -q '"offset": true' "$folder/$name/network.json"
  check "$name"
done
# A ReLU that is always zero; a range with which float32 quotients would miss a tie.
holds "dead" made dead train --from "$here/fixtures/dead_relu.onnx" --epochs 0
check dead --near
data_here=$data
data=fashion-mnist
holds "range" made range quantize --from "$here/fixtures/range_no_scale.onnx" --method uniform \
  --weights 4 --activations 4
data=$data_here
run predict --checkpoint "$folder/range" --data "$data" --index 0-63 --raw "$folder/range.npz" --quiet
check range --near
# Sums that float32 has, 16-bit mantissas, means and products in float64.
holds "exact" made exact train --model "$here/onnx_runtime_exact.json" --batch-size 32 --epochs 4 \
  --learning-rate 0.002
check exact
# Norms and attention, near.
holds "near" made near train --model vit_tiny --width 0.25 --batch-size 32 --epochs 4
holds "near, ort" computes_the_same near ort --near
holds "the command says so" grep -q 'are near' "$folder/stdout"
holds "near, portable" computes_the_same near portable --near
holds "biases" made biased train --model "$here/onnx_runtime_biased.json" --batch-size 32 \
  --epochs 4 --optimizer adamw --learning-rate 0.02
holds "biases, ort" computes_the_same biased ort --near
holds "the command says so" grep -q "'attention' (attention) is computed in float32" "$folder/stdout"
holds "range is no look-up" eval '! grep -aq n_Add33.input/table "$folder/range-ort.onnx"'
# Several outputs.
outputs_are_the_same() {
  run export --checkpoint "$folder/outputs" --target "$1" --out "$folder/outputs-$1.onnx"
  ((status == 0)) && "$venv/bin/python" "$here/onnx_runtime_outputs.py" \
    "$folder/outputs-$1.onnx" "$folder/outputs.npz" "$folder/inputs.npz"
}
"$venv/bin/python" "$here/onnx_runtime_outputs.py" make "$folder"
run train --model "$here/onnx_runtime_outputs.json" --data "$folder/data.npz" --batch-size 32 \
  --epochs 4 --learning-rate 0.02 --quiet --out "$folder/outputs"
run predict --checkpoint "$folder/outputs" --input "$folder/inputs.npz" --raw "$folder/outputs.npz" \
  --quiet
holds "outputs, ort" outputs_are_the_same ort
holds "outputs, portable" outputs_are_the_same portable
finish
