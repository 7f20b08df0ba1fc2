#!/usr/bin/env bash
# Networks with several inputs, from arrays by their names: training, resuming, measuring,
# predicting, refusals; and sequences with lengths.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cat >"$folder/data.py" <<'PYTHON'
import random, struct, sys
from small_data import folder, npz

# The class is 2 * (bright on the right) + (first number above 100).
N = 600
kinds = [i % 4 for i in range(N)]
pictures, vectors = [], []
for kind in kinds:
    for y in range(8):
        pictures += [random.randrange(60) + 150 * ((x >= 4) == (kind >= 2)) for x in range(8)]
    vectors += [100 + (1 if kind % 2 else -1) * random.uniform(10, 30), random.gauss(0, 1)]

def part(numbers, first, last):
    size = len(numbers) // N
    return numbers[first * size:last * size]

P, V = lambda a, b: ([b - a, 8, 8], "|u1", part(pictures, a, b)), \
       lambda a, b: ([b - a, 2], "<f4", part(vectors, a, b))
Y = lambda a, b: ([b - a], "|u1", kinds[a:b])
npz("both", picture=P(0, N), vector=V(0, N), y=Y(0, N), notes=([1], "<f4", [1]))
npz("splits", picture_train=P(0, 400), vector_train=V(0, 400), y_train=Y(0, 400),
    picture_val=P(400, 500), vector_val=V(400, 500), y_val=Y(400, 500),
    picture_test=P(500, N), vector_test=V(500, N), y_test=Y(500, N))
npz("inputs", picture=P(500, N), vector=V(500, N))
npz("fed", picture=([N - 500, 1, 8, 8], "|u1", part(pictures, 500, N)), vector=V(500, N))
npz("first", picture=([N, 1, 8, 8], "|u1", pictures), vector=V(0, N), y=Y(0, N))
npz("blind", picture=([N, 8, 8], "|u1", [9] * (64 * N)), vector=V(0, N), y=Y(0, N))
npz("missing", picture=P(0, N), y=Y(0, N))
npz("short", picture=P(0, N), vector=V(0, N - 1), y=Y(0, N))
npz("narrow", picture=P(0, N), vector=([2 * N], "<f4", vectors), y=Y(0, N))
npz("floats", picture=([N, 8, 8], "<f4", pictures), vector=V(0, N), y=Y(0, N))

# Sequences of up to ten positions: whether the last that counts is larger than the first.
def sequences(name, beyond):
    random.seed(2)
    numbers, tokens, lengths, bigger = [], [], [], []
    for i in range(N):
        length = random.randrange(3, 11)
        words = [random.randrange(1, 20) for _ in range(length)]
        words[0] = random.choice([w for w in range(1, 20) if abs(w - words[-1]) > 5])
        rest = [beyond + k for k in range(10 - length)]
        tokens += words + rest
        numbers += [n for word in words + rest for n in (word, (7 * word) % 5)]
        lengths.append(length)
        bigger.append(int(words[-1] > words[0]))
    y = ([N], "|u1", bigger)
    npz(name + "_numbers", x=([N, 10, 2], "<f4", numbers), lengths=([N], "<i4", lengths), y=y)
    npz(name + "_tokens", tokens=([N, 10], "<i4", tokens), lengths=([N], "<i4", lengths), y=y)
    npz(name + "_long", x=([N, 10, 2], "<f4", numbers), lengths=([N], "<i4", [11] * N), y=y)
    npz(name + "_whole", x=([N, 10, 2], "<f4", numbers), y=y)
# A table with a column of pictures, which lie below its folder.
import os, zlib
def png(path, pixels):
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))
    rows = b"".join(b"\0" + bytes(pixels[8 * y:8 * y + 8]) for y in range(8))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
os.makedirs(f"{folder}/seen")
for i in range(400):
    png(f"{folder}/seen/{i}.png", pictures[64 * i:64 * i + 64])
row = lambda i: f"seen/{i}.png,{vectors[2 * i]:.2f},{'ab'[i % 2]},{'wxyz'[kinds[i]]}\n"
with open(f"{folder}/table.csv", "w") as file:
    file.write("photo,size,colour,kind\n" + "".join(row(i) for i in range(400)))
with open(f"{folder}/lost.csv", "w") as file:
    file.write("photo,size,colour,kind\n" + "".join(row(i) for i in range(399)) + "no.png,1,a,w\n")
with open(f"{folder}/new.csv", "w") as file:
    file.write("colour,photo,size\n" + "".join(
        f"{'ab'[i % 2]},seen/{i}.png,{vectors[2 * i]:.2f}\n" for i in range(40)))
with open(f"{folder}/plain.csv", "w") as file:
    file.write("size,colour,kind\n" + "".join(row(i).split(",", 1)[1] for i in range(400)))
sequences("zeros", 0)
sequences("other", 3000)
PYTHON
python3 "$folder/data.py" "$folder"

cat >"$folder/both.json" <<'JSON'
{"format": "mantissa network 1", "name": "both",
 "nodes": [
  {"name": "picture", "op": "input", "type": "uint8", "shape": [8, 8, 1]},
  {"name": "vector", "op": "input", "type": "int16", "shape": [2], "exponent": -12},
  {"name": "labels", "op": "input", "type": "int32", "shape": []},
  {"name": "pixels", "op": "normalise_input", "inputs": ["picture"]},
  {"name": "conv", "op": "convolution", "inputs": ["pixels"], "attributes": {"channels": 8, "kernel": 3, "stride": 2, "padding": 1}},
  {"name": "relu1", "op": "relu", "inputs": ["conv"]},
  {"name": "flatten", "op": "flatten", "inputs": ["relu1"]},
  {"name": "seen", "op": "linear", "inputs": ["flatten"], "attributes": {"channels": 8}},
  {"name": "relu2", "op": "relu", "inputs": ["seen"]},
  {"name": "numbers", "op": "quantise_input", "inputs": ["vector"]},
  {"name": "read", "op": "linear", "inputs": ["numbers"], "attributes": {"channels": 8}},
  {"name": "relu3", "op": "relu", "inputs": ["read"]},
  {"name": "joined", "op": "concat", "inputs": ["relu2", "relu3"]},
  {"name": "classifier", "op": "linear", "inputs": ["joined"], "attributes": {"channels": 4, "classifier": true}},
  {"name": "loss", "op": "softmax_cross_entropy", "inputs": ["classifier", "labels"]}],
 "outputs": ["classifier"], "losses": ["loss"]}
JSON
cat >"$folder/numbers.json" <<'JSON'
{"format": "mantissa network 1", "name": "reader",
 "nodes": [
  {"name": "numbers", "op": "input", "type": "int16", "shape": [10, 2], "exponent": -12},
  {"name": "lengths", "op": "input", "type": "int32", "shape": []},
  {"name": "labels", "op": "input", "type": "int32", "shape": []},
  {"name": "values", "op": "quantise_input", "inputs": ["numbers"]},
  {"name": "gates", "op": "linear", "inputs": ["values"], "attributes": {"channels": 48, "least_bits": 16}},
  {"name": "gru", "op": "gru", "inputs": ["gates", "lengths"]},
  {"name": "last", "op": "slice", "inputs": ["gru"], "attributes": {"channels": 16, "position": 9}},
  {"name": "classifier", "op": "linear", "inputs": ["last"], "attributes": {"channels": 2, "classifier": true}},
  {"name": "loss", "op": "softmax_cross_entropy", "inputs": ["classifier", "labels"]}],
 "outputs": ["classifier"], "losses": ["loss"]}
JSON
sed -e 's/"name": "numbers", "op": "input", "type": "int16", "shape": \[10, 2\], "exponent": -12/"name": "tokens", "op": "input", "type": "int32", "shape": [10]/' \
  -e 's/"op": "quantise_input", "inputs": \["numbers"\]/"op": "embedding", "inputs": ["tokens"], "attributes": {"rows": 20, "channels": 8}/' \
  "$folder/numbers.json" >"$folder/tokens.json"

# A model of ONNX that reads the same.
python3 -B - "$folder" "$(dirname "$(realpath "${BASH_SOURCE[0]}")")" <<'PYTHON'
import random, sys
sys.path.insert(0, sys.argv[2])
from onnx_files import *
random.seed(3)
graph = (random_tensor("w", [8, 1, 3, 3], 0.3) + random_tensor("b", [8], 0.1) +
         random_tensor("v", [2, 8], 0.5) + random_tensor("c", [8], 0.1) +
         random_tensor("h", [8 * 6 * 6 + 8, 4], 0.1) + random_tensor("d", [4], 0.1) +
         node("Conv", ["picture", "w", "b"], ["seen"], "conv") + node("Relu", ["seen"], ["r"]) +
         node("Flatten", ["r"], ["f"]) + node("Gemm", ["vector", "v", "c"], ["g"], "read") +
         node("Relu", ["g"], ["q"]) + node("Concat", ["f", "q"], ["both"], "", integer("axis", 1)) +
         node("Gemm", ["both", "h", "d"], ["y"], "classifier") +
         value(11, "picture", ["batch", 1, 8, 8]) + value(11, "vector", ["batch", 2]) +
         value(12, "y", ["batch", 4]))
with open(f"{sys.argv[1]}/both.onnx", "wb") as file:
    file.write(model(graph))
PYTHON

# The same with the names that a table with pictures fills: three numbers of two columns.
sed -e 's/"name": "picture"/"name": "pixels"/; s/"inputs": \["picture"\]/"inputs": ["pixels"]/' \
  -e 's/"name": "pixels", "op": "normalise_input"/"name": "normal", "op": "normalise_input"/' \
  -e 's/"inputs": \["pixels"\], "attributes"/"inputs": ["normal"], "attributes"/' \
  -e 's/"name": "numbers", "op": "quantise_input"/"name": "values", "op": "quantise_input"/' \
  -e 's/"inputs": \["numbers"\], "attributes"/"inputs": ["values"], "attributes"/' \
  -e 's/"name": "vector", "op": "input", "type": "int16", "shape": \[2\]/"name": "numbers", "op": "input", "type": "int16", "shape": [3]/' \
  -e 's/"inputs": \["vector"\]/"inputs": ["numbers"]/' "$folder/both.json" >"$folder/rows.json"

fast=(--batch-size 32 --learning-rate 0.05 --quiet)

several() {
  accepts "a picture and a vector" "test accuracy (9[5-9]|100)" train --model "$folder/both.json" \
    --data "$folder/both.npz" "${fast[@]}" --epochs 6 --out "$folder/both"
  holds "an array that no input reads is named" grep -q \
    "the array 'notes' is not read: no input of the network is called so" "$folder/stderr"
  accepts "eval measures the same" "test accuracy (9[5-9]|100)" eval --checkpoint "$folder/both"
  accepts "without the picture it guesses" "test accuracy [3-6][0-9]" eval \
    --checkpoint "$folder/both" --data "$folder/blind.npz"
  accepts "channels may come first" "test accuracy (9[5-9]|100)" eval --checkpoint "$folder/both" \
    --data "$folder/first.npz"
  accepts "splits by name" "test accuracy" train --model "$folder/both.json" \
    --data "$folder/splits.npz" "${fast[@]}" --epochs 3 --out "$folder/splits"
  holds "and validation" grep -q "validation loss" "$folder/stderr"
  run predict --checkpoint "$folder/splits" --index 0-99 --csv "$folder/index.csv"
  run predict --checkpoint "$folder/splits" --input "$folder/inputs.npz" --csv "$folder/input.csv" \
    --raw "$folder/raw.npz"
  holds "test examples and a file of inputs have the same predictions" \
    cmp -s <(cut -d, -f4- "$folder/index.csv") <(cut -d, -f4- "$folder/input.csv")
  holds "a prediction for each" test "$(wc -l <"$folder/input.csv")" = 101
  holds "and their logits" test -s "$folder/raw.npz"
}

# The file of the run `splits`, of which there are the logits of inputs.npz.
exports() {
  local target
  for target in ort portable; do
    accepts "export, $target" "written to" export --checkpoint "$folder/splits" --target $target \
      --out "$folder/$target.onnx"
    holds "nothing is near" eval '! grep -q "are near" "$folder/stdout"'
    run run "$folder/$target.onnx" --inputs "$folder/fed.npz" --out "$folder/found.npz"
    holds "its logits are those of predict --raw" python3 \
      "$(dirname "${BASH_SOURCE[0]}")/onnx_tables.py" same "$folder/found.npz" "$folder/raw.npz"
    run predict --checkpoint "$folder/$target.onnx" --input "$folder/inputs.npz" \
      --raw "$folder/back.npz"
    holds "it loads back" cmp -s "$folder/raw.npz" "$folder/back.npz"
  done
}

imports() {
  local pixels=(--input-mean 0 --input-std 1)
  accepts "import" "written to" import "$folder/both.onnx" "${pixels[@]}" --out "$folder/both.st"
  accepts "a model of ONNX learns" "test accuracy (9[5-9]|100)" train --from "$folder/both.onnx" \
    --data "$folder/both.npz" "${pixels[@]}" "${fast[@]}" --epochs 6 --out "$folder/imported"
  accepts "in few bits" "test accuracy (8|9|100)" quantize --from "$folder/imported" --weights 4 \
    --activations 4 --data "$folder/both.npz" --batch-size 32 --epochs 2 --quiet --out "$folder/few"
  accepts "with batch norms" "test accuracy (9[5-9]|100)" train --from "$folder/both.onnx" \
    --insert-batch-norm --data "$folder/both.npz" "${pixels[@]}" "${fast[@]}" --epochs 6 \
    --out "$folder/normed"
  accepts "import with batch norms" "written to" import "$folder/both.onnx" "${pixels[@]}" \
    --insert-batch-norm --data "$folder/both.npz" --out "$folder/normed.st"
}

formats() {
  local format
  for format in dfp8 bfp:block=channel bfp:w=4,linear=16 fp32; do
    accepts "format $format" "test accuracy (8|9|100)" train --model "$folder/both.json" \
      --data "$folder/both.npz" "${fast[@]}" --epochs 6 --format "$format" --out "$folder/$format"
    accepts "and its frozen network" "test accuracy (8|9|100)" eval --checkpoint "$folder/$format"
  done
}

same() {
  run train --model "$folder/both.json" --data "$folder/both.npz" "${fast[@]}" --epochs 3 \
    --checkpoint-every 15 --threads 1 --out "$folder/one"
  run train --model "$folder/both.json" --data "$folder/both.npz" "${fast[@]}" --epochs 3 \
    --checkpoint-every 15 --threads 2 --out "$folder/two"
  holds "the same weights with other threads" same_entry state_sha256 "$folder/one" "$folder/two"
  holds "and when it goes on" go_on_from_the_checkpoint_before "$folder/one" --quiet
}

lengths() {
  local kind
  for kind in numbers tokens; do
    accepts "$kind with lengths" "test accuracy (8[5-9]|9|100)" train \
      --model "$folder/$kind.json" --data "$folder/zeros_$kind.npz" "${fast[@]}" --epochs 10 \
      --optimizer adam --learning-rate 0.01 --out "$folder/$kind"
    run predict --checkpoint "$folder/$kind" --index 0-50 --csv "$folder/zeros.csv"
    run predict --checkpoint "$folder/$kind" --data "$folder/other_$kind.npz" --index 0-50 \
      --csv "$folder/other.csv"
    holds "what lies behind a length does not matter" cmp -s "$folder/zeros.csv" "$folder/other.csv"
  done
  refuses "a length beyond the sequence" 2 "has the length 11; 1 to 10 positions are possible" \
    train --model "$folder/numbers.json" --data "$folder/zeros_long.npz" "${fast[@]}" \
    --out "$folder/x"
  refuses "no lengths" 2 "there is no array for the input 'lengths'" train \
    --model "$folder/numbers.json" --data "$folder/zeros_whole.npz" "${fast[@]}" --out "$folder/x"
}

pictures_of_rows() {
  accepts "a table with a column of pictures" "test accuracy (9[5-9]|100)" train \
    --model "$folder/rows.json" --data "$folder/table.csv" "${fast[@]}" --epochs 10 \
    --out "$folder/rows"
  holds "the column is named" grep -q "the column 'photo' has the paths" "$folder/stderr"
  accepts "eval reads it, too" "test accuracy (9[5-9]|100)" eval --checkpoint "$folder/rows"
  run predict --checkpoint "$folder/rows" --input "$folder/new.csv" --csv "$folder/new-out.csv"
  holds "rows without a target are predicted" eval \
    '(($(cut -d, -f5 "$folder/new-out.csv" | tail -n +2 | tr -d "\n" | grep -o wxyz | wc -l) >= 9))'
  refuses "serve answers about pictures alone" 2 "also reads 'numbers'" serve \
    --checkpoint "$folder/rows" --port 0
  refuses "a picture that is not there" 2 "no.png" train --model "$folder/rows.json" \
    --data "$folder/lost.csv" "${fast[@]}" --out "$folder/x"
  refuses "no column of pictures" 2 "no column has the path of a PNG" train \
    --model "$folder/rows.json" --data "$folder/plain.csv" "${fast[@]}" --out "$folder/x"
}

refusals() {
  local both=("${fast[@]}" --out "$folder/x")
  refuses "a missing array" 2 "no array for the input 'vector' \(numbers \[N, 2\]\)" train \
    --model "$folder/both.json" --data "$folder/missing.npz" "${both[@]}"
  refuses "another number of examples" 2 "'vector' \[599, 2\] has not as many examples" train \
    --model "$folder/both.json" --data "$folder/short.npz" "${both[@]}"
  refuses "another shape" 2 "'vector' \[1200\] has not the examples that the network takes" train \
    --model "$folder/both.json" --data "$folder/narrow.npz" "${both[@]}"
  refuses "pictures of floats" 2 "takes pictures, uint8 \[N, 8, 8, 1\]" train \
    --model "$folder/both.json" --data "$folder/floats.npz" "${both[@]}"
  refuses "other data" 2 "takes 'picture' \(U8 \[8, 8, 1\]\) and 'vector' \(I16 \[2\]\)" train \
    --model "$folder/both.json" --data fashion-mnist "${both[@]}"
  sed -e 's/"outputs": \["classifier"\]/"outputs": ["classifier", "read"]/' "$folder/both.json" \
    >"$folder/two.json"
  refuses "an output without a loss" 2 "it has 2 outputs, and not a loss for each" \
    train --data "$folder/both.npz" "${both[@]}" --model "$folder/two.json"
  refuses "a column of a table" 2 "target: names a column" train --data "$folder/both.npz" \
    --model "$folder/both.json" --target y "${both[@]}"
  refuses "inputs of another network" 2 "there is no array for the input 'picture'" predict \
    --checkpoint "$folder/both" --input "$folder/zeros_numbers.npz"
  holds "nothing was written" test ! -e "$folder/x"
}

several
exports
imports
formats
same
lengths
pictures_of_rows
refusals
finish
