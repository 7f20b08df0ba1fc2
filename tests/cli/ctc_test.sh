#!/usr/bin/env bash
# Labels in an order, without places (ctc_loss): training, evaluation, prediction, and what is refused.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
PYTHONPATH=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1

python3 - "$folder" <<'PYTHON'
import json, random, sys
from npz import write_npz
folder = sys.argv[1]
random.seed(5)
POSITIONS, MOST = 24, 4

# Frames in noise: each label is one to three frames with a channel of its own, with silence between
# labels.
def spoken(count=None):
    frames = [[random.gauss(0, 0.15) for _ in range(3)] for _ in range(POSITIONS)]
    place, labels = 0, []
    for _ in range(random.randint(1, MOST) if count is None else count):
        place += random.randint(1, 2)
        labels.append(random.randint(1, 3))
        for _ in range(random.randint(1, 3)):
            frames[place][labels[-1] - 1] += 1
            place += 1
    length = min(POSITIONS, max(1, place) + random.randint(0, 2))
    return [v for frame in frames for v in frame], labels, length

def arrays(examples, split="", width=MOST, blank=0, with_lengths=True):
    moved = lambda label: label if blank == 0 else label - 1
    found = {f"x{split}": ([len(examples), POSITIONS, 3], "<f4", [v for x, _, _ in examples for v in x]),
             f"y{split}": ([len(examples), width], "<i4",
                           [moved(y[i]) if i < len(y) else -1 for _, y, _ in examples
                            for i in range(width)])}
    if with_lengths:
        found[f"lengths{split}"] = ([len(examples)], "<i4", [n for _, _, n in examples])
    return found

train, test = [spoken() for _ in range(512)], [spoken() for _ in range(100)]
train[7] = train[7][0], [1, 2], 5
test[3] = spoken(0)
short = [example for example in test if len(example[1]) <= 3]

def npz(name, first, second=None, **options):
    found = arrays(first, "_train" if second else "", **options)
    if second:
        found.update(arrays(second, "_test", **options))
    write_npz(f"{folder}/{name}.npz", **found)
    return found

both = npz("spoken", train, test)
npz("last", train, test, blank=3)
npz("whole", train, test, with_lengths=False)
npz("narrow", short, width=3)
npz("wide", train, test, width=5)
json.dump([y for _, y, _ in test], open(f"{folder}/labels.json", "w"))
write_npz(f"{folder}/new.npz", **{name.removesuffix("_test"): array for name, array in both.items()
                                  if name in ("x_test", "lengths_test")})

# One label or length that does not fit, in the example 7 of the test examples.
def wrong(name, array, change):
    shape, code, numbers = both[array]
    numbers = list(numbers)
    change(numbers)
    write_npz(f"{folder}/{name}.npz", **{**both, array: (shape, code, numbers)})
row = lambda *labels: lambda numbers: numbers.__setitem__(slice(28, 32), labels)
wrong("blank", "y_test", row(1, 0, -1, -1))
wrong("class", "y_train", row(1, 4, -1, -1))
wrong("below", "y_train", row(-2, 1, -1, -1))
wrong("behind", "y_train", row(1, -1, 2, -1))
for name, length in ("long", 25), ("none", 0), ("negative", -1), ("huge", 2**31 - 1):
    wrong(name, "lengths_train", lambda numbers: numbers.__setitem__(7, length))
wrong("tight", "y_train", row(2, 2, 2, 2))
shape, _, numbers = both["y_train"]
write_npz(f"{folder}/parts.npz", **{**both, "y_train": (shape, "<f4", [n + 0.5 for n in numbers])})
write_npz(f"{folder}/one.npz", **{**both, "y_train": ([512], "<i4", [1] * 512)})
write_npz(f"{folder}/less.npz", **{name: both[name] for name in both if "lengths" not in name})
write_npz(f"{folder}/new_long.npz", x=both["x_test"], lengths=([100], "<i4", [25] * 100))
with open(f"{folder}/table.csv", "w") as file:
    file.write("a,b,y\n" + "1,2,0\n2,1,1\n" * 20)

def network(name, blank=0, with_lengths=True, more=(), losses=("loss",), outputs=("out",)):
    node = lambda name, op, *inputs, **own: {"name": name, "op": op, "inputs": list(inputs),
                                             "attributes": own}
    nodes = [{"name": "numbers", "op": "input", "shape": [POSITIONS, 3], "type": "int16",
              "exponent": -12},
             {"name": "labels", "op": "input", "type": "int32", "shape": [MOST]}]
    if with_lengths:
        nodes.append({"name": "lengths", "op": "input", "type": "int32", "shape": []})
    nodes += [node("in", "quantise_input", "numbers"), node("hidden", "linear", "in", channels=32),
              node("relu", "relu", "hidden"), node("out", "linear", "relu", channels=4),
              node("loss", "ctc_loss", "out", "labels", *["lengths"][:with_lengths], blank=blank)]
    nodes += more
    json.dump({"format": "mantissa network 1", "name": name, "nodes": nodes,
               "outputs": list(outputs), "losses": list(losses)}, open(f"{folder}/{name}.json", "w"))
network("speech")
network("speech_last", blank=3)
network("speech_whole", with_lengths=False)
network("two", more=[{"name": "kind", "op": "input", "type": "int32", "shape": []},
                     {"name": "flat", "op": "flatten", "inputs": ["relu"], "attributes": {}},
                     {"name": "other", "op": "linear", "inputs": ["flat"],
                      "attributes": {"channels": 2}},
                     {"name": "loss2", "op": "softmax_cross_entropy", "inputs": ["other", "kind"],
                      "attributes": {}}],
        losses=["loss", "loss2"], outputs=["out", "other"])
PYTHON

some=(--batch-size 32 --learning-rate 0.05 --seed 1 --overwrite)
fast=("${some[@]}" --epochs 20 --threads 2 --quiet)

# The label error rate of the labels in a CSV file of predictions, computed here.
error_rate() {
  python3 - "$1" "$folder/labels.json" <<'PYTHON'
import csv, json, sys
found = [[int(k) for k in row["labels"].split()] for row in csv.DictReader(open(sys.argv[1]))]
right = json.load(open(sys.argv[2]))
assert len(found) == len(right), (len(found), len(right))

def distance(a, b):
    table = {(i, 0): i for i in range(len(a) + 1)} | {(0, k): k for k in range(len(b) + 1)}
    for i in range(1, len(a) + 1):
        for k in range(1, len(b) + 1):
            table[i, k] = min(table[i - 1, k] + 1, table[i, k - 1] + 1,
                              table[i - 1, k - 1] + (a[i - 1] != b[k - 1]))
    return table[len(a), len(b)]

print(sum(map(distance, found, right)) / sum(map(len, right)))
PYTHON
}

below() { python3 -c 'import sys; sys.exit(not 0 <= float(sys.argv[1]) < float(sys.argv[2]))' "$@"; }

# A network that learned little, whose error rate is no round number, says what Python counts.
learns() {
  run train --model "$folder/speech.json" --data "$folder/spoken.npz" "${fast[@]}" \
    --validation 0.1 --out "$folder/run"
  holds "it trains" test "$status" = 0
  holds "labels are found" below "$(json "$folder/run/summary.json" test_label_error_rate)" 0.1
  run train --model "$folder/speech.json" --data "$folder/spoken.npz" "${some[@]}" --epochs 2 \
    --validation 0.1 --out "$folder/little"
  holds "an epoch shows the rate" grep -qE \
    "validation loss [0-9.]+, label error rate [0-9.]+ %, accuracy" "$folder/stderr"
  holds "so does the end" grep -qE "label error rate +[0-9.]+ %" "$folder/stdout"
  for name in run little; do
    run predict --checkpoint "$folder/$name" --input "$folder/new.npz" --csv "$folder/$name.csv"
    holds "$name: files are predicted" test "$status" = 0
    holds "$name: the rate is Python's" test "$(error_rate "$folder/$name.csv")" = \
      "$(json "$folder/$name/summary.json" test_label_error_rate)"
    run predict --checkpoint "$folder/$name" --index 0-99 --csv "$folder/test.csv"
    holds "$name: test examples have the same labels" \
      diff <(cut -d, -f3 "$folder/test.csv") <(cut -d, -f3 "$folder/$name.csv")
    run eval --checkpoint "$folder/$name" --json
    for key in label_error_rate loss examples accuracy; do
      holds "$name: eval has the $key of the run" test "$(json "$folder/stdout" "$key")" = \
        "$(json "$folder/$name/summary.json" "test_$key")"
    done
    holds "$name: and evaluation.json" test "$(json "$folder/stdout" label_error_rate)" = \
      "$(json "$folder/$name/evaluation.json" label_error_rate)"
  done
  holds "little was learned" below 0.01 "$(json "$folder/little/summary.json" test_label_error_rate)"
  accepts "a table of labels" "test 0 +[123 ]+" predict --checkpoint "$folder/run" --index 0-3
  holds "says that there is none" grep -qE "test 3 +\(none\) +\(none\)" "$folder/stdout"
  accepts "eval for people" "label error rate [0-9.]+ %" eval --checkpoint "$folder/run"
  accepts "narrower labels are filled up" "label error rate" eval --checkpoint "$folder/run" \
    --data "$folder/narrow.npz"
  run predict --checkpoint "$folder/run" --index 0-3 --json
  holds "JSON has lists, of no label too" python3 -c 'import json, sys
found, labels = json.load(open(sys.argv[1]))["predictions"], json.load(open(sys.argv[2]))
assert [one["truth"] for one in found] == labels[:4] and labels[3] == [], found
assert found[0]["labels"] == labels[0] and found[3]["labels"] == [], found' \
    "$folder/stdout" "$folder/labels.json"
  run predict --checkpoint "$folder/run" --input "$folder/new.npz" --json
  holds "and null of what is not known" python3 -c 'import json, sys
assert json.load(open(sys.argv[1]))["predictions"][0]["truth"] is None' "$folder/stdout"
  refuses "other labels than the network's" 2 "description is not that of its network" eval \
    --data "$folder/spoken.npz" --checkpoint "$(
      python3 - "$folder/run/model.safetensors" "$folder/short/model.safetensors" <<'PYTHON'
import json, os, struct, sys
os.makedirs(os.path.dirname(sys.argv[2]))
data = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + length])
entries = header["__metadata__"]
entries.pop("sha256", None), entries.pop("sha256_covers", None)
description = json.loads(entries["description"])
description["table"] = json.dumps({**json.loads(description["table"]), "label_shape": [1]})
entries["description"] = json.dumps(description)
text = json.dumps(header).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + data[8 + length:])
print(sys.argv[2])
PYTHON
    )"
  refuses "new lengths are checked" 2 "has the length 25; 1 to 24 positions" predict \
    --checkpoint "$folder/run" --input "$folder/new_long.npz" --csv "$folder/none"
}

# Another blank, with labels from 0: another network, as good. No lengths: all positions count.
forms() {
  run train --model "$folder/speech_last.json" --data "$folder/last.npz" "${fast[@]}" \
    --out "$folder/last"
  holds "the last class is the blank" below "$(json "$folder/last/summary.json" test_label_error_rate)" 0.1
  run train --model "$folder/speech_whole.json" --data "$folder/whole.npz" "${fast[@]}" \
    --epochs 60 --out "$folder/whole"
  holds "without lengths" below "$(json "$folder/whole/summary.json" test_label_error_rate)" 0.1
  run train --model "$folder/speech.json" --data "$folder/spoken.npz" "${fast[@]}" --format fp32 \
    --out "$folder/real"
  holds "in fp32" below "$(json "$folder/real/summary.json" test_label_error_rate)" 0.1
  run train --model "$folder/speech.json" --data "$folder/spoken.npz" "${some[@]}" --epochs 20 \
    --threads 1 --quiet --validation 0.1 --out "$folder/one"
  holds "one thread has the same bits" same_entry state_sha256 "$folder/run" "$folder/one"
  run train --model "$folder/speech.json" --data "$folder/spoken.npz" "${fast[@]}" --stages 2 \
    --validation 0.1 --out "$folder/stages"
  holds "two stages have the same bits" same_entry state_sha256 "$folder/run" "$folder/stages"
  holds "and scores" same_entry test_label_error_rate "$folder/run" "$folder/stages"
  holds "a run goes on" go_on_from_the_checkpoint_before "$folder/one" --quiet
  run train --from "$folder/little" --data "$folder/spoken.npz" "${some[@]}" --epochs 1 \
    --quiet --out "$folder/more"
  holds "a run begins with trained weights" test "$status" = 0
  run quantize --from "$folder/run" --data "$folder/spoken.npz" --weights 4 --steps 40 \
    --batch-size 32 --overwrite --out "$folder/few"
  holds "few bits find labels" below "$(json "$folder/few/summary.json" test_label_error_rate)" 0.2
  accepts "a network for ONNX Runtime" "" export --target ort --checkpoint "$folder/run" \
    --out "$folder/run.onnx"
  holds "is written" test -s "$folder/run.onnx"
  accepts "a report has the rate" "" report "$folder/run" --out "$folder/report.html"
  holds "with its name" grep -q "label error rate" "$folder/report.html"
}

refused_data() {
  local name pattern
  cp -r "$folder/run" "$folder/kept"
  while IFS='|' read -r name pattern; do
    refuses "data: $name" 2 "$pattern" train --model "$folder/speech.json" \
      --data "$folder/$name.npz" "${fast[@]}" --out "$folder/kept"
  done <<'END'
blank|test example 7 has the label 0: labels are from 0 to 3, without the blank 0
class|'y_train' \[512, 4\] has in row 7 a label that is no whole number from 0 to 3
below|'y_train' \[512, 4\] has in row 7 a label that is no whole number
parts|'y_train' \[512, 4\] has in row 0 a label that is no whole number
behind|training example 7 has the label 2 behind -1, which ends them
long|lengths_train.*row 7: has the length 25; 1 to 24 positions are possible
none|lengths_train.*row 7: has the length 0; 1 to 24
negative|lengths_train.*row 7: has the length -1; 1 to 24
huge|lengths_train.*row 7: has the length 2147483647; 1 to 24
less|there is no array training for the input 'lengths'
tight|training example 7 has 4 labels, which take 7 positions .* only [3-6] are there
wide|'y_train' \[512, 5\] does not fit: the network wants labels in an order.* \[N, 4\] or narrower
one|'y_train' \[512\] does not fit: the network wants labels in an order
END
  refuses "data: a CSV file" 2 "table.csv.*(NPZ|arrays)" train --model "$folder/speech.json" \
    --data "$folder/table.csv" "${fast[@]}" --out "$folder/kept"
  holds "a run that none of them replaced is as it was" diff -r "$folder/kept" "$folder/run"
  refuses "eval: the blank is no label" 2 "test example 7 has the label 0" eval \
    --checkpoint "$folder/run" --data "$folder/blank.npz"
}

refused_settings() {
  local text pattern
  while IFS='|' read -r text pattern; do
    # shellcheck disable=SC2086
    refuses "train $text" 2 "$pattern" train --model "$folder/speech.json" \
      --data "$folder/spoken.npz" $text "${fast[@]}" --out "$folder/none"
  done <<'END'
--loss cross-entropy|loss: is for built-in networks
--class-weights balanced|class-weights
--ignore-label 3|ignore-label: .* labels are in an order
--task regression|task: .* labels in an order
--positive 1|positive: .* labels in an order
--classes 7|classes: the network says it
--threshold 0.3|threshold
--threshold f1|threshold
--row-weights w|row-weights
--label-smoothing 0.1|label-smoothing
END
  refuses "train --loss ctc" 2 "loss: 'ctc' has the most labels .* the node ctc_loss" train \
    --model mlp --loss ctc --data "$folder/spoken.npz" "${fast[@]}" --out "$folder/none"
  refuses "a teacher" 2 "teacher" train --model "$folder/speech.json" --teacher "$folder/run" \
    --data "$folder/spoken.npz" "${fast[@]}" --out "$folder/none"
  refuses "several outputs" 2 "is of labels in an order; .* must be the only one" train \
    --model "$folder/two.json" --data "$folder/spoken.npz" "${fast[@]}" --out "$folder/none"
  for target in c tflite; do
    refuses "export --target $target" 2 "finds labels in an order \(ctc_loss\)" export \
      --target "$target" --checkpoint "$folder/run" --out "$folder/none"
  done
  refuses "serve" 2 "finds labels in an order \(ctc_loss\)" serve --checkpoint "$folder/run" --port 0
  holds "nothing was written" test ! -e "$folder/none"
}

learns
forms
refused_data
refused_settings
finish
