#!/usr/bin/env bash
# Networks of a table's columns from ONNX, and quantised ones: import, train on CSV and on NumPy's
# arrays, refusals.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")

# A residual perceptron of four columns and three classes, in float and with weights of float16, and
# points that are easy to learn.
python3 -B - "$folder" "$here" <<'PYTHON'
import os, random, struct, sys
sys.path.insert(0, sys.argv[2])
from onnx_files import *
os.chdir(sys.argv[1])
random.seed(1)

def numbers(dims):
    return [random.uniform(-0.5, 0.5) for _ in range(math.prod(dims))]

def perceptron(halves):
    sizes = {"w1": [4, 16], "b1": [16], "w2": [16, 16], "b2": [16], "w3": [16, 3], "b3": [3]}
    graph, name = b"", lambda key: key
    for key, dims in sizes.items():
        list = numbers(dims)
        if halves:
            graph += tensor(key + ".16", dims, part(9, struct.pack(f"<{len(list)}e", *list)), 10)
            graph += node("Cast", [key + ".16"], [key], key, integer("to", 1))
        else:
            graph += tensor(key, dims, part(9, struct.pack(f"<{len(list)}f", *list)))
    graph += node("Gemm", ["x", "w1", "b1"], ["h"], "first") + node("Relu", ["h"], ["r"])
    graph += node("Gemm", ["r", "w2", "b2"], ["g"], "second") + node("Relu", ["g"], ["q"])
    graph += node("Add", ["r", "q"], ["s"]) + node("Gemm", ["s", "w3", "b3"], ["y"], "third")
    return model(graph + value(11, "x", ["batch", 4]) + value(12, "y", ["batch", 3]))

for name, halves in (("perceptron", False), ("halves", True)):
    with open(name + ".onnx", "wb") as file:
        file.write(perceptron(halves))

points = [(i % 3, [random.gauss(2 * (i % 3), 1) if k < 2 else random.gauss(0, 1) for k in range(4)])
          for i in range(600)]
with open("points.csv", "w") as file:
    file.write("a,b,c,d,class\n")
    for kind, point in points:
        file.write(",".join(f"{number:.3f}" for number in point) + f",{'xyz'[kind]}\n")
put_npz("points.npz", {"x": array([600, 4], [number for _, point in points for number in point]),
                       "y": array([600], [kind for kind, _ in points], "<i8")})
with open("wide.csv", "w") as file:
    file.write("a,b,c,d,e,class\n" + "".join(f"{i},1,2,{i % 5},3,{'xyz'[i % 3]}\n" for i in range(60)))
PYTHON

settings=(--batch-size 32 --epochs 15 --learning-rate 0.05 --quiet)
for name in perceptron halves; do
  accepts "import of $name" "" import "$folder/$name.onnx" --out "$folder/$name.safetensors"
  holds "its numbers' range is told" grep -q "multiples of 1/4096, from -8 to 8" "$folder/stderr"
  accepts "$name learns rows of a file" "test accuracy (8[5-9]|9[0-9])" train \
    --from "$folder/$name.safetensors" --data "$folder/points.csv" "${settings[@]}" \
    --out "$folder/$name"
done
refuses "the mean of pixels" 2 "input-mean and input-std are for pixels, .* reads none" \
  import "$folder/perceptron.onnx" --input-mean 0.5 --out "$folder/no.safetensors"
refuses "their deviation" 2 "input-mean and input-std are for pixels" \
  train --from "$folder/perceptron.onnx" --input-std 0.5 --data "$folder/points.csv" \
  "${settings[@]}" --out "$folder/no"
accepts "it learns rows of arrays" "test accuracy (8[5-9]|9[0-9])" train \
  --from "$folder/perceptron.onnx" --data "$folder/points.npz" "${settings[@]}" --out "$folder/arrays"
accepts "and predicts" "^line 2 +[xyz]" predict --checkpoint "$folder/perceptron" \
  --input "$folder/points.csv"
refuses "another number of columns" 2 "takes .*4.*has .*5" train --from "$folder/perceptron.onnx" \
  --data "$folder/wide.csv" "${settings[@]}" --out "$folder/x"

# Files of onnxruntime.quantization for pictures of 28x28.
foreign=$here/../fixtures/foreign
for name in ort_qdq_pc ort_qoperator_int8 ort_dynamic_uint8; do
  run train --from "$foreign/$name.onnx" --classes 10 --data "$data" --steps 4 --batch-size 16 \
    --out "$folder/quantised" --overwrite
  holds "trains $name" eval '((status == 0))'
done
holds "and says that its layers are real" grep -q "quantise their input as it comes" "$folder/stderr"

finish
