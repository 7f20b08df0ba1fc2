#!/usr/bin/env bash
# Tables from training to prediction: CSV files and NumPy's arrays, classes and numbers.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Tables that are easy to learn: flowers of three kinds, and the price of houses.
python3 - "$folder" <<'PYTHON'
import os, random, sys
folder = sys.argv[1]
random.seed(1)

def put(name, lines):
    with open(f"{folder}/{name}", "w") as file:
        file.write("\n".join(lines) + "\n")

def flower(i):
    kind = i % 3
    size = f"{2 + 3 * kind + random.gauss(0, 0.5):.2f}" if i % 17 else ""
    return f"{size},{random.random():.3f},{['red', 'blue', 'red'][kind]},{['iris', 'rose', 'tulip'][kind]}"

flowers = ["size,noise,colour,kind"] + [flower(i) for i in range(600)]
put("flowers.csv", flowers)

# Weights: of the kinds, and 4 for all.
kinds = {"iris": 1, "rose": 2, "tulip": 0.5}
put("weighted.csv", [flowers[0] + ",weight,four"] +
    [f"{line},{kinds[line.split(',')[3]]},4" for line in flowers[1:]])
put("heavy.csv", ["size,weight,kind"] + [f"{i},{i - 1},{'ab'[i % 2]}" for i in range(40)])

def house():
    area, rooms = random.uniform(20, 200), random.randrange(1, 7)
    return f"{area:.1f}".replace(".", ",") + f";{rooms};{1000 * area + 20000 * rooms:.0f}".replace(".", ",")

os.makedirs(f"{folder}/houses")
put("houses/train.csv", ["area;rooms;price"] + [house() for _ in range(800)])
put("houses/valid.csv", ["area;rooms;price"] + [house() for _ in range(100)])
put("houses/test.csv", ["area;rooms;price"] + [house() for _ in range(200)])
put("new.csv", ["colour,size,noise", "blue,5.1,0.5", "red,1.9,0.5", "green,,"])
put("no-size.csv", ["colour,price", "blue,5.1"])
PYTHON

check_classes() {
  local run=$folder/flowers
  accepts "data: describes columns" "colour +2 categories" data "$folder/flowers.csv"
  accepts "data --quiet: a table" "480 training and 120 test examples of 3 classes, 3 columns" \
    data "$folder/flowers.csv" --quiet
  prints_json "data --json: a table" data "$folder/flowers.csv" --json
  holds "data --json: missing values" python3 -c '
import json, sys
columns = json.load(open(sys.argv[1]))["table"]["columns"]
sys.exit([c["name"] for c in columns] != ["size", "noise", "colour"] or columns[0]["missing"] < 20)' \
    "$folder/stdout"
  accepts "train on classes" "test accuracy (9[0-9]|100)" train --model mlp --hidden 32 \
    --data "$folder/flowers.csv" --batch-size 32 --epochs 20 --out "$run" --quiet
  accepts "the same once more" "test accuracy" train --config "$run/config.toml" \
    --out "$run-again" --threads 1 --quiet
  holds "gives the same bits" same_entry state_sha256 "$run" "$run-again"
  holds "it resumes" go_on_from_the_checkpoint_before "$run"
  accepts "eval of classes" "^rose|[0-9] rose" eval --checkpoint "$run"
  accepts "predict: rows of a file" "^line 2 +rose" predict --checkpoint "$run" --input "$folder/new.csv"
}

check_prediction_files() {
  local run=$folder/flowers
  accepts "predict --csv: rows of a file" "^line 3,,,0,iris," predict --checkpoint "$run" \
    --input "$folder/new.csv" --csv -
  holds "an unknown category is told" grep -q "1 texts are none of the training rows' categories" \
    "$folder/stderr"
  prints_json "predict --json: rows" predict --checkpoint "$run" --input "$folder/flowers.csv" --json
  holds "with their classes" python3 -c '
import json, sys
rows = json.load(open(sys.argv[1]))["predictions"]
right = sum(row["label"] == row["guess"] for row in rows)
sys.exit(len(rows) != 600 or right < 540)' "$folder/stdout"
  refuses "predict: a column is missing" 2 "no column 'size'; there are colour, price" predict \
    --checkpoint "$run" --input "$folder/no-size.csv"
  accepts "predict: test rows" "test 3" predict --checkpoint "$run" --index 0-5
  refuses "predict: pictures" 2 "picture.png', line|no column|byte 0|UTF-16" predict \
    --checkpoint "$run" --input "$data/picture.png"
  accepts "report of a table's run" "" report "$run" --out "$folder/report.html"
  accepts "plan of a table" "planned peak|peak" plan --model mlp --data "$folder/flowers.csv" \
    --batch-size 32
}

check_numbers() {
  local run=$folder/prices
  accepts "train on numbers" "test R2 0.9[0-9]" train --model mlp --hidden 64,32 \
    --data "$folder/houses" --batch-size 32 --epochs 20 --learning-rate 0.02 --out "$run" --quiet
  holds "summary.json has R2 and RMSE" eval '[[ $(json "$run/summary.json" test_rmse) > 100 ]]'
  holds "and no accuracy" eval '! grep -q accuracy "$run/summary.json" "$run/metrics.jsonl"'
  holds "each epoch is validated" \
    eval '(($(grep -c validation_loss "$run/metrics.jsonl") == 20))'
  accepts "eval of numbers" "^price: R2 0.9[0-9]+, RMSE" eval --checkpoint "$run"
  prints_json "eval --json of numbers" eval --checkpoint "$run" --json
  accepts "predict of numbers" "^line 2 +[0-9.e+]+ +[0-9.e+]+$" predict --checkpoint "$run" \
    --input "$folder/houses/test.csv"
  accepts "predict --csv of numbers" "^source,truth,price$" predict --checkpoint "$run" \
    --input "$folder/houses/test.csv" --csv -
  accepts "early stop and plateau" "test R2" train --model mlp --data "$folder/houses" \
    --batch-size 64 --epochs 3 --early-stop 2 --lr-schedule plateau --out "$folder/early" --quiet
  accepts "whole numbers as numbers" "test R2" train --model mlp --target rooms --task regression \
    --data "$folder/houses" --batch-size 64 --epochs 1 --out "$folder/rooms" --quiet
  accepts "whole numbers as classes" "of 6 classes" data "$folder/houses" --target rooms --quiet
  accepts "fp32" "test R2 0" train --model mlp --format fp32 --data "$folder/houses" --batch-size 64 \
    --epochs 2 --learning-rate 0.02 --out "$folder/fp32" --quiet
}

# weighted NAME SETTINGS...: trains a few steps with them; `weights` are those it ends with.
weighted() {
  accepts "weights: $1" "test accuracy" train --model mlp --hidden 8 --data "$folder/weighted.csv" \
    --target kind --batch-size 32 --steps 40 --checkpoint-every 15 --quiet --threads 2 \
    --out "$folder/weighted-$1" "${@:2}"
  weights=$(json "$folder/weighted-$1/summary.json" weights_sha256)
}

check_row_weights() {
  local none classes run=$folder/weighted-rows
  weighted none --ignore weight,four
  none=$weights
  weighted even --ignore weight --row-weights four
  holds "weights that are alike change nothing" [ "$weights" = "$none" ]
  weighted classes --ignore weight,four --class-weights 1,2,0.5
  classes=$weights
  weighted rows --ignore four --row-weights weight
  holds "weights of rows are those of classes where they are the same" [ "$weights" = "$classes" ]
  holds "and change results" [ "$weights" != "$none" ]
  holds "a weighted run resumes" go_on_from_the_checkpoint_before "$run"
  refuses "resume without weights" 2 "was .*other settings|row-weights|another run|does not fit" \
    train --model mlp --hidden 8 --data "$folder/weighted.csv" --target kind --ignore weight,four \
    --batch-size 32 --steps 40 --out "$run" --resume
  accepts "eval without the column of weights" "test accuracy" eval --checkpoint "$run" \
    --data "$folder/flowers.csv"
  accepts "predict without it" "^line 2 +rose" predict --checkpoint "$run" --input "$folder/new.csv"
  accepts "data: the column of weights" "class 'kind', weighted by 'weight'" data \
    "$folder/weighted.csv" --target kind --row-weights weight
  accepts "weights of numbers" "test R2" train --model mlp --data "$folder/houses" --row-weights rooms \
    --batch-size 64 --epochs 1 --out "$folder/weighted-numbers" --quiet
  refuses "a negative weight" 2 "heavy.csv', line 2: column 'weight' has '-1'; .* from 0 to 31" train \
    --model mlp --data "$folder/heavy.csv" --row-weights weight --out "$folder/none"
  refuses "weights of text" 2 "line 2: column 'colour' has 'red'; weights of rows are numbers" train \
    --model mlp --data "$folder/flowers.csv" --row-weights colour --out "$folder/none"
  refuses "weights of nothing" 2 "line 2: column 'size' has no weight" train --model mlp \
    --data "$folder/flowers.csv" --row-weights size --out "$folder/none"
  refuses "the target as weights" 2 "the column 'kind' is the target" train --model mlp \
    --data "$folder/flowers.csv" --target kind --row-weights kind --out "$folder/none"
  refuses "two kinds of weights" 2 "row-weights and class-weights exclude each other" train \
    --model mlp --data "$folder/weighted.csv" --target kind --row-weights four \
    --class-weights balanced --out "$folder/none"
  refuses "weights of pictures" 2 "row-weights: is for tables, and " train --model mlp \
    --data "$data" --row-weights w --out "$folder/none"
}

# The other commands on networks for tables: classes in flowers, numbers in prices.
check_other_commands() {
  local kind data result
  for kind in flowers prices; do
    data=$folder/flowers.csv result="test accuracy (9[0-9]|100)"
    [[ $kind == flowers ]] || { data=$folder/houses; result="test R2 0.9"; }
    accepts "$kind: quantize" "$result" quantize --from "$folder/$kind" --data "$data" \
      --batch-size 32 --epochs 1 --out "$folder/$kind-few" --quiet
    accepts "$kind: eval of few bits" "" eval --checkpoint "$folder/$kind-few" --data "$data"
    accepts "$kind: predict by few bits" "^line 2 " predict --checkpoint "$folder/$kind-few" \
      --input "${data/houses/houses/test.csv}"
    accepts "$kind: sensitivity" "8 bits everywhere: loss" quantize --from "$folder/$kind" \
      --data "$data" --batch-size 32 --validation $([[ $kind == flowers ]] && echo 100 || echo 0) \
      --sensitivity --ends 0
    holds "$kind: accuracy where there are classes alone" \
      eval '[[ $(grep -c accuracy "$folder/stdout") == $([[ $kind == flowers ]] && echo 2 || echo 0) ]]'
    accepts "$kind: from a run, with its hidden layers" "$result" train --from "$folder/$kind" \
      --data "$data" --batch-size 32 --epochs 1 --out "$folder/$kind-from" --quiet
    accepts "$kind: report" "" report "$folder/$kind" "$folder/$kind-few" --out "$folder/report.html"
    accepts "$kind: export" "written to" export --checkpoint "$folder/$kind" \
      --out "$folder/$kind.onnx"
    refuses "$kind: serve" 2 "reads no pictures.*predict --input takes files of rows" serve \
      --checkpoint "$folder/$kind" --port 0
    refuses "$kind: bench" 2 "takes tables; bench --checkpoint measures networks of pictures" bench \
      --checkpoint "$folder/$kind"
  done
  accepts "quantize with the network's settings" "test accuracy" quantize --from "$folder/flowers" \
    --model mlp --hidden 32 --data "$folder/flowers.csv" --batch-size 32 --out "$folder/few-too" --quiet
}

check_launch() {
  if ! command -v mpirun >/dev/null || [[ ! -e $(dirname "$MANTISSA")/libmantissa-mpi.so ]]; then
    echo "skipped: launch (there is no Open MPI)"
    return
  fi
  local name table
  for name in flowers.csv houses; do
    table=(train --model mlp --hidden 16 --data "$folder/$name" --batch-size 32 --micro-batch-size 8
      --steps 20 --stages 2 --quiet)
    accepts "$name: two stages" "test (accuracy|R2)" "${table[@]}" --out "$folder/one-$name"
    accepts "$name: launch" "test (accuracy|R2)" launch -n 2 -- "${table[@]}" --out "$folder/two-$name"
    holds "$name: the same bits" same_entry state_sha256 "$folder/one-$name" "$folder/two-$name"
  done
}

check_refusals() {
  local table=$folder/flowers.csv
  refuses "a network of pictures" 2 "lenet5 takes pictures.*mlp takes tables" train --model lenet5 \
    --data "$table" --out "$folder/none"
  refuses "augment" 2 "augment: is for pictures" train --model mlp --augment flip --data "$table" \
    --out "$folder/none"
  refuses "an unknown target" 2 "no column 'size2'; there are size, noise" train --model mlp \
    --target size2 --data "$table" --out "$folder/none"
  refuses "texts as numbers" 2 "is not of numbers" train --model mlp --task regression \
    --data "$table" --out "$folder/none"
  refuses "an unknown task" 2 "none of auto, classification and regression" train --model mlp \
    --task ranking --data "$table" --out "$folder/none"
  refuses "hidden of another network" 2 "hidden: is for --model mlp" train --model lenet5 \
    --hidden 20 --data "$data" --out "$folder/none"
  refuses "widths of nothing" 2 "not a whole number" train --model mlp --hidden 20,x \
    --data "$table" --out "$folder/none"
  refuses "a contact sheet of a table" 2 "is of pictures" data "$table" --contact-sheet "$folder/s.png"
  touch "$folder/a.parquet"
  refuses "parquet" 2 "read from Python alone: pandas.read_parquet" train --model mlp \
    --data "$folder/a.parquet" --out "$folder/none"
  refuses "eval of pictures with a table's network" 2 "has pictures, and the network takes tables" \
    eval --checkpoint "$folder/flowers" --data "$data"
}

check_arrays() {
  python3 -c "import numpy" 2>/dev/null || { echo "skipped: arrays (no NumPy)"; return; }
  python3 - "$folder" <<'PYTHON'
import sys
import numpy as np
folder = sys.argv[1]
random = np.random.default_rng(1)
y = random.integers(0, 4, 400)
pictures = (random.integers(0, 60, (400, 12, 12)) + 150 * (np.arange(12)[:, None] % 4 == y[:, None, None])).astype("uint8")
np.savez(f"{folder}/pictures.npz", x_train=pictures[:300], y_train=y[:300], x_test=pictures[300:], y_test=y[300:])
x = random.normal(size=(500, 5)).astype("float32")
np.savez_compressed(f"{folder}/numbers.npz", x=x, y=x[:, 0] * 3 + x[:, 1])
PYTHON
  accepts "train on pictures in arrays" "test accuracy (9[0-9]|100)" train --model mlp \
    --data "$folder/pictures.npz" --batch-size 20 --epochs 10 --out "$folder/arrays" --quiet
  accepts "eval of pictures in arrays" "test accuracy" eval --checkpoint "$folder/arrays"
  accepts "train on numbers in arrays" "test R2 0.9" train --model mlp --data "$folder/numbers.npz" \
    --batch-size 16 --epochs 15 --learning-rate 0.02 --out "$folder/numbers" --quiet
  accepts "data: arrays" "NumPy arrays" data "$folder/numbers.npz"
}

check_classes
check_prediction_files
check_numbers
check_row_weights
check_other_commands
check_launch
check_refusals
check_arrays
finish
