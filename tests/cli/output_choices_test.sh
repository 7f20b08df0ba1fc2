#!/usr/bin/env bash
# Networks with several outputs: columns of an output of several numbers, factors of the losses,
# sequences from and to ONNX, weights of rare labels.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/several_outputs.sh
source "$(dirname "${BASH_SOURCE[0]}")/several_outputs.sh"

# Networks of rows.
python3 - "$folder" <<'PYTHON'
import json, sys
folder = sys.argv[1]

def network(name, columns, outputs, **attributes):
    node = lambda name, op, *inputs, **own: {"name": name, "op": op, "inputs": list(inputs),
                                             "attributes": own}
    nodes = [{"name": "numbers", "op": "input", "type": "int16", "shape": [columns], "exponent": -12}]
    for output, channels, loss in outputs:
        nodes.append({"name": output, "op": "input", "type": "int16", "shape": [channels],
                      "exponent": -10} if loss == "regression_error" else
                     {"name": output, "op": "input", "type": "int32",
                      "shape": [channels] if loss == "sigmoid_cross_entropy" else []})
    nodes += [node("values", "quantise_input", "numbers"),
              node("hidden", "linear", "values", channels=32), node("relu", "relu", "hidden")]
    for output, channels, loss in outputs:
        nodes += [node(f"{output}_of", "linear", "relu", channels=channels, classifier=True),
                  node(f"{output}_loss", loss, f"{output}_of", output, **attributes)]
    json.dump({"format": "mantissa network 1", "name": name, "nodes": nodes,
               "outputs": [f"{one[0]}_of" for one in outputs],
               "losses": [f"{one[0]}_loss" for one in outputs]}, open(f"{folder}/{name}.json", "w"))

where, age = ("where", 2, "regression_error"), ("age", 1, "regression_error")
network("many", 3, [("kind", 4, "softmax_cross_entropy"), where,
                    ("marks", 2, "sigmoid_cross_entropy"), age])
network("pair", 3, [where, age])
network("one-loss", 4, [("labels", 4, "softmax_cross_entropy")], loss_weight=2)
PYTHON

# Outputs of several numbers and of several labels: their columns.
columns() {
  local -a many=(train --model "$folder/many.json" --data "$folder/places.csv" "${fast[@]}"
    --epochs 20)
  accepts "columns of an output by its name" "kind test accuracy (9|100)" "${many[@]}" \
    --target where=east,north,kind=kind,marks=wet,tall,age=age --out "$folder/many"
  holds "each has its own" python3 - "$folder/many/summary.json" <<'PYTHON'
import json, sys
outputs = json.load(open(sys.argv[1]))["outputs"]
assert outputs["where"]["test_r2"] > 0.9, outputs
assert outputs["marks"]["test_accuracy"] > 0.9, outputs
PYTHON
  run predict --checkpoint "$folder/many" --input "$folder/places.csv" --csv "$folder/many.csv"
  holds "predictions have a column for each number" grep -qxF \
    "source,truth of kind,kind,probability of kind,kind=ash,kind=birch,kind=cedar,kind=fir,truth of east,east,truth of north,north,truth of marks,marks,marks=wet,marks=tall,truth of age,age" \
    "$folder/many.csv"
  holds "which are near the truth" python3 - "$folder/many.csv" <<'PYTHON'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert len(rows) == 800
for name, most in ("east", 5), ("north", .5), ("age", 5):
    near = sum(abs(float(row[name]) - float(row["truth of " + name])) < most for row in rows)
    assert near > 720, (name, near)
assert sum(row["marks"] == row["truth of marks"] for row in rows) > 700
assert {row["truth of marks"] for row in rows} == {"", "wet", "tall", "wet;tall"}
PYTHON
  run predict --checkpoint "$folder/many" --input "$folder/new.csv" --csv "$folder/many-new.csv"
  holds "rows without targets" test "$(wc -l <"$folder/many-new.csv")" = 41
  accepts "eval" "^where: east, north: R2 0.9" eval --checkpoint "$folder/many"
  run train --model "$folder/pair.json" --data "$folder/places.csv" --target north,east,age \
    "${fast[@]}" --epochs 2 --ignore kind,wet,tall --out "$folder/in-order"
  run train --model "$folder/pair.json" --data "$folder/places.csv" \
    --target age=age,where=north,east "${fast[@]}" --epochs 2 --ignore kind,wet,tall \
    --out "$folder/by-name"
  holds "or in the outputs' order" same_entry state_sha256 "$folder/in-order" "$folder/by-name"
  run export --checkpoint "$folder/many" --out "$folder/many.onnx"
  run predict --checkpoint "$folder/many.onnx" --input "$folder/places.csv" --csv "$folder/back.csv"
  holds "an exported file has the same columns" cmp -s "$folder/many.csv" "$folder/back.csv"
  refuses "columns that nobody names" 2 \
    "the output 'where' has 2 numbers, and 1 column is named for it: --target where=A,B" \
    "${many[@]}" --out "$folder/x"
  refuses "too many columns" 2 "the output 'age' has one column, and 2 columns are named" \
    "${many[@]}" --target where=east,north,age=age,a --out "$folder/x"
  refuses "too few labels" 2 "'marks' has 2 labels, or a column of classes, and 3 columns" \
    "${many[@]}" --target where=east,north,marks=wet,tall,a --out "$folder/x"
  refuses "an output twice" 2 "the output 'where' is named twice" "${many[@]}" \
    --target where=east,where=north --out "$folder/x"
  refuses "texts as numbers" 2 "these are neither" "${many[@]}" \
    --target where=wet,north,marks=tall --out "$folder/x"
}

# Factors of the losses.
weights() {
  local -a weighed=("${three[@]}" --epochs 3)
  run train "${weighed[@]}" --loss-weights age=0.5,tags=0.3 --out "$folder/weighed"
  holds "factors are in the network" losses_are "$folder/weighed" \
    "kind softmax_cross_entropy -,age regression_error - loss_weight=0.5,tags sigmoid_cross_entropy - loss_weight=0.3"
  run train "${weighed[@]}" --out "$folder/equal"
  holds "they change the weights" eval \
    '! same_entry state_sha256 "$folder/weighed" "$folder/equal"'
  run train "${weighed[@]}" --loss-weights kind=1,age=1,tags=1 --out "$folder/ones"
  holds "factors of 1 do not" same_entry state_sha256 "$folder/equal" "$folder/ones"
  run train --model "$folder/weighed/network.json" "${three[@]:2}" --epochs 3 --out "$folder/json"
  holds "the file of the network says them, too" same_entry state_sha256 "$folder/weighed" \
    "$folder/json"
  run train "${weighed[@]}" --loss-weights age=0.5,tags=0.3 --threads 1 --out "$folder/one-thread"
  holds "the same bits on one thread" same_entry state_sha256 "$folder/weighed" \
    "$folder/one-thread"
  holds "the sum has the factors" python3 - "$folder/weighed" <<'PYTHON'
import json, sys
folder = sys.argv[1]
factors = {"kind": 1, "age": 0.5, "tags": 307 / 1024}
report = json.load(open(folder + "/evaluation.json"))
total = sum(factor * report["outputs"][name]["loss"] for name, factor in factors.items())
assert abs(report["loss"] - total) < 1e-6, (report["loss"], total)
for line in map(json.loads, open(folder + "/metrics.jsonl")):
    for kind in "loss", "validation_loss":
        if kind not in line:
            continue
        total = sum(factor * line[f"{kind}.{name}"] for name, factor in factors.items())
        assert abs(line[kind] - total) < 1e-5, (kind, line[kind], total)
PYTHON
  holds "a large factor lets an output learn first" learns_first
  local -a cut=("${weighed[@]}" --loss-weights age=0.3,tags=4 --micro-batch-size 8)
  run train "${cut[@]}" --stages 2 --partition operations --out "$folder/weighed-stages"
  run train "${cut[@]}" --out "$folder/weighed-whole"
  holds "on two stages the same bits" same_entry state_sha256 "$folder/weighed-stages" \
    "$folder/weighed-whole"
  accepts "quantize keeps them" "kind" quantize --from "$folder/weighed" --weights 4 \
    --activations 4 --data "$folder/splits.npz" --batch-size 32 --epochs 1 --quiet \
    --out "$folder/weighed-few"
  holds "in its network" grep -q '"loss_weight": 0.3' "$folder/weighed-few/network.json"
  holds "a run goes on with them" go_on_from_the_checkpoint_before "$folder/weighed" --quiet
  accepts "in fp32" "kind test accuracy" train "${weighed[@]}" --loss-weights age=0.3 \
    --format fp32 --out "$folder/weighed-fp32"
  accepts "of an ONNX model" "kind test accuracy" train --from "$folder/heads.onnx" --input-mean 0 \
    --input-std 1 --output all --loss-weights kind=2,age=0.25 --data "$folder/splits.npz" \
    "${fast[@]}" --epochs 2 --out "$folder/weighed-onnx"
  holds "is in its network" losses_are "$folder/weighed-onnx" \
    "kind softmax_cross_entropy - loss_weight=2,age regression_error - loss_weight=0.25,tags sigmoid_cross_entropy -"
  refuses "a factor of an output that is not there" 2 \
    "loss-weights: no loss is compared with 'size'" train "${weighed[@]}" --loss-weights size=2 \
    --out "$folder/x"
  refuses "a factor out of range" 2 "loss-weights: '32' is not a number from 0.000976" train \
    "${weighed[@]}" --loss-weights age=32 --out "$folder/x"
  refuses "no factor" 2 "loss-weights: 'age' is not as kind=0.5" train "${weighed[@]}" \
    --loss-weights age --out "$folder/x"
  refuses "two factors" 2 "loss-weights: 'age' is named twice" train "${weighed[@]}" \
    --loss-weights age=1,age=2 --out "$folder/x"
  refuses "factors of one output" 2 "loss-weights: is for networks with several outputs" train \
    --model lenet5 --data "$data" --loss-weights a=1 --out "$folder/x"
  refuses "a factor of the only loss" 2 "its one loss has a loss_weight" train \
    --model "$folder/one-loss.json" --data "$folder/table.csv" --target kind "${fast[@]}" \
    --epochs 1 --out "$folder/x"
}

# The loss of an output with nearly all of the weight is smaller than with nearly none.
learns_first() {
  local large=() name other
  for name in kind:age age:kind; do
    other=${name#*:} name=${name%:*}
    run train "${three[@]}" --epochs 1 --loss-weights "$other=0.01,tags=0.01" \
      --out "$folder/first-$name"
    large+=("$folder/first-$name/evaluation.json")
  done
  python3 - "${large[@]}" <<'PYTHON'
import json, sys
kind, age = (json.load(open(path))["outputs"] for path in sys.argv[1:])
assert kind["kind"]["loss"] < age["kind"]["loss"], (kind["kind"]["loss"], age["kind"]["loss"])
assert age["age"]["loss"] < kind["age"]["loss"], (kind["age"]["loss"], age["age"]["loss"])
PYTHON
}

# Networks over sequences, of numbers and of tokens: from ONNX, trained, and to ONNX.
sequences() {
  local name data
  for name in signal:series words:words; do
    data=${name#*:} name=${name%:*}
    accepts "$name: all outputs learn" "kind test accuracy (9|100).*age test R2 0.[89]" train \
      --from "$folder/$name.onnx" --output all --data "$folder/$data.npz" "${fast[@]}" \
      --epochs 15 --out "$folder/$name"
    run predict --checkpoint "$folder/$name" --input "$folder/$data-inputs.npz" \
      --raw "$folder/$name-raw.npz" --csv "$folder/$name.csv"
    accepts "$name: export" "written to" export --checkpoint "$folder/$name" \
      --out "$folder/$name-out.onnx"
    python3 "$here/onnx_outputs.py" feed "$folder/$name" "$folder/$data-inputs.npz" \
      "$folder/$name-fed.npz"
    run run "$folder/$name-out.onnx" --inputs "$folder/$name-fed.npz" --out "$folder/found.npz"
    holds "$name: the outputs are near those of predict --raw" python3 "$here/onnx_outputs.py" \
      near "$folder/found.npz" "$folder/$name-raw.npz" 0.08 kind age tags
    holds "$name: the file has the classes of each output" \
      grep -aqF '"kind":["0","1","2","3"]' "$folder/$name-out.onnx"
    holds "$name: and units" grep -aqF 'mantissa.columns' "$folder/$name-out.onnx"
    run train --from "$folder/$name.onnx" --output all --data "$folder/$data.npz" "${fast[@]}" \
      --epochs 1 --format fp32 --out "$folder/$name-fp32"
    run predict --checkpoint "$folder/$name-fp32" --input "$folder/$data-inputs.npz" \
      --raw "$folder/$name-raw.npz" --csv "$folder/$name.csv"
    run export --checkpoint "$folder/$name-fp32" --out "$folder/$name-out.onnx"
    run run "$folder/$name-out.onnx" --inputs "$folder/$name-fed.npz" --out "$folder/found.npz"
    holds "$name: in fp32 nearer" python3 "$here/onnx_outputs.py" near "$folder/found.npz" \
      "$folder/$name-raw.npz" 2e-5 kind age tags
  done
}

# --positive-weights and the like, of several outputs.
positives() {
  local -a heads=(train --from "$folder/heads.onnx" --input-mean 0 --input-std 1
    --data "$folder/splits.npz" "${fast[@]}" --epochs 1 --out "$folder/positives")
  run "${heads[@]}" --output all --positive-weights 1,2,0.5 --focal 1
  holds "weights of the labels of one output" losses_are "$folder/positives" \
    "kind softmax_cross_entropy -,age regression_error -,tags sigmoid_cross_entropy - focal=1 positive_weights=[1024, 2048, 512]"
  run "${heads[@]}" --output tags,age --positive-weights 3 --overwrite
  holds "one for all of them" losses_are "$folder/positives" \
    "tags sigmoid_cross_entropy - positive_weights=[3072],age regression_error -"
  rm -r "$folder/positives"
  refuses "too few weights" 2 "positive_weights: there are 2 of them and 3 outputs" \
    "${heads[@]}" --output all --positive-weights 1,2
  refuses "weights of no labels" 2 "positive-weights: goes with --loss sigmoid, and no output has" \
    "${heads[@]}" --output kind,age --positive-weights 2
  refuses "weights of a network from JSON" 2 "positive-weights: is for built-in networks" train \
    "${three[@]}" --positive-weights 2 --out "$folder/positives"
  holds "nothing was trained" test ! -e "$folder/positives"
}

columns
weights
sequences
positives
finish
