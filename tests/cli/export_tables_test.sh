#!/usr/bin/env bash
# `export` of networks of tables: `mantissa run` computes the logits of `predict --raw` from a file's
# columns, which are not standardised, with missing numbers and categories; the file loads back.
# tests/long/onnx/brought_networks has ONNX Runtime.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

here=$(dirname "${BASH_SOURCE[0]}")
tables() { python3 "$here/onnx_tables.py" "$@"; }

# Numbers are multiples of 1/64, which float32 has.
python3 - "$folder" <<'PYTHON'
import random, sys
random.seed(2)

def put(name, lines):
    with open(f"{sys.argv[1]}/{name}.csv", "w") as file:
        file.write("\n".join(lines) + "\n")

def near(x, deviation):
    return round(random.gauss(x, deviation) * 64) / 64

def flower(i):
    kind = i % 3
    size = near(1000 + 3 * kind, 0.5) if i % 17 else ""
    return f"{size},{near(0, 40)},{['red', 'blue', ''][random.randrange(3)]},{'abc'[kind]}"

put("flowers", ["size,noise,colour,kind"] + [flower(i) for i in range(400)])

def house():
    area, rooms = near(100, 40), random.randrange(1, 7)
    return f"{area},{rooms},{1000 * area + 20000 * rooms}"

put("houses", ["area,rooms,price"] + [house() for _ in range(400)])
PYTHON

# same_logits RUN FILE: those of the run, by its file.
same_logits() {
  run run "$2" --inputs "$folder/$table.npz" --out "$folder/found.npz"
  ((status == 0)) && tables same "$folder/found.npz" "$folder/$1.npz"
}

# loads_back RUN FILE: the file predicts the mantissas of the run.
loads_back() {
  run predict --checkpoint "$2" --input "$folder/$table.csv" --raw "$folder/back.npz" --quiet
  ((status == 0)) && cmp "$folder/$1.npz" "$folder/back.npz"
}

# check RUN
check() {
  local target
  run predict --checkpoint "$folder/$1" --input "$folder/$table.csv" --raw "$folder/$1.npz" --quiet
  for target in ort portable; do
    accepts "$1, $target: export" "written to" \
      export --checkpoint "$folder/$1" --target $target --out "$folder/$1-$target.onnx"
    holds "$1, $target: nothing is near" eval '! grep -q "are near" "$folder/stdout"'
    holds "$1, $target: the same logits" same_logits "$1" "$folder/$1-$target.onnx"
    holds "$1, $target: it loads back" loads_back "$1" "$folder/$1-$target.onnx"
  done
}

train() {
  run train --data "$folder/$table.csv" --batch-size 32 --epochs 4 --quiet --threads 1 \
    --out "$folder/$1" "${@:2}"
}

table=flowers
tables put "$folder/flowers.csv" "$folder/flowers.npz" size noise colour=blue,red
train classes --model mlp --hidden 32
check classes
accepts "the input" 'columns +.*N x 4' info "$folder/classes-ort.onnx"
holds "the columns' names are in the file" grep -aq 'mantissa.columns' "$folder/classes-ort.onnx"
run quantize --from "$folder/classes" --data "$folder/flowers.csv" --weights 4 --activations 4 \
  --ends 0 --batch-size 32 --epochs 1 --quiet --out "$folder/few"
check few
table=houses
tables put "$folder/houses.csv" "$folder/houses.npz" area rooms
train numbers --model mlp --hidden 16
check numbers
finish
