#!/usr/bin/env bash
# Networks with several outputs: training on arrays and on a table, resuming, starting from them,
# measuring, predicting, thresholds, quantising, reports, from and to ONNX, refusals.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/several_outputs.sh
source "$(dirname "${BASH_SOURCE[0]}")/several_outputs.sh"

# outputs_of FILE: the names of its outputs, and whether their losses add up to its loss.
outputs_of() {
  python3 - "$@" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
prefix = "test_" if "test_loss" in report else ""
total = sum(one[prefix + "loss"] for one in report["outputs"].values())
print(*report["outputs"], abs(total - report[prefix + "loss"]) < 1e-6)
PYTHON
}

# line_adds_up FILE: every line of metrics.jsonl has the losses of all outputs, and their sum.
lines_add_up() {
  python3 - "$1" <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
names = "kind", "age", "tags"
assert len(lines) >= 6
for line in lines:
    assert abs(sum(line["loss." + name] for name in names) - line["loss"]) < 1e-5, line
    assert "accuracy.kind" in line and "accuracy.age" not in line
validated = [line for line in lines if "validation_loss" in line]
assert len(validated) == 6, len(validated)
for line in validated:
    assert abs(sum(line["validation_loss." + name] for name in names) -
               line["validation_loss"]) < 1e-5, line
assert lines[-1]["loss"] < lines[0]["loss"] / 3
PYTHON
}

arrays() {
  accepts "three outputs learn" "kind test accuracy (9|100).*tags test accuracy.*age|age test R2 0.9" \
    train "${three[@]}" --epochs 6 --out "$folder/three"
  holds "validation says the loss of each" grep -qE \
    "validation loss [0-9.]+; kind: loss .*accuracy.*; age: loss .* R2 .*; tags: .*micro F1" \
    "$folder/stderr"
  holds "metrics have the loss of each, and the sum" lines_add_up "$folder/three/metrics.jsonl"
  holds "so has the evaluation" test "$(outputs_of "$folder/three/evaluation.json")" = \
    "kind age tags True"
  holds "and the summary" test "$(outputs_of "$folder/three/summary.json")" = "kind age tags True"
  accepts "eval prints each" "^kind: test accuracy (9|100)" eval --checkpoint "$folder/three"
  holds "the number, too" grep -qE "^age: R2 0.9" "$folder/stdout"
  holds "and the labels" grep -qE "^tags: test accuracy .*micro F1 0.[89]" "$folder/stdout"
  run eval --checkpoint "$folder/three" --quiet --out "$folder/again.json"
  holds "eval measures the same" cmp -s "$folder/again.json" "$folder/three/evaluation.json"
  run eval --checkpoint "$folder/three" --batch-size 7 --threads 1 --out "$folder/small.json"
  holds "in batches of any size" cmp -s "$folder/small.json" "$folder/again.json"
  accepts "one file of all examples" "test R2|kind" train --model "$folder/three.json" \
    --data "$folder/all.npz" "${fast[@]}" --epochs 1 --out "$folder/all"
  holds "an array that nothing reads is named" grep -q \
    "the array 'extra' is not read: no input or output of the network is called so" \
    "$folder/stderr"
}

predictions() {
  run predict --checkpoint "$folder/three" --index 0-159 --csv "$folder/index.csv"
  run predict --checkpoint "$folder/three" --input "$folder/inputs.npz" --csv "$folder/input.csv" \
    --raw "$folder/raw.npz"
  holds "columns for each output" grep -qxF \
    "source,truth of kind,kind,probability of kind,kind=0,kind=1,kind=2,kind=3,truth of age,age,truth of tags,tags,tags=tags1,tags=tags2,tags=tags3" \
    "$folder/input.csv"
  holds "the predictions are the truth, mostly" python3 - "$folder/index.csv" <<'PYTHON'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert len(rows) == 160
assert sum(row["kind"] == row["truth of kind"] for row in rows) >= 144
assert sum(abs(float(row["age"]) - float(row["truth of age"])) < 5 for row in rows) >= 144
assert sum(row["tags"] == row["truth of tags"] for row in rows) >= 120
assert {row["kind"] for row in rows} == set("0123")
PYTHON
  holds "arrays without targets have the same" python3 - "$folder/index.csv" "$folder/input.csv" \
    <<'PYTHON'
import csv, sys
a, b = (list(csv.DictReader(open(path))) for path in sys.argv[1:])
assert len(a) == len(b) == 160
for one, other in zip(a, b):
    for key in one:
        if key != "source" and not key.startswith("truth"):
            assert one[key] == other[key], key
PYTHON
  holds "raw results by name" python3 -c '
import sys, zipfile
names = set(zipfile.ZipFile(sys.argv[1]).namelist())
wanted = {f"{a}.{b}.npy" for a in ("kind", "age", "tags") for b in ("mantissas", "exponent")}
sys.exit(names != wanted)' "$folder/raw.npz"
  prints_json "predictions as JSON" predict --checkpoint "$folder/three" --index 3 --json
  holds "each by its name" grep -qE '"age": \{' "$folder/stdout"
  accepts "and as a table" "example +truth +kind +truth +age +truth +tags" predict \
    --checkpoint "$folder/three" --index 0-3
}

tables() {
  accepts "a table" "age test R2 0.9.*kind test accuracy (9|100)|kind test accuracy (9|100).*age test R2 0.9" \
    train --model "$folder/rows.json" --data "$folder/table.csv" "${fast[@]}" --epochs 20 \
    --out "$folder/rows"
  accepts "eval reads columns by name" "^kind: test accuracy (9|100)" eval \
    --checkpoint "$folder/rows"
  run predict --checkpoint "$folder/rows" --input "$folder/new.csv" --csv "$folder/new-out.csv"
  holds "rows without targets are predicted" python3 - "$folder/new-out.csv" <<'PYTHON'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
names = ["ash", "birch", "cedar", "fir"]
assert sum(row["kind"] == names[i % 4] for i, row in enumerate(rows)) >= 36, rows
assert all(row["truth of kind"] == row["truth of age"] == "" for row in rows)
PYTHON
  run predict --checkpoint "$folder/rows" --input "$folder/table.csv" --csv "$folder/known.csv"
  holds "known targets stand beside" grep -qE "^line 2,45.99,[0-9.]+,ash,(ash|birch|cedar|fir),0" \
    "$folder/known.csv"
  accepts "columns of other names" "kind test accuracy (9|100)" train --model "$folder/rows.json" \
    --data "$folder/other.csv" --target years,tree "${fast[@]}" --epochs 20 --out "$folder/other"
  refuses "a column is missing" 2 "target: there is no column 'age'" train \
    --model "$folder/rows.json" --data "$folder/other.csv" "${fast[@]}" --out "$folder/x"
  refuses "too few columns" 2 "names 1 columns, and the network has the outputs age,kind" train \
    --model "$folder/rows.json" --data "$folder/table.csv" --target age "${fast[@]}" \
    --out "$folder/x"
  refuses "texts for a number" 2 "the target 'age' is not of numbers" train \
    --model "$folder/rows.json" --data "$folder/odd.csv" "${fast[@]}" --out "$folder/x"
}

same() {
  run train "${three[@]}" --epochs 3 --checkpoint-every 8 --threads 1 --out "$folder/one"
  run train "${three[@]}" --epochs 3 --checkpoint-every 8 --threads 2 --out "$folder/two"
  holds "the same weights with other threads" same_entry state_sha256 "$folder/one" "$folder/two"
  holds "and when it goes on" go_on_from_the_checkpoint_before "$folder/one" --quiet
  holds "with the same metrics" python3 - "$folder/one" "$folder/one-resumed" <<'PYTHON'
import json, sys
def lines(folder):
    all = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
    for line in all:
        del line["examples_per_second"]
    return all
assert lines(sys.argv[1]) == lines(sys.argv[2])
PYTHON
  run train "${three[@]}" --epochs 3 --micro-batch-size 8 --stages 2 --partition operations \
    --out "$folder/staged"
  run train "${three[@]}" --epochs 3 --micro-batch-size 8 --out "$folder/whole"
  holds "two stages have the same bits" same_entry state_sha256 "$folder/staged" "$folder/whole"
}

starts() {
  accepts "early stopping goes by the sum" "kind" train "${three[@]}" --epochs 6 --early-stop 2 \
    --out "$folder/early"
  holds "whose best is the least" python3 - "$folder/early" <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
summary = json.load(open(sys.argv[1] + "/summary.json"))
best = min((line["validation_loss"], line["step"]) for line in lines if "validation_loss" in line)
assert summary["best_step"] == best[1], (summary["best_step"], best)
assert abs(summary["best_validation_loss"] - best[0]) < 1e-5
PYTHON
  accepts "a run starts from it" "kind test accuracy (9|100)" train --from "$folder/three" \
    --data "$folder/splits.npz" "${fast[@]}" --epochs 1 --out "$folder/from"
  accepts "thresholds of each" "kind" train "${three[@]}" --epochs 3 --threshold f1 \
    --out "$folder/f1"
  holds "which the network keeps" python3 - "$folder/f1/model.safetensors" <<'PYTHON'
import json, struct, sys
with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
thresholds = json.loads(header["__metadata__"]["description"])["thresholds"]
assert len(thresholds) == 3, thresholds
PYTHON
  accepts "in few bits" "kind test accuracy (8|9|100)" quantize --from "$folder/three" --weights 4 \
    --activations 4 --data "$folder/splits.npz" --batch-size 32 --epochs 2 --quiet \
    --out "$folder/few"
  accepts "quantised without training" "kind" quantize --from "$folder/three" --weights 8 \
    --activations 8 --data "$folder/splits.npz" --batch-size 32 --epochs 0 --quiet \
    --out "$folder/eight"
  accepts "the cost of few bits by the sum" "loss" quantize --from "$folder/three" --weights 4 \
    --activations 4 --data "$folder/splits.npz" --batch-size 32 --sensitivity
  holds "without an accuracy" eval '! grep -qi accuracy "$folder/stdout"'
  local format
  for format in dfp8 bfp:block=channel fp32; do
    accepts "format $format" "kind test accuracy (8|9|100)" train "${three[@]}" --epochs 6 \
      --format "$format" --out "$folder/$format"
    accepts "and its frozen network" "^kind: test accuracy (8|9|100)" eval \
      --checkpoint "$folder/$format"
  done
  accepts "a plan" "peak" plan "${three[@]:0:4}" --batch-size 32
  accepts "a report" "written to" report "$folder/three" "$folder/rows" --out "$folder/report.html"
  holds "with each output" grep -q "Training loss, tags" "$folder/report.html"
  holds "and its scores" grep -q "<h3>kind</h3>" "$folder/report.html"
}

imports() {
  local heads=("$folder/heads.onnx" --input-mean 0 --input-std 1)
  run import "${heads[@]}" --out "$folder/first.st"
  holds "the first output is taken" \
    grep -q "the network has 'kind'; --output takes several names" "$folder/stderr"
  run import "${heads[@]}" --output all --out "$folder/all.st"
  holds "or all" grep -q \
    "the output 'tags' has the loss sigmoid of 3 logits; the data call its labels 'tags'" \
    "$folder/stderr"
  holds "none is left out" eval '((status == 0)) && ! grep -q "of the outputs" "$folder/stderr"'
  accepts "all of them learn" "kind test accuracy (9|100).*tags test accuracy.*age|age test R2 0.9" \
    train --from "$folder/all.st" --data "$folder/splits.npz" "${fast[@]}" --epochs 6 \
    --out "$folder/heads"
  holds "with the losses of the model's ends" losses_are "$folder/heads" \
    "kind softmax_cross_entropy -,age regression_error -,tags sigmoid_cross_entropy -"
  run train --from "${heads[@]}" --output kind,age,tags --data "$folder/splits.npz" "${fast[@]}" \
    --epochs 6 --out "$folder/named"
  holds "the model itself gives the same weights" same_entry state_sha256 "$folder/heads" \
    "$folder/named"
  accepts "two in another order" "kind test accuracy (9|100).*age test R2 0.9|age test R2 0.9" train \
    --model "${heads[@]}" --output age,kind --loss huber,cross-entropy --huber-delta 0.5 \
    --data "$folder/splits.npz" "${fast[@]}" --epochs 6 --out "$folder/ordered"
  holds "with losses by name" losses_are "$folder/ordered" \
    "age regression_error huber,kind softmax_cross_entropy -"
  accepts "from a table" "kind test accuracy (9|100)" train --from "$folder/rows.onnx" \
    --output age,kind --data "$folder/table.csv" "${fast[@]}" --epochs 20 --out "$folder/onnx-rows"
  accepts "in few bits" "kind" quantize --from "${heads[@]}" --output kind,age --weights 8 \
    --activations 8 --data "$folder/splits.npz" --batch-size 32 --epochs 1 --quiet \
    --out "$folder/onnx-few"
}

import_refusals() {
  local all=(import "$folder/heads.onnx" --output all --out "$folder/x")
  refuses "another output" 2 "no output 'size'; it has kind, age, tags" "${all[@]}" \
    --output kind,size
  refuses "an output twice" 2 "'kind' is named twice" "${all[@]}" --output kind,kind
  refuses "too few losses" 2 "names 2 losses, and the network has the outputs kind, age, tags" \
    "${all[@]}" --loss cross-entropy,l1
  refuses "numbers of probabilities" 2 "the output 'kind' ends with the probabilities of classes" \
    "${all[@]}" --loss l1
  refuses "another loss" 2 "loss sigmoid: the output 'kind' ends with the probabilities" \
    "${all[@]}" --loss sigmoid,l1,sigmoid
  refuses "other classes" 2 "classes: is for networks with one output" "${all[@]}" --classes 7
  refuses "a class for each place" 2 "'place' has a class for each place, and must be the only one" \
    import "$folder/places.onnx" --output all --out "$folder/x"
  refuses "losses of a network with one output" 2 "several are for the outputs of an ONNX model" \
    train --model lenet5 --data "$data" --loss mse,l1 --out "$folder/x"
  holds "nothing was imported" test ! -e "$folder/x"
}

# The files of the runs: all outputs have the bits of predict --raw, and the file is a checkpoint.
exports() {
  local target
  for target in ort portable; do
    accepts "export, $target" "written to" export --checkpoint "$folder/three" --target $target \
      --out "$folder/$target.onnx"
    holds "nothing is near" eval '! grep -q "are near" "$folder/stdout"'
    run run "$folder/$target.onnx" --inputs "$folder/fed.npz" --out "$folder/found.npz"
    holds "the outputs are those of predict --raw" python3 "$here/onnx_outputs.py" same \
      "$folder/found.npz" "$folder/raw.npz" kind age tags
    run predict --checkpoint "$folder/$target.onnx" --input "$folder/inputs.npz" \
      --raw "$folder/back.npz" --csv "$folder/back.csv"
    holds "it loads back" cmp -s "$folder/raw.npz" "$folder/back.npz"
    holds "with classes and units" cmp -s "$folder/input.csv" "$folder/back.csv"
  done
  accepts "its network goes on" "kind test accuracy (9|100)" train --from "$folder/ort.onnx" \
    --data "$folder/splits.npz" "${fast[@]}" --epochs 1 --out "$folder/from-ort"
  accepts "a table's" "written to" export --checkpoint "$folder/rows" --out "$folder/rows-out.onnx"
  run predict --checkpoint "$folder/rows-out.onnx" --input "$folder/new.csv" \
    --csv "$folder/back.csv"
  holds "loads back, too" cmp -s "$folder/new-out.csv" "$folder/back.csv"
  holds "and has the classes of each output" \
    grep -aqF '"kind":["ash","birch","cedar","fir"]' "$folder/rows-out.onnx"
  refuses "serve" 2 "several outputs" serve --checkpoint "$folder/ort.onnx" --port 0
}

refusals() {
  local three=(--model "$folder/three.json" "${fast[@]}" --out "$folder/x")
  refuses "a missing target" 2 "no array for the output 'age'.*call it age, or age_train" train \
    --data "$folder/lacks.npz" "${three[@]}"
  refuses "another number of targets" 2 "'age' \[799\] has not as many examples" train \
    --data "$folder/short.npz" "${three[@]}"
  refuses "too many classes" 2 "output 'kind' of the network 'three' is for 4 classes.* has 5" \
    train --data "$folder/five.npz" "${three[@]}"
  refuses "one target" 2 "no array for the output 'kind'" train --data "$folder/one.npz" \
    "${three[@]}"
  refuses "pictures of files" 2 "takes 'picture'" train --data "$data" "${three[@]}"
  local setting name
  for setting in --class-weights=balanced --task=regression --classes=5 "--teacher=$folder/three"; do
    name=${setting%%=*}
    refuses "$name" 2 "${name#--}: is for networks with one output, and 'three' has several" train \
      --data "$folder/splits.npz" "${three[@]}" "$setting"
  done
  sed -e 's/"losses": \["kind_loss", /"losses": [/' -e '/"kind_loss"/d; /"name": "kind"/d' \
    "$folder/three.json" >"$folder/unequal.json"
  refuses "an output without a loss" 2 "it has 3 outputs, and not a loss for each" train \
    --model "$folder/unequal.json" --data "$folder/splits.npz" "${fast[@]}" --out "$folder/x"
  sed 's/"inputs": \["marks", "tags"\]/"inputs": ["marks", "kind"]/; /"name": "tags"/d' \
    "$folder/three.json" >"$folder/shared.json"
  refuses "labels of two outputs" 2 "two of its losses share an output, or its labels" train \
    --model "$folder/shared.json" --data "$folder/splits.npz" "${fast[@]}" --out "$folder/x"
  local target
  for target in tflite c; do
    refuses "export to $target" 2 "several outputs, and this target has one; --target ort" \
      export --checkpoint "$folder/three" \
      --target "$target" --out "$folder/exported-$target"
  done
  refuses "ties=up" 2 "it has several results; leave ties=up out" train \
    --data "$folder/splits.npz" "${three[@]}" --format bfp8-portable
  refuses "serve" 2 "several outputs" serve --checkpoint "$folder/three" --port 0
  holds "nothing was written" eval \
    'test ! -e "$folder/x" && test ! -e "$folder/exported-tflite" && test ! -e "$folder/exported-c"'
}

arrays
predictions
tables
same
starts
imports
import_refusals
exports
refusals
finish
