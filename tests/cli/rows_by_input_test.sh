#!/usr/bin/env bash
# Rows of a sequence at places that an input of an ONNX model brings: import, training, export.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
here=$cli_tests

cat >"$folder/make.py" <<'PYTHON'
import random, struct, sys
from npz import write_npz
from onnx_files import array, integer, model, node, number, part, put_npz, random_tensor, tensor, value
folder = sys.argv[1]
random.seed(5)
N, T, C, R = 400, 12, 3, 2

# How many of the numbers at two places are above 0 is the class.
series = [random.gauss(0, 1) for _ in range(N * T * C)]
places = [random.randrange(T) for _ in range(N * R)]
kinds = [(series[(n * T + places[n * R]) * C] > 0) + (series[(n * T + places[n * R + 1]) * C] > 0)
         for n in range(N)]
arrays = {}
for split, a, b in ("train", 0, 320), ("test", 320, N):
    arrays.update({f"numbers_{split}": ([b - a, T, C], "<f4", series[a * T * C:b * T * C]),
                   f"at_{split}": ([b - a, R], "<i4", places[a * R:b * R]),
                   f"y_{split}": ([b - a], "|u1", kinds[a:b])})
write_npz(f"{folder}/data.npz", **arrays)
test = range(320, N)
write_npz(f"{folder}/inputs.npz", numbers=([80, T, C], "<f4", series[320 * T * C:]),
          at=([80, R], "<i4", places[320 * R:]))

# What the network reads: standardised by the training examples, in steps of 1/4096.
def standardised(c):
    seen = series[c:320 * T * C:C]
    mean = sum(seen) / len(seen)
    deviation = (sum((x - mean) ** 2 for x in seen) / len(seen)) ** .5
    return mean, deviation
scales = [standardised(c) for c in range(C)]
fed = [round((x - scales[i % C][0]) / scales[i % C][1] * 4096) / 4096
       for i, x in enumerate(series[320 * T * C:])]
for name in "series", "numbers":
    put_npz(f"{folder}/{name}.npz", {name: array((80, T, C), fed),
                                     "at": array((80, R), places[320 * R:], "<i8")})

def wholes(name, numbers):
    return tensor(name, (len(numbers),), part(9, struct.pack(f"<{len(numbers)}q", *numbers)), 7)

def gemm(name, source, inputs, outputs):
    return (node("Gemm", [source, name + ".w", name + ".b"], [name], name) +
            random_tensor(name + ".w", (inputs, outputs), (3 / inputs) ** .5) +
            random_tensor(name + ".b", (outputs,), .1))

begin = (value(11, "series", ("N", T, C)) + value(11, "at", ("N", R), 7) +
         node("MatMul", ["series", "read"], ["each"]) + random_tensor("read", (C, 16), 1) +
         wholes("last", [-1]) + node("Unsqueeze", ["at", "last"], ["column"]))
axes = part(5, part(1, "axes") + number(8, 1) + number(20, 7)) + integer("keepdims", 0)
end = (node("Relu", ["rows"], ["active"]) + node("ReduceMean", ["active"], ["vector"], "", axes) +
       gemm("hidden", "vector", 16, 32) + node("Relu", ["hidden"], ["ready"]) +
       gemm("logits", "ready", 32, 3) + value(12, "logits", ("N", 3)))
rows = {
    "nd": node("GatherND", ["each", "column"], ["rows"], "pick", integer("batch_dims", 1)),
    "elements": wholes("all", [1, 1, 16]) + node("Expand", ["column", "all"], ["spread"]) +
                node("GatherElements", ["each", "spread"], ["rows"], "pick", integer("axis", 1)),
    "first": node("GatherND", ["each", "column"], ["rows"], "pick", integer("batch_dims", 0)),
    "part": wholes("all", [1, 1, 8]) + node("Expand", ["column", "all"], ["spread"]) +
            node("GatherElements", ["each", "spread"], ["rows"], "pick", integer("axis", 1))}
for name, middle in rows.items():
    with open(f"{folder}/{name}.onnx", "wb") as file:
        file.write(model(begin + middle + end + part(2, name)))
PYTHON
python3 "$folder/make.py" "$folder"

fast=(--data "$folder/data.npz" --batch-size 32 --learning-rate 0.02 --quiet)

# near RAW FOUND MOST: logits of predict --raw and of an ONNX file.
near() {
  python3 - "$@" <<'PYTHON'
import sys
from onnx_files import get_npz
wanted, found = get_npz(sys.argv[1], "logits")[0], get_npz(sys.argv[2], "logits")[0]
assert len(wanted) == len(found) == 240 and len(set(found)) > 100
worst = max(abs(x - y) for x, y in zip(wanted, found)) / max(map(abs, wanted))
assert worst < float(sys.argv[3]), worst
PYTHON
}

for form in nd elements; do
  run import "$folder/$form.onnx" --out "$folder/$form.st"
  holds "$form: the input is named" grep -q \
    "the input 'at' has places of rows; the data call it 'at'" "$folder/stderr"
  run train --from "$folder/$form.st" "${fast[@]}" --learning-rate 1e-12 --steps 1 --format fp32 \
    --out "$folder/$form-same"
  holds "$form: gather_rows reads it" grep -q '"op": "gather_rows"' "$folder/$form-same/network.json"
  run predict --checkpoint "$folder/$form-same" --input "$folder/inputs.npz" \
    --raw "$folder/raw.npz" --csv "$folder/csv"
  run run "$folder/$form.onnx" --inputs "$folder/series.npz" --out "$folder/found.npz"
  holds "$form: the model's own numbers" near "$folder/raw.npz" "$folder/found.npz" 2e-5
  accepts "$form: it learns" "test accuracy (8|9|100)" train --from "$folder/$form.onnx" "${fast[@]}" \
    --epochs 30 --format fp32 --out "$folder/$form"
  run predict --checkpoint "$folder/$form" --input "$folder/inputs.npz" --raw "$folder/raw.npz" \
    --csv "$folder/csv"
  accepts "$form: export" "written to" export --checkpoint "$folder/$form" --out "$folder/out.onnx"
  run run "$folder/out.onnx" --inputs "$folder/numbers.npz" --out "$folder/found.npz"
  holds "$form: the exported file has the run's numbers" near "$folder/raw.npz" \
    "$folder/found.npz" 2e-5
  accepts "$form: in integers" "test accuracy (8|9|100)" train --from "$folder/$form.onnx" "${fast[@]}" \
    --epochs 30 --out "$folder/$form-integers"
done
holds "both forms are one network" same_entry state_sha256 "$folder/nd" "$folder/elements"
refuses "places that are clipped first" 2 "inputs 'numbers' .*, 'at' .*places of rows" import \
  "$folder/out.onnx" --sequence 12 --out "$folder/x"
refuses "places along the examples" 2 "node 'pick' \(GatherND\): picks something else by an input" \
  import "$folder/first.onnx" --out "$folder/x"
refuses "parts of rows" 2 "node 'pick' \(GatherND\): picks something else by an input" \
  import "$folder/part.onnx" --out "$folder/x"
holds "nothing was written" test ! -e "$folder/x"
finish
