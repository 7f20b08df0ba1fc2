#!/usr/bin/env bash
# A trained network keeps the columns, means, units and classes of its data when other data have
# them in another order or with other means: train --from, quantize and --teacher.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python3 - "$folder" <<'PYTHON'
import random, sys
random.seed(3)
rows = []
for _ in range(900):
    a, b = random.gauss(0, 1), random.gauss(50, 10)
    s = a + (b - 50) / 30
    rows.append((f"{a:.4f}", f"{b:.4f}", "high" if s > .5 else "low" if s < -.5 else "mid",
                 f"{100 + 20 * s:.3f}"))
def table(name, columns, rows):
    with open(f"{sys.argv[1]}/{name}.csv", "w") as file:
        file.write(",".join(columns) + "\n" + "".join(",".join(row) + "\n" for row in rows))
table("t", "aby", [(a, b, y) for a, b, y, _ in rows])
table("swapped", "bay", [(b, a, y) for a, b, y, _ in rows])
table("part", "aby", [(a, b, y) for a, b, y, _ in rows if float(a) > 0 and y != "low"])
table("more", "cbay", [(a[::-1].strip("-."), b, a, y) for a, b, y, _ in rows])
table("other", "acy", [(a, b, y) for a, b, y, _ in rows])
table("renamed", "aby", [(a, b, y.upper()) for a, b, y, _ in rows])
table("number", "abz", [(a, b, z) for a, b, _, z in rows])
table("half", "ay", [(a, y) for a, b, y, _ in rows if float(a) > 0])
table("number-part", "baz", [(b, a, z) for a, b, _, z in rows if float(z) > 100])
PYTHON

short=(--batch-size 20 --quiet --overwrite)
run train --model mlp --hidden 16 --data "$folder/t.csv" --epochs 15 "${short[@]}" --out "$folder/t"

# right RUN DATA LEAST: its accuracy on these data, in per cent, is at least so much.
right() {
  run eval --checkpoint "$1" --data "$folder/$2.csv" --out "$folder/eval.json"
  python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["accuracy"] * 100 < float(sys.argv[2]))' \
    "$folder/eval.json" "$3"
}

# columns RUN: the columns of its network, with their means.
columns() {
  python3 - "$1/model.safetensors" <<'PYTHON'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
table = json.loads(header["__metadata__"]["description"])["table"]
table = json.loads(table) if isinstance(table, str) else table
print([(c["name"], c["mean"], c["deviation"]) for c in table["columns"]],
      table["target"].get("categories"), table["target"].get("mean"))
PYTHON
}

check_quantize() {
  holds "the network is right" right "$folder/t" t 95
  for data in t swapped part more; do
    accepts "quantised on $data" "test accuracy" quantize --from "$folder/t" \
      --data "$folder/$data.csv" --weights 8 --activations 8 "${short[@]}" --out "$folder/q-$data"
    holds "it is right on all" right "$folder/q-$data" t 95
    holds "with the columns of the source" cmp -s <(columns "$folder/t") \
      <(columns "$folder/q-$data")
  done
  accepts "and trained" "test accuracy" quantize --from "$folder/t" --data "$folder/swapped.csv" \
    --weights 8 --activations 8 --epochs 2 "${short[@]}" --out "$folder/q"
  holds "it is right" right "$folder/q" t 95
  refuses "a column is missing" 2 "from: .*reads the columns 'a' and 'b'.* no input 'b'" quantize \
    --from "$folder/t" --data "$folder/other.csv" --quiet --out "$folder/none"
  refuses "other classes" 2 "has no class 'HIGH', 'LOW' and 'MID'" quantize \
    --from "$folder/t" --data "$folder/renamed.csv" --quiet --out "$folder/none"
  refuses "numbers in place of classes" 2 "predicts the classes of y, and the data have the numbers of z" quantize \
    --from "$folder/t" --data "$folder/number.csv" --quiet --out "$folder/none"
  holds "nothing is left" test ! -e "$folder/none"
}

check_from() {
  local still=(--optimizer sgd --learning-rate 1e-30 --lr-schedule constant)
  for data in t swapped; do
    accepts "from it on $data" "test accuracy" train --from "$folder/t" --data "$folder/$data.csv" \
      --epochs 1 "${still[@]}" "${short[@]}" --out "$folder/f-$data"
    holds "it is right" right "$folder/f-$data" t 95
    holds "with the columns of the source" cmp -s <(columns "$folder/t") \
      <(columns "$folder/f-$data")
  done
  holds "the same rows, the same run" same_entry run_identity "$folder/f-t" "$folder/f-swapped"
  run train --from "$folder/f-swapped" --data "$folder/part.csv" --epochs 2 "${short[@]}" \
    --checkpoint-every 10 --out "$folder/f-part"
  holds "fewer classes are learned anew" eval '[[ $(columns "$folder/f-part") == *"['"'high', 'mid'"']"* ]]'
  holds "it resumes" go_on_from_the_checkpoint_before "$folder/f-part"
  refuses "a column is missing" 2 "no input 'b'.*without --from" train --from "$folder/t" \
    --data "$folder/other.csv" --quiet --out "$folder/none"
  refuses "a column is ignored" 2 "no input 'b'" train --from "$folder/t/model.safetensors" \
    --data "$folder/t.csv" --ignore b --quiet --out "$folder/none"
  run train --model mlp --hidden 16 --data "$folder/number.csv" --epochs 5 "${short[@]}" \
    --out "$folder/number"
  run train --from "$folder/number" --data "$folder/number-part.csv" --epochs 1 "${short[@]}" \
    --out "$folder/number-part"
  holds "numbers keep their units" cmp -s <(columns "$folder/number") \
    <(columns "$folder/number-part")
}

check_teacher() {
  accepts "a teacher of the same data" "test accuracy" train --model mlp --hidden 8 \
    --data "$folder/t.csv" --teacher "$folder/t" --epochs 1 "${short[@]}" --out "$folder/taught"
  refuses "of other columns" 2 "teacher: .*other data than .*swapped.csv: the columns are 'a' and 'b' there, and 'b' and 'a' here" \
    train --model mlp --data "$folder/swapped.csv" --teacher "$folder/t" --quiet --out "$folder/none"
  run train --model mlp --hidden 8 --data "$folder/t.csv" --ignore b --epochs 1 "${short[@]}" \
    --out "$folder/a-alone"
  refuses "of other means" 2 "the column 'a' has the mean .* there, and .* here" train --model mlp \
    --data "$folder/half.csv" --teacher "$folder/a-alone" --quiet --out "$folder/none"
  refuses "of other classes" 2 "the classes are 'high', 'low' and 'mid' there" train --model mlp \
    --data "$folder/renamed.csv" --teacher "$folder/t" --quiet --out "$folder/none"
}

check_quantize
check_from
check_teacher
finish
