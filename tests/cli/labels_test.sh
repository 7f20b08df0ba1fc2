#!/usr/bin/env bash
# Networks that end with a Sigmoid: of one logit a binary task, of several a multi-label task.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

fixtures=$(dirname "${BASH_SOURCE[0]}")/../fixtures
short=(--data "$data" --steps 12 --batch-size 16 --checkpoint-every 6)

# scores_are_those_of RUN CSV: AUC, average precision, F1 and accuracies of evaluation.json from
# their definitions, on the probabilities that `predict` wrote.
scores_are_those_of() {
  python3 - "$1/evaluation.json" "$2" <<'PYTHON'
import csv, json, sys
found = json.load(open(sys.argv[1]))
rows = list(csv.DictReader(open(sys.argv[2])))
names = found["class_names"]
labels = [int(row["label"]) for row in rows]
close = lambda a, b: abs(a - b) < 1e-9
if "auc" in found:
    p = [float(row[names[1]]) for row in rows]
    ones, zeros = ([q for q, y in zip(p, labels) if y == k] for k in (1, 0))
    assert ones and zeros
    pairs = sum((a > b) + 0.5 * (a == b) for a in ones for b in zeros)
    precision = sum(sum(a >= b for a in ones) / sum(a >= b for a in p) for b in ones)
    assert close(found["auc"], pairs / len(ones) / len(zeros))
    assert close(found["average_precision"], precision / len(ones))
    right = sum((q > 0.5) == (y == 1) for q, y in zip(p, labels))
else:
    guess = [[float(row[name]) > 0.5 for name in names] for row in rows]
    truth = [[y == k for k in range(len(names))] for y in labels]
    count = lambda k, test: sum(test(t[k], g[k]) for t, g in zip(truth, guess))
    hits = [count(k, lambda t, g: t and g) for k in range(len(names))]
    all_ = [count(k, lambda t, g: t + g) for k in range(len(names))]
    f1 = [2 * h / n if n else 0 for h, n in zip(hits, all_)]
    assert close(found["micro_f1"], 2 * sum(hits) / max(1, sum(all_)))
    assert close(found["macro_f1"], sum(f1) / len(f1))
    for k, accuracy in enumerate(found["label_accuracy"]):
        assert close(accuracy, count(k, lambda t, g: t == g) / len(rows))
    right = sum(t == g for t, g in zip(truth, guess))
assert close(found["accuracy"], right / len(rows)), (found["accuracy"], right, len(rows))
PYTHON
}

# exported NAME RUN: its ONNX file has the results of the run.
exported() {
  accepts "$1 is exported" "" export --checkpoint "$2" --out "$2.onnx"
  run eval --checkpoint "$2.onnx" --data "$data" --out "$2.json"
  python3 - "$2/evaluation.json" "$2.json" <<'PYTHON'
import json, sys
a, b = (json.load(open(path)) for path in sys.argv[1:])
sys.exit(any(a[key] != b[key] for key in a if key not in ("data", "seconds")))
PYTHON
}

check_one_logit() {
  refuses "ten classes for one logit" 2 "one logit.* has 10; --positive CLASS" \
    train --from "$fixtures/binary_sigmoid.onnx" "${short[@]}" --out "$folder/none"
  refuses "a class that is not there" 2 "positive: 'x' is no class of .*; it has 0, 1, 2" \
    train --from "$fixtures/binary_sigmoid.onnx" --positive x "${short[@]}" --out "$folder/none"
  for format in bfp8 dfp8 fp32; do
    accepts "one class against the others, $format" "test AUC" \
      train --from "$fixtures/binary_sigmoid.onnx" --positive 3 --format "$format" "${short[@]}" \
      --out "$folder/one-$format"
    holds "says which, $format" grep -q "class 3 is taken against the other 9" "$folder/stderr"
  done
  local one=$folder/one-bfp8
  holds "its classes" test "$(class_names "$one")" = "['not 3', '3']"
  accepts "predictions" "" predict --checkpoint "$one" --data "$data" --index 0-63 \
    --csv "$folder/one.csv"
  holds "scores of one logit" scores_are_those_of "$one" "$folder/one.csv"
  holds "goes on from a checkpoint" go_on_from_the_checkpoint_before "$one" \
    --from "$fixtures/binary_sigmoid.onnx" --positive 3 "${short[@]}"
  holds "the exported file" exported "one logit" "$one"
}

check_labels() {
  accepts "ten labels" "test micro F1" \
    train --from "$fixtures/multilabel_sigmoid.onnx" "${short[@]}" --out "$folder/ten"
  accepts "their predictions" "" predict --checkpoint "$folder/ten" --data "$data" --index 0-63 \
    --csv "$folder/ten.csv"
  holds "scores of labels" scores_are_those_of "$folder/ten" "$folder/ten.csv"
  holds "no linear layer is put behind" \
    test "$(grep -o '"op": "linear"' "$folder/ten/network.json" | wc -l)" = 1
  holds "the exported labels" exported "ten labels" "$folder/ten"
}

# Models that end with their logits.
check_logits() {
  refuses "one logit without its loss" 2 "has one output.*--loss sigmoid" \
    train --from "$fixtures/binary_logit.onnx" --positive 3 "${short[@]}" --out "$folder/none"
  accepts "--loss sigmoid, one logit" "test AUC" train --from "$fixtures/binary_logit.onnx" \
    --loss sigmoid --positive 3 "${short[@]}" --out "$folder/logit"
  holds "as with a Sigmoid" same_entry weights_sha256 "$folder/logit" "$folder/one-bfp8"
  holds "goes on from a checkpoint" go_on_from_the_checkpoint_before "$folder/logit"
  holds "the exported file" exported "one logit" "$folder/logit"
  accepts "--loss sigmoid, ten logits" "test micro F1" train \
    --model "$fixtures/multilabel_logits.onnx" --loss sigmoid --label-smoothing 0.1 "${short[@]}" \
    --out "$folder/smooth"
  accepts "imported with the loss" "" import "$fixtures/multilabel_logits.onnx" --loss sigmoid \
    --out "$folder/ten.safetensors"
  accepts "and trained" "test micro F1" train --from "$folder/ten.safetensors" "${short[@]}" \
    --out "$folder/imported"
  holds "as with Sigmoids" same_entry weights_sha256 "$folder/imported" "$folder/ten"
  refuses "another loss than the end's" 2 "ends with the probabilities of --loss sigmoid" \
    train --from "$fixtures/multilabel_sigmoid.onnx" --loss mse "${short[@]}" --out "$folder/none"
  refuses "a loss for a file that says its own" 2 "loss: is for built-in networks" train \
    --from "$folder/ten.safetensors" --loss sigmoid "${short[@]}" --out "$folder/none"
}

check_built_in_networks() {
  accepts "--loss sigmoid, ten classes" "test micro F1" \
    train --model lenet5 --loss sigmoid "${short[@]}" --out "$folder/lenet"
  accepts "--loss sigmoid, two classes" "test AUC" \
    train --model lenet5 --loss sigmoid --positive 3 "${short[@]}" --out "$folder/lenet-two"
  accepts "a run as a start" "test AUC" train --from "$folder/lenet-two" --positive 5 "${short[@]}" \
    --out "$folder/again"
}

check_tables() {
  python3 - "$folder/two.csv" <<'PYTHON'
import random, sys
random.seed(3)
with open(sys.argv[1], "w") as file:
    print("a,b,ill", file=file)
    for _ in range(300):
        a, b = random.gauss(0, 1), random.gauss(0, 1)
        print(f"{a:.3f},{b:.3f},{'yes' if a + b + random.gauss(0, 0.5) > 0 else 'no'}", file=file)
PYTHON
  accepts "a table of two classes" "test AUC +0\.9" train --model mlp --hidden 16 --loss sigmoid \
    --data "$folder/two.csv" --epochs 20 --batch-size 16 --out "$folder/table"
}

check_one_logit
check_labels
check_logits
check_built_in_networks
check_tables
finish
