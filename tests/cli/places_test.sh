#!/usr/bin/env bash
# A class for each pixel or position of an example: teachers, augmentation, sigmoids, classes in an
# order, predictions; and settings that arrays do not have.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python3 - "$folder" <<'PYTHON'
import random
from small_data import conv, network, npz, relu

# Pictures of noise whose bright pixels have the class 1: nothing but the pixel itself tells it.
pixels = [random.randrange(140) for _ in range(300 * 144)]
npz("bright", x=([300, 12, 12], "|u1", pixels),
    y=([300, 12, 12], "|u1", [int(p > 90) for p in pixels]))

# The same where the labels of a border are not known.
border = [i % 12 in (0, 11) or i // 12 % 12 in (0, 11) for i in range(300 * 144)]
npz("unknown", x=([300, 12, 12], "|u1", pixels),
    y=([300, 12, 12], "<i4", [-1 if out else int(p > 90) for p, out in zip(pixels, border)]))
npz("below", x=([300, 12, 12], "|u1", pixels), y=([300, 12, 12], "<i4", [-2] * len(pixels)))
# Labels of the border that are wrong.
npz("wrong", x=([300, 12, 12], "|u1", pixels),
    y=([300, 12, 12], "|u1", [int((p > 90) != out) for p, out in zip(pixels, border)]))

# Positions with three channels: the class grows with their sum.
x = [random.gauss(0, 1) for _ in range(400 * 24 * 3)]
sums = [sum(x[i:i + 3]) for i in range(0, len(x), 3)]
y = [int(s > -1) + int(s > 1) for s in sums]
cut = lambda many, size: (many[:300 * size], many[300 * size:])
x_train, x_test = cut(x, 72)
y_train, y_test = cut(y, 24)
def places(name, train=x_train, test=x_test):
    npz(name, x_train=([300, 24, 3], "<f4", train), y_train=([300, 24], "|u1", y_train),
        x_test=([100, 24, 3], "<f4", test), y_test=([100, 24], "|u1", y_test))
places("places")
places("missing", [float("nan") if random.random() < 0.05 else v for v in x_train])
places("infinite", x_train, [float("inf")] + x_test[1:])
known = lambda labels: [-1 if i % 5 == 0 else label for i, label in enumerate(labels)]
npz("some", x_train=([300, 24, 3], "<f4", x_train), x_test=([100, 24, 3], "<f4", x_test),
    y_train=([300, 24], "<i4", known(y_train)), y_test=([100, 24], "<i4", known(y_test)))
npz("numbers", x=([400, 24, 3], "<f4", x), y=([400], "<f4", [sum(sums[24 * i:24 * i + 24])
                                                           for i in range(400)]))
npz("new", x=([100, 24, 3], "<f4", x_test))
npz("exchanged", x_train=([300, 3, 24], "<f4", x_train), y_train=([300, 24], "|u1", y_train),
    x_test=([100, 3, 24], "<f4", x_test), y_test=([100, 24], "|u1", y_test))
npz("new_bright", images=([4, 12, 12], "|u1", pixels[:576]))
npz("new_table", x=([5, 72], "<f4", x[:360]))
npz("table_test", x_train=([300, 72], "<f4", x_train),
    y_train=([300], "|u1", [i % 2 for i in range(300)]), x_test=([100, 72], "<f4", x_test),
    y_test=([100, 2], "|u1", [i % 2 for i in range(200)]))
npz("two_targets", x=([400, 72], "<f4", x), y=([400, 2], "|u1", [i % 2 for i in range(800)]))
npz("none", x=([0, 24, 3], "<f4", []), y=([0, 24], "|u1", []))
npz("no_rows", x=([0, 72], "<f4", []), y=([0], "|u1", []))
npz("table", x=([400, 72], "<f4", x), y=([400], "|u1", [i % 2 for i in range(400)]))

seg = [conv, relu, ("out", "convolution", ["r"], {"channels": 2, "kernel": 1})]
network("seg", [12, 12, 1], seg, [12, 12])
last = lambda channels: [conv, relu, ("out", "linear", ["r"], {"channels": channels})]
network("softmax", [24, 3], last(3), [24])
network("sigmoids", [24, 3], last(3), [24], loss="sigmoid_cross_entropy")
network("ranks", [24, 3], last(2), [24], loss="sigmoid_cross_entropy", ordinal=True)
PYTHON

settings=(--batch-size 20 --threads 2 --seed 1 --quiet --overwrite)

# Labels of -1 count neither in training nor in the scores.
check_unknown() {
  local seg=(train --model "$folder/seg.json" "${settings[@]}" --epochs 4)
  run "${seg[@]}" --data "$folder/unknown.npz" --validation 0.1 --out "$folder/unknown"
  holds "labels of -1 are counted" grep -q "13200 labels are -1 and count nothing" "$folder/stderr"
  holds "100 of 144 pixels of 60 pictures are scored" test 6000 = \
    "$(json "$folder/unknown/evaluation.json" examples)"
  accepts "labels that are wrong there" "test accuracy" "${seg[@]}" --data "$folder/wrong.npz" \
    --out "$folder/wrong"
  holds "which scores show" above "$(json "$folder/unknown/evaluation.json" accuracy)" \
    "$(json "$folder/wrong/evaluation.json" accuracy)"
  accepts "eval leaves them out" "6000" eval --checkpoint "$folder/unknown" --json
  accepts "with moved pictures" "test accuracy" "${seg[@]}" --data "$folder/unknown.npz" \
    --augment shift --epochs 1 --out "$folder/unknown"
  refuses "labels below -1" 2 "has a label that is no whole number from -1" "${seg[@]}" \
    --data "$folder/below.npz" --out "$folder/no"
  for model in softmax sigmoids ranks; do
    accepts "positions, $model" "test accuracy" train --model "$folder/$model.json" --epochs 2 \
      --data "$folder/some.npz" "${settings[@]}" --out "$folder/some"
    holds "4 of 5 are scored" test 1920 = "$(json "$folder/some/evaluation.json" examples)"
  done
  run data "$folder/unknown.npz"
  holds "data counts pixels of each class" grep -q "labels are -1" "$folder/stdout" "$folder/stderr"
}

check_teacher() {
  local seg=(train --model "$folder/seg.json" --data "$folder/bright.npz" "${settings[@]}")
  accepts "a teacher of pixels" "test accuracy" "${seg[@]}" --epochs 6 --out "$folder/seg"
  accepts "is learned from" "test accuracy" "${seg[@]}" --epochs 2 --teacher "$folder/seg" \
    --teacher-weight 1 --temperature 2 --out "$folder/taught"
  accepts "on one thread" "test accuracy" "${seg[@]}" --epochs 2 --teacher "$folder/seg" \
    --teacher-weight 1 --temperature 2 --threads 1 --out "$folder/taught-again"
  holds "gives the same bits" same_entry state_sha256 "$folder/taught" "$folder/taught-again"
  accepts "in fp32" "test accuracy" "${seg[@]}" --epochs 2 --teacher "$folder/seg" --format fp32 \
    --out "$folder/taught-float"
  local places=(train --model "$folder/softmax.json" --data "$folder/places.npz" "${settings[@]}")
  accepts "a teacher of positions" "test accuracy" "${places[@]}" --epochs 8 --out "$folder/soft"
  # The labels count nothing: only the teacher can teach.
  accepts "is learned from" "test accuracy" "${places[@]}" --epochs 8 --teacher "$folder/soft" \
    --teacher-weight 1 --out "$folder/soft-taught"
  holds "as well as labels" above \
    "$(json "$folder/soft-taught/summary.json" test_accuracy)" 0.9
}

# With pictures alone moved, nothing could be learned: the class of a pixel is its own brightness.
check_augmentation() {
  local augmentation
  for augmentation in flip shift crop=3 flip,shift,jitter=5; do
    run train --model "$folder/seg.json" --data "$folder/bright.npz" "${settings[@]}" --epochs 6 \
      --augment "$augmentation" --out "$folder/moved"
    holds "labels move with $augmentation" above \
      "$(json "$folder/moved/summary.json" test_accuracy)" 0.9
  done
  run train --model "$folder/seg.json" --data "$folder/bright.npz" "${settings[@]}" --epochs 6 \
    --augment shift --format fp32 --out "$folder/moved"
  holds "in fp32, too" above "$(json "$folder/moved/summary.json" test_accuracy)" 0.9
}

# agree RUN: train and eval count the same examples, all places.
agree() {
  python3 - "$1/summary.json" "$1/evaluation.json" "$folder/eval.json" <<'PYTHON'
import json, sys
summary, own, again = (json.load(open(path)) for path in sys.argv[1:])
assert own["examples"] == again["examples"] == 2400, own["examples"]
assert abs(summary["test_loss"] - again["loss"]) < 1e-9, (summary["test_loss"], again["loss"])
assert sum(again["class_examples"]) == 2400
assert 0 < again["mean_iou"] <= 1
if "label_accuracy" in again:
    assert all(0.5 < a <= 1 for a in again["label_accuracy"]), again["label_accuracy"]
    assert again["label_auc"] == [None] * 3
PYTHON
}

check_losses() {
  local form
  for form in sigmoids ranks softmax; do
    run train --model "$folder/$form.json" --data "$folder/places.npz" "${settings[@]}" \
      --epochs 10 --out "$folder/$form"
    holds "$form learn positions" above \
      "$(json "$folder/$form/summary.json" test_accuracy)" 0.85
    run eval --checkpoint "$folder/$form" --out "$folder/eval.json"
    holds "$form: all places count, and eval agrees" agree "$folder/$form"
    accepts "$form: predict shows parts of places" "^test 0 .*%|^test 0 .*[012]" predict \
      --checkpoint "$folder/$form" --index 0-9
    run predict --checkpoint "$folder/$form" --index 0-9 --csv "$folder/$form.csv"
    holds "$form: they add up to one" adds_up "$folder/$form.csv"
  done
  accepts "ranks say both errors and the mean IoU" "rank error .*kappa .*mean IoU" eval \
    --checkpoint "$folder/ranks" --quiet
}
# Of labels that exclude no other, about.
adds_up() {
  python3 - "$1" <<'PYTHON'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert len(rows) == 10
for row in rows:
    parts = [float(row[k]) for k in "012"]
    assert abs(sum(parts) - 1) < (0.3 if "labels" in row else 1e-9), parts
    assert int(row["guess"]) == parts.index(max(parts))
PYTHON
}

check_settings() {
  local places=(train --model "$folder/softmax.json" --data "$folder/places.npz" --steps 2
    "${settings[@]}" --out "$folder/none")
  refuses "markers of missing values" 2 "missing: is for tables, .*NaN stands for a missing" \
    "${places[@]}" --missing -999
  refuses "a column to ignore" 2 "ignore: is for tables, and .* has arrays" \
    "${places[@]}" --ignore a
  refuses "a column as target" 2 "target: is for tables, and .* has arrays" \
    "${places[@]}" --target y
  refuses "regression of labels of places" 2 "task: regression is for numbers of examples" \
    "${places[@]}" --task regression
  refuses "a threshold of places" 2 "threshold: is not for networks that give each place a class" \
    "${places[@]}" --threshold 0.3
  refuses "channels of a table" 2 "channels: is for arrays of positions" train --model mlp \
    --data "$folder/table.npz" --channels last --steps 2 "${settings[@]}" --out "$folder/none"
  refuses "smoothing of a table's numbers" 2 "label-smoothing: is for classes" train \
    --model mlp --data "$folder/table.npz" --task regression --label-smoothing 0.1 --steps 2 \
    "${settings[@]}" --out "$folder/none"
  refuses "infinite test numbers" 2 "'x_test' .*has infinite numbers" train \
    --model "$folder/softmax.json" --data "$folder/infinite.npz" --steps 2 "${settings[@]}" \
    --out "$folder/none"
  run train --model "$folder/softmax.json" --data "$folder/missing.npz" --steps 2 \
    "${settings[@]}" --out "$folder/none"
  holds "NaN is told" grep -qE "[0-9]+ numbers of 'x_train' are NaN" "$folder/stderr"
}

# rows CSV NUMBER: it has as many predictions, each with a guess.
rows() {
  python3 -c 'import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert len(rows) == int(sys.argv[2]) and all(row["guess"] for row in rows), rows' "$@"
}

# Arrays without targets, and arrays that do not go together.
check_arrays() {
  local seg=(train --model "$folder/seg.json" --data "$folder/bright.npz" --steps 2
    "${settings[@]}")
  run predict --checkpoint "$folder/softmax" --input "$folder/new.npz" --csv "$folder/new.csv"
  holds "positions without targets are predicted" rows "$folder/new.csv" 100
  run predict --checkpoint "$folder/softmax" --data "$folder/places.npz" --index 0-99 \
    --csv "$folder/known.csv"
  holds "as those with targets" python3 -c 'import csv, sys
new, known = ([row["guess"] + row["0"] for row in csv.DictReader(open(p))] for p in sys.argv[1:])
assert new == known' "$folder/new.csv" "$folder/known.csv"
  run predict --checkpoint "$folder/seg" --input "$folder/new_bright.npz" --csv "$folder/new.csv"
  holds "pictures, too" rows "$folder/new.csv" 4
  accepts "a network of a table" "test accuracy" train --model mlp --hidden 8 \
    --data "$folder/table.npz" --steps 20 "${settings[@]}" --out "$folder/table"
  run predict --checkpoint "$folder/table" --input "$folder/new_table.npz" --csv "$folder/new.csv"
  holds "and rows" rows "$folder/new.csv" 5
  refuses "an array of another shape" 2 "'x' \[5, 72\] has not the examples that the network" \
    predict --checkpoint "$folder/softmax" --input "$folder/new_table.npz"
  refuses "numbers for a network of pictures" 2 "'x' \[5, 72\] is no array of pictures" \
    predict --checkpoint "$folder/seg" --input "$folder/new_table.npz"
  refuses "two arrays of inputs" 2 "'x_train' and 'x_test' are both inputs" predict \
    --checkpoint "$folder/table" --input "$folder/table_test.npz"
  refuses "test targets of another shape" 2 "'y_test' \[100, 2\] has 2 targets for each row" \
    train --model mlp --hidden 8 --data "$folder/table_test.npz" --steps 2 "${settings[@]}" \
    --out "$folder/none"
  refuses "targets that the network does not know" 2 "'y' \[400, 2\] has 2 targets .* had 1" \
    eval --checkpoint "$folder/table" --data "$folder/two_targets.npz"
  refuses "channels in another order" 2 "'x_train' .* has its channels first, and the network was" \
    eval --checkpoint "$folder/softmax" --data "$folder/exchanged.npz"
  refuses "no examples" 2 "'x' \[0, 24, 3\] has no examples" train \
    --model "$folder/softmax.json" --data "$folder/none.npz" "${settings[@]}" --out "$folder/none"
  refuses "no rows" 2 "no_rows.npz': there are no rows" train --model mlp \
    --data "$folder/no_rows.npz" "${settings[@]}" --out "$folder/none"
  refuses "weights of classes" 2 "class-weights: is for one class of each example" "${seg[@]}" \
    --class-weights balanced --out "$folder/none"
  refuses "a built-in network" 2 "model lenet5: gives a class to an example" train --model lenet5 \
    --data "$folder/bright.npz" --steps 2 "${settings[@]}" --out "$folder/none"
  run data "$folder/numbers.npz"
  holds "data says how numbers with channels are read" \
    grep -q "taken for rows of 72 columns; a network whose input 'numbers' is \[24, 3\]" \
    "$folder/stdout" "$folder/stderr"
}

check_teacher
check_augmentation
check_losses
check_unknown
check_settings
check_arrays
finish
