#!/usr/bin/env bash
# Tasks by the target of the data: two classes, labels that go together, several numbers, classes in
# an order. Their scores are those of their definitions, which are scikit-learn's, on the
# predictions that `predict` writes.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python3 - "$folder" <<'PYTHON'
import io, random, struct, sys, zipfile
folder = sys.argv[1]
random.seed(2)

def table(name, columns, rows):
    with open(f"{folder}/{name}", "w") as file:
        file.write("\n".join([",".join(columns)] + [",".join(map(str, row)) for row in rows]) + "\n")

def array(shape, type, pack, numbers):
    head = f"{{'descr': '{type}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() +
            struct.pack(f"<{len(numbers)}{pack}", *numbers))

def archive(name, **arrays):
    with zipfile.ZipFile(f"{folder}/{name}", "w") as file:
        for key, bytes_ in arrays.items():
            file.writestr(f"{key}.npy", bytes_)

points = [[round(random.gauss(0, 1), 4) for _ in range(3)] for _ in range(600)]
noise = lambda: random.gauss(0, 0.3)
rare = [int(a + b + noise() > 1.8) for a, b, c in points]
table("binary.csv", ["a", "b", "c", "rare"], [p + [r] for p, r in zip(points, rare)])
labels = [[int(a + noise() > 0), int(b - c + noise() > 1), int(c + noise() < -1)]
          for a, b, c in points]
table("labels.csv", ["a", "sport", "b", "news", "c", "film"],
      [[p[0], l[0], p[1], l[1], p[2], l[2]] for p, l in zip(points, labels)])
numbers = [[round(3 * a - b + noise(), 4), round(100 + 20 * c + noise(), 3)] for a, b, c in points]
table("numbers.csv", ["a", "b", "c", "price", "size"], [p + n for p, n in zip(points, numbers)])
grades = [min(4, max(0, round(2 + a + 0.5 * b + noise()))) for a, b, c in points]
table("grades.csv", ["a", "b", "c", "grade"], [p + [g] for p, g in zip(points, grades)])

flat = [x for p in points for x in p]
archive("labels.npz", x=array((600, 3), "<f8", "d", flat),
        y=array((600, 3), "<i4", "i", [x for l in labels for x in l]))
archive("numbers.npz", x=array((600, 3), "<f8", "d", flat),
        y=array((600, 2), "<f4", "f", [x for n in numbers for x in n]))
pictures = [[int(random.random() < 0.5) for _ in range(4)] for _ in range(300)]
pixels = [min(255, max(0, int(200 * p[(y // 4) * 2 + x // 4] + random.gauss(20, 10))))
          for p in pictures for y in range(8) for x in range(8)]
archive("pictures.npz", x=array((300, 8, 8), "|u1", "B", pixels),
        y=array((300, 4), "|u1", "B", [x for p in pictures for x in p]))
archive("bad.npz", x=array((300, 8, 8), "|u1", "B", pixels),
        y=array((300, 4), "|u1", "B", [2] + [x for p in pictures for x in p][1:]))
PYTHON

# scores_are_those_of KIND RUN CSV.
scores_are_those_of() {
  python3 - "$1" "$2/evaluation.json" "$3" <<'PYTHON'
import csv, json, math, sys
kind, found, rows = sys.argv[1], json.load(open(sys.argv[2])), list(csv.DictReader(open(sys.argv[3])))

def check(key, wanted, value=None):
    value = found[key] if value is None else value
    assert abs(value - wanted) < 1e-9, (key, value, wanted)

def average_precision(scores, truth):
    ones = [s for s, t in zip(scores, truth) if t]
    return sum(sum(a >= b for a in ones) / sum(a >= b for a in scores) for b in ones) / len(ones)

def auc(scores, truth):
    ones, zeros = ([s for s, t in zip(scores, truth) if t == k] for k in (1, 0))
    return sum((a > b) + 0.5 * (a == b) for a in ones for b in zeros) / len(ones) / len(zeros)

def f1(truth, guess):
    hits, all_ = sum(t and g for t, g in zip(truth, guess)), sum(truth) + sum(guess)
    return 2 * hits / all_ if all_ else 0

assert found["examples"] == len(rows)
if kind == "binary":
    name = found["class_names"][1]
    scores, truth = [float(r[name]) for r in rows], [int(r["label"]) for r in rows]
    guess = [int(r["guess"]) for r in rows]
    hits = sum(t and g for t, g in zip(truth, guess))
    check("auc", auc(scores, truth))
    check("average_precision", average_precision(scores, truth))
    check("precision", hits / sum(guess) if sum(guess) else 0)
    check("recall", hits / sum(truth))
    check("f1", f1(truth, guess))
    check("accuracy", sum(t == g for t, g in zip(truth, guess)) / len(rows))
elif kind == "labels":
    names = found["class_names"]
    sets = lambda key: [[int(n in r[key].split(";")) for n in names] for r in rows]
    truth, guess = sets("truth"), sets("labels")
    column = lambda table, k: [row[k] for row in table]
    scores = [[float(r[n]) for n in names] for r in rows]
    each = [f1(column(truth, k), column(guess, k)) for k in range(len(names))]
    precision = [average_precision(column(scores, k), column(truth, k)) for k in range(len(names))]
    check("micro_f1", f1(sum(truth, []), sum(guess, [])))
    check("macro_f1", sum(each) / len(each))
    check("mean_average_precision", sum(precision) / len(precision))
    for k in range(len(names)):
        check("label_f1", each[k], found["label_f1"][k])
        check("label_average_precision", precision[k], found["label_average_precision"][k])
        check("label_auc", auc(column(scores, k), column(truth, k)), found["label_auc"][k])
        check("label_accuracy", sum(t == g for t, g in zip(column(truth, k), column(guess, k))) / len(rows),
              found["label_accuracy"][k])
    check("accuracy", sum(t == g for t, g in zip(truth, guess)) / len(rows))
elif kind == "numbers":
    means = {"r2": 0, "rmse": 0, "mae": 0}
    for target in found["targets"]:
        name = target["target"]
        truth, guess = [float(r["truth of " + name]) for r in rows], [float(r[name]) for r in rows]
        squares = sum((t - g) ** 2 for t, g in zip(truth, guess))
        mean = sum(truth) / len(truth)
        wanted = {"r2": 1 - squares / sum((t - mean) ** 2 for t in truth),
                  "rmse": math.sqrt(squares / len(rows)),
                  "mae": sum(abs(t - g) for t, g in zip(truth, guess)) / len(rows)}
        for key, value in wanted.items():
            check(key, value, target[key])
            means[key] += value / len(found["targets"])
    for key, value in means.items():
        check(key, value)
elif kind == "ordinal":
    truth, guess = [int(r["label"]) for r in rows], [int(r["guess"]) for r in rows]
    n = len(rows)
    check("rank_mae", sum(abs(t - g) for t, g in zip(truth, guess)) / n)
    expected = sum((t - g) ** 2 for t in truth for g in guess) / n
    check("quadratic_kappa", 1 - sum((t - g) ** 2 for t, g in zip(truth, guess)) / expected)
    for r in rows:
        assert abs(sum(float(r[c]) for c in found["class_names"]) - 1) < 1e-6
PYTHON
}

# task KIND NAME EXAMPLES SETTING...: trains, and compares the scores.
task() {
  local kind=$1 run=$folder/$2 last=$(($3 - 1))
  accepts "$2: train" "test|R2" train --model mlp --hidden 32 --batch-size 32 --epochs 20 --quiet \
    --out "$run" "${@:4}"
  run predict --checkpoint "$run" --index "0-$last" --csv "$run-guesses.csv"
  holds "$2: scores are those of their definitions" scores_are_those_of "$kind" "$run" "$run-guesses.csv"
  holds "$2: it resumes" go_on_from_the_checkpoint_before "$run"
  run eval --checkpoint "$run" --out "$run-eval.json"
  holds "$2: eval has the same" same_results "$run"
}
same_results() {
  python3 - "$1/evaluation.json" "$1-eval.json" <<'PYTHON'
import json, sys
a, b = (json.load(open(path)) for path in sys.argv[1:])
sys.exit(any(a[key] != b[key] for key in a if key not in ("data", "seconds")))
PYTHON
}

check_binary() {
  local settings=(--data "$folder/binary.csv" --validation 0.2)
  task binary softmax 120 "${settings[@]}"
  task binary sigmoid 120 "${settings[@]}" --loss sigmoid
  task binary chosen 120 "${settings[@]}" --loss sigmoid --threshold f1
  holds "the threshold is in the results" python3 -c '
import json, sys
sys.exit(len(json.load(open(sys.argv[1]))["thresholds"]) != 1)' "$folder/chosen/evaluation.json"
  task binary low 120 --data "$folder/binary.csv" --threshold 0.1
  holds "a low threshold finds more" python3 -c '
import json, sys
low, usual = (json.load(open(path)) for path in sys.argv[1:])
sys.exit(low["recall"] < usual["recall"] or low["auc"] < 0.8)' \
    "$folder/low/evaluation.json" "$folder/softmax/evaluation.json"
  accepts "eval names the scores" "AUC 0\.9.*precision.*recall.*F1" eval \
    --checkpoint "$folder/sigmoid"
  refuses "no validation examples" 2 "threshold f1: is chosen on validation" train --model mlp \
    --data "$folder/binary.csv" --threshold f1 --out "$folder/none"
  refuses "a threshold of numbers" 2 "threshold: is for two classes" train --model mlp \
    --data "$folder/numbers.csv" --threshold 0.2 --out "$folder/none"
  refuses "no threshold" 2 "'1' is neither f1 nor" train --model mlp --threshold 1 \
    --data "$folder/binary.csv" --out "$folder/none"
}

check_labels() {
  local settings=(--data "$folder/labels.csv" --target sport,news,film)
  accepts "data: labels" "labels 'sport, news, film'" data "${settings[@]}"
  prints_json "data --json: labels" data "${settings[@]}" --json
  task labels labels 120 "${settings[@]}"
  task labels thresholds 120 "${settings[@]}" --validation 0.2 --threshold f1
  task labels focal 120 "${settings[@]}" --loss sigmoid --focal 2 --positive-weights 1,2,2
  accepts "eval has a line for each label" "^film +0\." eval --checkpoint "$folder/labels"
  accepts "predict names the labels" "test 0" predict --checkpoint "$folder/labels" --index 0-3
  prints_json "predict --json: labels" predict --checkpoint "$folder/labels" --index 0 --json
  accepts "predict: rows without labels" "sport|news|film|-" predict \
    --checkpoint "$folder/labels" --input "$folder/numbers.csv"
  task labels arrays 120 --data "$folder/labels.npz"
  refuses "other losses" 2 "labels that do not exclude one another have --loss sigmoid" train \
    --model mlp "${settings[@]}" --loss mse --out "$folder/none"
  refuses "labels and numbers" 2 "several columns are labels, of two values each, or numbers" data \
    --data "$folder/labels.csv" --target sport,a --task classification
  refuses "the same column twice" 2 "'sport' is named twice" data --data "$folder/labels.csv" \
    --target sport,sport
  refuses "weights of classes" 2 "class-weights: are for data with classes" train --model mlp \
    "${settings[@]}" --class-weights balanced --batch-size 32 --out "$folder/none"
}

check_pictures() {
  local run=$folder/pictures
  accepts "pictures with labels" "micro F1 0\.[89]|micro F1 1" train --model lenet5 --epochs 25 \
    --data "$folder/pictures.npz" --input-size 28 --batch-size 16 --out "$run" --quiet
  run predict --checkpoint "$run" --index 0-59 --csv "$run-guesses.csv"
  holds "their scores are those of their definitions" scores_are_those_of labels "$run" "$run-guesses.csv"
  accepts "they are exported" "" export --checkpoint "$run" --out "$run.onnx"
  run eval --checkpoint "$run.onnx" --data "$folder/pictures.npz" --out "$run-eval.json"
  holds "with the same results" same_results "$run"
  refuses "a label of 2" 2 "'y' \[300, 4\] of pictures has a label that is neither 0 nor 1" data \
    --data "$folder/bad.npz"
}

check_numbers() {
  local settings=(--data "$folder/numbers.csv" --target price,size)
  accepts "data: numbers" "numbers 'price, size'" data "${settings[@]}"
  task numbers numbers 120 "${settings[@]}"
  task numbers huber 120 "${settings[@]}" --loss huber
  accepts "eval has a line for each number" "^size +0\.[5-9]" eval --checkpoint "$folder/numbers"
  accepts "predict: numbers" "price +truth +size +truth" predict --checkpoint "$folder/numbers" \
    --index 0-3
  prints_json "predict --json: numbers" predict --checkpoint "$folder/numbers" --index 0 --json
  task numbers number-arrays 120 --data "$folder/numbers.npz"
}

check_ordinal() {
  local settings=(--data "$folder/grades.csv" --task classification --loss ordinal)
  task ordinal grades 120 "${settings[@]}"
  accepts "eval: ranks" "rank error 0\.[0-5].*quadratic kappa 0\.[5-9]" eval \
    --checkpoint "$folder/grades"
  refuses "C has no ranks" 2 "results of ranks" export --checkpoint "$folder/grades" --target c \
    --out "$folder/c"
  accepts "in fp32" "test accuracy" train --model mlp "${settings[@]}" --format fp32 --epochs 1 \
    --batch-size 32 --out "$folder/grades-fp32" --quiet
}

check_binary
check_labels
check_pictures
check_numbers
check_ordinal
finish
