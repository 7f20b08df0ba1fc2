# Data and networks with several outputs, for the tests of these. To be sourced.
# shellcheck shell=bash
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
here=$cli_tests

cat >"$folder/data.py" <<'PYTHON'
import random, sys
from small_data import folder, npz

# A bright half of the picture and the sign of a number say the class, both numbers the age, and two
# of the tags.
N = 800
kinds = [i % 4 for i in range(N)]
pictures, vectors, ages, tags = [], [], [], []
for kind in kinds:
    for y in range(8):
        pictures += [random.randrange(60) + 150 * ((x >= 4) == (kind >= 2)) for x in range(8)]
    a, b = (1 if kind % 2 else -1) * random.uniform(0.5, 2), random.gauss(0, 1)
    vectors += [a, b]
    ages.append(40 + 6 * a - 9 * b)
    tags += [int(a > 0), int(b > 0), int(kind == 0)]

def part(numbers, first, last):
    size = len(numbers) // N
    return numbers[first * size:last * size]

P = lambda a, b: ([b - a, 8, 8], "|u1", part(pictures, a, b))
V = lambda a, b: ([b - a, 2], "<f4", part(vectors, a, b))
K = lambda a, b: ([b - a], "|u1", part(kinds, a, b))
A = lambda a, b: ([b - a], "<f4", part(ages, a, b))
T = lambda a, b: ([b - a, 3], "|u1", part(tags, a, b))
all_of = lambda a, b: {"picture": P(a, b), "vector": V(a, b), "kind": K(a, b), "age": A(a, b),
                       "tags": T(a, b)}
splits = {}
for split, a, b in ("train", 0, 480), ("val", 480, 640), ("test", 640, 800):
    splits.update({f"{key}_{split}": array for key, array in all_of(a, b).items()})
npz("splits", **splits)
npz("all", **all_of(0, N), extra=([1], "<f4", [1]))
npz("inputs", picture=P(640, N), vector=V(640, N))
npz("fed", picture=([N - 640, 1, 8, 8], "|u1", part(pictures, 640, N)), vector=V(640, N))
npz("lacks", **{key: array for key, array in all_of(0, N).items() if key != "age"})
npz("short", **{**all_of(0, N), "age": A(0, N - 1)})
npz("five", **{**all_of(0, N), "kind": ([N], "|u1", [i % 5 for i in range(N)])})
npz("one", picture=P(0, N), vector=V(0, N), y=K(0, N))

# Sequences: the level of the first channel and the sign of the second say the class, both means the
# age; and words of each class among others.
series, words = [], []
means = []
for kind in kinds:
    level = (kind % 2) * 2 - 1, (kind // 2) * 2 - 1
    steps = [[random.gauss(level[0], .5), random.gauss(level[1], .5), random.gauss(0, 1)]
             for _ in range(12)]
    series += [v for step in steps for v in step]
    words += [random.choice([4 * kind + random.randrange(4), random.randrange(16, 20)])
              for _ in range(12)]
    means.append(40 + 6 * sum(s[0] for s in steps) / 12 - 9 * sum(s[1] for s in steps) / 12)
for name, shape, code, values in (("series", [12, 3], "<f4", series), ("words", [12], "<i4", words)):
    own = {"series": "numbers", "words": "tokens"}[name]
    splits = {}
    for split, a, b in ("train", 0, 640), ("test", 640, N):
        splits.update({f"{own}_{split}": ([b - a] + shape, code, part(values, a, b)),
                       f"kind_{split}": K(a, b),
                       f"age_{split}": ([b - a], "<f4", part(means, a, b)),
                       f"tags_{split}": ([b - a, 3], "|u1", [int(t) for k in kinds[a:b]
                                         for t in (k % 2 == 1, k > 1, k == 0)])})
    npz(name, **splits)
    npz(name + "-inputs", **{own: ([N - 640] + shape, code, part(values, 640, N))})

names = ["ash", "birch", "cedar", "fir"]
with open(f"{folder}/table.csv", "w") as file:
    file.write("bright,a,b,kind,age\n")
    for i, kind in enumerate(kinds):
        file.write(f"{int(kind >= 2)},{vectors[2 * i]:.4f},{vectors[2 * i + 1]:.4f},"
                   f"{names[kind]},{ages[i]:.3f}\n")
with open(f"{folder}/other.csv", "w") as file:
    file.write("years,b,a,bright,tree\n")
    for i, kind in enumerate(kinds):
        file.write(f"{ages[i]:.3f},{vectors[2 * i + 1]:.4f},{vectors[2 * i]:.4f},{int(kind >= 2)},"
                   f"{names[kind]}\n")
with open(f"{folder}/places.csv", "w") as file:
    file.write("bright,a,b,kind,age,east,north,wet,tall\n")
    for i, kind in enumerate(kinds):
        a, b = vectors[2 * i], vectors[2 * i + 1]
        file.write(f"{int(kind >= 2)},{a:.4f},{b:.4f},{names[kind]},{ages[i]:.3f},"
                   f"{100 + 10 * a:.3f},{-b:.3f},{'yes' if a > 0 else 'no'},{int(b > 0)}\n")
with open(f"{folder}/new.csv", "w") as file:
    file.write("b,bright,a\n")
    for i in range(40):
        file.write(f"{vectors[2 * i + 1]:.4f},{int(kinds[i] >= 2)},{vectors[2 * i]:.4f}\n")
with open(f"{folder}/odd.csv", "w") as file:
    file.write("bright,a,b,kind,age\n1,1,1,ash,old\n" + "1,2,3,fir,4\n" * 9)
PYTHON
python3 "$folder/data.py" "$folder"
python3 "$here/onnx_outputs.py" make "$folder"

cat >"$folder/three.json" <<'JSON'
{"format": "mantissa network 1", "name": "three",
 "nodes": [
  {"name": "picture", "op": "input", "type": "uint8", "shape": [8, 8, 1]},
  {"name": "vector", "op": "input", "type": "int16", "shape": [2], "exponent": -12},
  {"name": "kind", "op": "input", "type": "int32", "shape": []},
  {"name": "age", "op": "input", "type": "int16", "shape": [1], "exponent": -10},
  {"name": "tags", "op": "input", "type": "int32", "shape": [3]},
  {"name": "pixels", "op": "normalise_input", "inputs": ["picture"]},
  {"name": "flat", "op": "flatten", "inputs": ["pixels"]},
  {"name": "seen", "op": "linear", "inputs": ["flat"], "attributes": {"channels": 16}},
  {"name": "relu1", "op": "relu", "inputs": ["seen"]},
  {"name": "numbers", "op": "quantise_input", "inputs": ["vector"]},
  {"name": "read", "op": "linear", "inputs": ["numbers"], "attributes": {"channels": 16}},
  {"name": "relu2", "op": "relu", "inputs": ["read"]},
  {"name": "joined", "op": "concat", "inputs": ["relu1", "relu2"]},
  {"name": "trunk", "op": "linear", "inputs": ["joined"], "attributes": {"channels": 24}},
  {"name": "relu3", "op": "relu", "inputs": ["trunk"]},
  {"name": "kinds", "op": "linear", "inputs": ["relu3"], "attributes": {"channels": 4, "classifier": true}},
  {"name": "years", "op": "linear", "inputs": ["relu3"], "attributes": {"channels": 1, "classifier": true}},
  {"name": "marks", "op": "linear", "inputs": ["relu3"], "attributes": {"channels": 3, "classifier": true}},
  {"name": "kind_loss", "op": "softmax_cross_entropy", "inputs": ["kinds", "kind"]},
  {"name": "age_loss", "op": "regression_error", "inputs": ["years", "age"]},
  {"name": "tag_loss", "op": "sigmoid_cross_entropy", "inputs": ["marks", "tags"]}],
 "outputs": ["kinds", "years", "marks"], "losses": ["kind_loss", "age_loss", "tag_loss"]}
JSON
cat >"$folder/rows.json" <<'JSON'
{"format": "mantissa network 1", "name": "rows",
 "nodes": [
  {"name": "numbers", "op": "input", "type": "int16", "shape": [3], "exponent": -12},
  {"name": "kind", "op": "input", "type": "int32", "shape": []},
  {"name": "age", "op": "input", "type": "int16", "shape": [1], "exponent": -10},
  {"name": "values", "op": "quantise_input", "inputs": ["numbers"]},
  {"name": "hidden", "op": "linear", "inputs": ["values"], "attributes": {"channels": 32}},
  {"name": "relu", "op": "relu", "inputs": ["hidden"]},
  {"name": "kinds", "op": "linear", "inputs": ["relu"], "attributes": {"channels": 4, "classifier": true}},
  {"name": "years", "op": "linear", "inputs": ["relu"], "attributes": {"channels": 1, "classifier": true}},
  {"name": "age_loss", "op": "regression_error", "inputs": ["years", "age"]},
  {"name": "kind_loss", "op": "softmax_cross_entropy", "inputs": ["kinds", "kind"]}],
 "outputs": ["kinds", "years"], "losses": ["age_loss", "kind_loss"]}
JSON

fast=(--batch-size 32 --learning-rate 0.02 --quiet)
three=(--model "$folder/three.json" --data "$folder/splits.npz" "${fast[@]}")

# losses_are RUN TEXT: those of its network, each with its targets.
losses_are() {
  test "$(python3 "$here/onnx_outputs.py" losses "$1/network.json" | paste -sd,)" = "$2"
}
