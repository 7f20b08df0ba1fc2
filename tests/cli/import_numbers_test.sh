#!/usr/bin/env bash
# ONNX models that predict numbers, and models that leave the sizes of their input open: training,
# planning and quantising from the command line.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")

python3 -B - "$folder" "$here" <<'PYTHON'
import os, random, struct, sys
sys.path.insert(0, sys.argv[2])
from onnx_files import *
os.chdir(sys.argv[1])
random.seed(1)

def put(name, graph):
    with open(name + ".onnx", "wb") as file:
        file.write(model(graph))

# One number of six, or two of them.
for name, outputs in (("one", 1), ("two", 2)):
    put(name, random_tensor("w1", [6, 16], .5) + random_tensor("b1", [16], .1) +
        random_tensor("w2", [16, outputs], .5) + random_tensor("b2", [outputs], .1) +
        node("Gemm", ["x", "w1", "b1"], ["h"], "first") + node("Relu", ["h"], ["r"]) +
        node("Gemm", ["r", "w2", "b2"], ["y"], "last") +
        value(11, "x", ["batch", 6]) + value(12, "y", ["batch", outputs]))

def list_of(name, numbers):
    return part(5, part(1, name) + b"".join(number(8, n) for n in numbers) + number(20, 7))

# A class of sequences of 24 positions with 3 channels, and of pictures of 9x7 with 5 channels.
def convolutions(taps, channels, dims):
    kernel = [3] * taps
    return (random_tensor("w1", [8, channels] + kernel, .3) + random_tensor("w2", [8, 3], .5) +
            random_tensor("b2", [3], .1) +
            node("Conv", ["x", "w1"], ["c"], "conv", list_of("pads", [1, 1] * taps)) +
            node("Relu", ["c"], ["r"]) + node("GlobalAveragePool", ["r"], ["m"]) +
            node("Flatten", ["m"], ["f"]) + node("Gemm", ["f", "w2", "b2"], ["y"], "last") +
            value(11, "x", ["N", channels] + dims) + value(12, "y", ["N", 3]))
put("positions", convolutions(1, 3, ["T"]))
put("pictures", convolutions(2, 5, ["H", "W"]))

rows = [[random.gauss(0, 1) for _ in range(6)] for _ in range(600)]
flat = [number for row in rows for number in row]
put_npz("number.npz", {"x": array([600, 6], flat), "y": array([600], [3 * r[0] + r[1] for r in rows])})
put_npz("numbers.npz", {"x": array([600, 6], flat),
                        "y": array([600, 2], [n for r in rows for n in (r[0], r[1] - r[2])])})
put_npz("classes.npz", {"x": array([600, 6], flat), "y": array([600], [int(r[0] > 0) for r in rows], "<i8")})
kinds = [i % 3 for i in range(300)]
put_npz("positions.npz", {"x": array([300, 3, 24], [random.gauss(2 * (c == k), 1) for k in kinds
                                                    for c in range(3) for _ in range(24)]),
                          "y": array([300], kinds, "<i8")})
put_npz("pictures.npz", {"x": array([300, 5, 9, 7], [random.gauss(2 * (c == k), 1) for k in kinds
                                                     for c in range(5) for _ in range(63)]),
                         "y": array([300], kinds, "<i8")})
PYTHON

settings=(--batch-size 32 --epochs 8 --learning-rate 0.02 --quiet --threads 1 --seed 1)
r2_above() { python3 -c '
import json, sys; sys.exit(not json.load(open(sys.argv[1]))["test_r2"] > float(sys.argv[2]))' "$@"; }
for loss in none mse l1; do
  chosen=()
  [[ $loss == none ]] || chosen=(--loss "$loss")
  run train --from "$folder/one.onnx" --data "$folder/number.npz" "${chosen[@]}" "${settings[@]}" \
    --out "$folder/one-$loss"
  holds "a number is learned with --loss $loss" eval '((status == 0))'
  holds "and found" r2_above "$folder/one-$loss/summary.json" 0.8
  run train --from "$folder/two.onnx" --data "$folder/numbers.npz" "${chosen[@]}" \
    "${settings[@]}" --out "$folder/two-$loss"
  holds "two numbers, too" r2_above "$folder/two-$loss/summary.json" 0.8
done
holds "the squared error is the same with its name and without" \
  same_entry weights_sha256 "$folder/one-none" "$folder/one-mse"
run train --model "$folder/one.onnx" --data "$folder/number.npz" --loss mse "${settings[@]}" \
  --out "$folder/fresh"
holds "with fresh weights, too" r2_above "$folder/fresh/summary.json" 0.7
holds "a run of numbers resumes" go_on_from_the_checkpoint_before "$folder/one-mse"
run quantize --from "$folder/one.onnx" --data "$folder/number.npz" --weights 8 --activations 8 \
  --threads 1 --quiet --out "$folder/quantised"
holds "a model of numbers is quantised" eval '((status == 0))'
accepts "plan knows the numbers" "" plan --from "$folder/one.onnx" --data "$folder/number.npz" \
  --loss mse
run import "$folder/one.onnx" --out "$folder/one.safetensors"
holds "import says what one output is" grep -q "one number.*--loss sigmoid" "$folder/stderr"
refuses "classes for one number" 2 "one output.*--loss sigmoid takes the output" \
  train --from "$folder/one.onnx" --data "$folder/classes.npz" --out "$folder/no"
refuses "numbers for sigmoids" 2 "for classes.*has numbers" \
  train --from "$folder/one.onnx" --data "$folder/number.npz" --loss sigmoid --out "$folder/no"

# Open sizes, which only the settings say.
refuses "an open number of positions" 2 "--sequence says how many" \
  train --from "$folder/positions.onnx" --data "$folder/positions.npz" --out "$folder/no"
refuses "an open size of pictures" 2 "said by --input-size" \
  train --from "$folder/pictures.onnx" --data "$folder/pictures.npz" --out "$folder/no"
for kind in "positions --sequence 24" "pictures --input-size 9x7"; do
  read -r name size number <<<"$kind"
  from=(--from "$folder/$name.onnx" --data "$folder/$name.npz" "$size" "$number")
  run train "${from[@]}" "${settings[@]}" --channels first --out "$folder/$name"
  holds "open $name are trained" eval '((status == 0))'
  holds "it resumes" go_on_from_the_checkpoint_before "$folder/$name"
  accepts "plan takes $size" "" plan "${from[@]}"
  run quantize "${from[@]}" --weights 8 --activations 8 --threads 1 --quiet \
    --out "$folder/$name-quantised"
  holds "quantize takes it" eval '((status == 0))'
  run import "$folder/$name.onnx" "$size" "$number" --out "$folder/$name.safetensors"
  run train --from "$folder/$name.safetensors" "$size" "$number" --data "$folder/$name.npz" \
    "${settings[@]}" --out "$folder/$name-again"
  holds "a size may be repeated" eval '((status == 0))'
done
refuses "another number of positions" 2 "sequence 20: .* has 24 positions: leave it out" \
  train --from "$folder/positions.safetensors" --sequence 20 --data "$folder/positions.npz" \
  --out "$folder/no"
refuses "another size" 2 "input-size 9: .* has pictures of 9x7: leave it out" \
  train --from "$folder/pictures.safetensors" --input-size 9 --data "$folder/pictures.npz" \
  --out "$folder/no"
refuses "positions of a table" 2 "sequence: is for language models" \
  train --from "$folder/one.onnx" --sequence 24 --data "$folder/number.npz" --out "$folder/no"
finish
