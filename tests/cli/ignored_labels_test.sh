#!/usr/bin/env bash
# --ignore-label: a label in arrays that says that there is no class, of places and of examples.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python3 - "$folder" <<'PYTHON'
import random
from small_data import conv, network, npz, relu

# Pictures of noise whose bright pixels have the class 1; the class of the border is not known.
N = 200
pixels = [random.randrange(140) for _ in range(N * 144)]
border = [i % 12 in (0, 11) or i // 12 % 12 in (0, 11) for i in range(N * 144)]
mask = lambda void: [void if out else int(p > 90) for p, out in zip(pixels, border)]
x = ([N, 12, 12], "|u1", pixels)
npz("void", x=x, y=([N, 12, 12], "|u1", mask(255)))
npz("minus", x=x, y=([N, 12, 12], "<i4", mask(-1)))
npz("seven", x=x, y=([N, 12, 12], "|u1", mask(7)))

# Several labels for each row, and each of them said or not.
rows = [random.gauss(0, 1) for _ in range(200 * 4)]
npz("several", x=([200, 4], "<f4", rows), y=([200, 3], "|u1", [255 * (r > 0) for r in rows[:600]]))

# The same as positions: numbers [T, C].
T = 300
numbers = [random.gauss(0, 1) for _ in range(T * 24 * 3)]
sums = [sum(numbers[i:i + 3]) for i in range(0, len(numbers), 3)]
place = lambda void: [void if i % 5 == 0 else int(s > 0) for i, s in enumerate(sums)]
npz("void_places", x=([T, 24, 3], "<f4", numbers), y=([T, 24], "|u1", place(255)))
npz("minus_places", x=([T, 24, 3], "<f4", numbers), y=([T, 24], "<i4", place(-1)))

# Examples with one class each: with a label that says nothing, and without these examples.
def examples(shape, code, values, labels, split):
    size = len(values) // len(labels)
    kept = [i for i, label in enumerate(labels) if label != 255]
    part = [v for i in kept for v in values[i * size:(i + 1) * size]]
    return ({f"x_{split}": ([len(labels)] + shape, code, values),
             f"y_{split}": ([len(labels)], "|u1", labels)},
            {f"x_{split}": ([len(kept)] + shape, code, part),
             f"y_{split}": ([len(kept)], "|u1", [labels[i] for i in kept])})

def both(name, shape, code, make):
    whole, rest = {}, {}
    for split, count in ("train", 300), ("test", 100):
        labels = [255 if i % 10 == 3 else i % 2 for i in range(count)]
        values = [v for i in range(count) for v in make(i % 2)]
        a, b = examples(shape, code, values, labels, split)
        whole.update(a)
        rest.update(b)
    npz(name, **whole)
    npz(name + "_rest", **rest)

both("rows", [6], "<f4", lambda label: [random.gauss(label, 0.7) for _ in range(6)])
both("pictures", [12, 12], "|u1",
     lambda label: [random.randrange(100) + 80 * label for _ in range(144)])
both("positions", [24, 3], "<f4", lambda label: [random.gauss(label, 1) for _ in range(72)])
npz("large", x=([60, 28, 28], "|u1", [random.randrange(256) for _ in range(60 * 784)]),
    y=([60], "|u1", [255 if i % 11 == 10 else i % 11 for i in range(60)]))
npz("numbers", x=([100, 6], "<f4", numbers[:600]), y=([100], "<f4", numbers[:100]))
for name, one in ("rows", [6]), ("pictures", [12, 12]), ("positions", [24, 3]):
    code = "|u1" if name == "pictures" else "<f4"
    values = [0] * (9 * one[0] * (one[1:] or [1])[0])
    npz(name + "_fewer", x=([9] + one, code, values),
        y=([10], "|u1", [255, 0, 1, 255, 0, 1, 0, 1, 0, 1]))

network("seg", [12, 12, 1], [conv, relu, ("out", "convolution", ["r"],
                                          {"channels": 2, "kernel": 1})], [12, 12])
network("places", [24, 3], [conv, relu, ("out", "linear", ["r"], {"channels": 2})], [24])
network("whole", [24, 3], [("f", "flatten", ["in"], {}),
                           ("out", "linear", ["f"], {"channels": 2})], [])
network("named", [6], [("out", "linear", ["in"], {"channels": 2})], [], "vector")
PYTHON

fast=(--batch-size 20 --threads 2 --seed 1 --quiet --overwrite)
ignore=(--ignore-label 255)

# The report's numbers, without times and names of files.
same_report() {
  python3 - "$1/evaluation.json" "$2/evaluation.json" <<'PYTHON'
import json, sys
a, b = (json.load(open(path)) for path in sys.argv[1:])
for report in a, b:
    del report["data"]
assert a == b, (a, b)
PYTHON
}

# A label 255 is the same as -1: the same weights, scores and counts.
places() {
  local name net
  for name in seg:void:minus:8800 places:void_places:minus_places:1440; do
    IFS=: read -r net void minus count <<<"$name"
    run train --model "$folder/$net.json" --data "$folder/$void.npz" "${fast[@]}" "${ignore[@]}" \
      --epochs 3 --validation 0.1 --out "$folder/$net"
    holds "$net: ignored labels are counted" \
      grep -q "$count labels are 255 and count nothing" "$folder/stderr"
    run train --model "$folder/$net.json" --data "$folder/$minus.npz" "${fast[@]}" --epochs 3 \
      --validation 0.1 --out "$folder/$net-minus"
    holds "$net: the same weights as with -1" same_entry state_sha256 "$folder/$net" \
      "$folder/$net-minus"
    holds "$net: and scores" same_report "$folder/$net" "$folder/$net-minus"
    accepts "$net: eval ignores what training ignored" "accuracy" eval --checkpoint "$folder/$net"
    run eval --checkpoint "$folder/$net" --json
    holds "$net: as many places" test "$(json "$folder/$net/evaluation.json" examples)" = \
      "$(json "$folder/stdout" examples)"
    run eval --checkpoint "$folder/$net-minus" --data "$folder/$void.npz" "${ignore[@]}" --json
    holds "$net: or what it is told" test "$(json "$folder/$net/evaluation.json" loss)" = \
      "$(json "$folder/stdout" loss)"
    refuses "$net: 255 is no class" 2 \
      "has 256 classes|has 2 outputs.* 256 classes; --ignore-label 255 leaves that label out" \
      train --model "$folder/$net.json" --data "$folder/$void.npz" "${fast[@]}" \
      --out "$folder/none"
  done
  accepts "predict, too" "test 0" predict --checkpoint "$folder/seg" --index 0-3
  refuses "eval of a network that ignored nothing" 2 "--ignore-label 255 leaves" eval \
    --checkpoint "$folder/seg-minus" --data "$folder/void.npz"
  run train --model "$folder/seg.json" --data "$folder/seven.npz" "${fast[@]}" --ignore-label 7 \
    --epochs 3 --validation 0.1 --out "$folder/seven"
  holds "another label" same_entry state_sha256 "$folder/seg-minus" "$folder/seven"
  run data "$folder/void.npz"
  holds "data guesses what 255 is" \
    grep -q "no label lies between 1 and 255; .* --ignore-label 255" "$folder/stdout" \
    "$folder/stderr"
  accepts "data with it" "8800 labels are 255 and count nothing" data "$folder/void.npz" \
    "${ignore[@]}"
  run train --out "$folder/seg" --resume --quiet
  holds "a finished run is not begun again" test "$status" = 0
  holds "a run goes on with it" go_on_from_the_checkpoint_before "$folder/places" --quiet
}

# Examples whose one label says nothing are left out.
examples() {
  local name model
  for name in rows:mlp rows:named pictures:lenet5 positions:whole; do
    model=${name#*:} name=${name%:*}
    [[ -e $folder/$model.json ]] && model=$folder/$model.json
    run train --model "$model" --data "$folder/$name.npz" "${fast[@]}" "${ignore[@]}" --epochs 2 \
      --out "$folder/$name"
    holds "$name: examples are counted" grep -q \
      "'y_train' \[300\]: 30 examples have the label 255 and are left out" "$folder/stderr"
    run train --model "$model" --data "$folder/${name}_rest.npz" "${fast[@]}" --epochs 2 \
      --out "$folder/$name-rest"
    holds "$name: the same weights as without them" same_entry state_sha256 "$folder/$name" \
      "$folder/$name-rest"
    holds "$name: and scores" same_report "$folder/$name" "$folder/$name-rest"
    accepts "$name: eval" "accuracy" eval --checkpoint "$folder/$name"
  done
  accepts "other kinds of data have no such label" "accuracy" train --model lenet5 \
    --data "$folder/large.npz" "${fast[@]}" "${ignore[@]}" --steps 2 --out "$folder/large"
  accepts "and are evaluated" "accuracy" eval --checkpoint "$folder/large" --data "$data"
  refuses "unless it is told" 2 "ignore-label: is for labels in NPZ and NPY files" eval \
    --checkpoint "$folder/large" --data "$data" "${ignore[@]}"
  refuses "positions: 255 is a class without it" 2 \
    "has 3 classes|has 2 outputs.* 3 classes; --ignore-label 255 leaves that label out" train \
    --model "$folder/whole.json" --data "$folder/positions.npz" "${fast[@]}" --out "$folder/none"
}

refusals() {
  local name model
  # The numbers are the file's, not of the examples that are left.
  for name in rows:mlp rows:named pictures:lenet5 positions:whole; do
    model=${name#*:} name=${name%:*}
    [[ -e $folder/$model.json ]] && model=$folder/$model.json
    refuses "$name: labels of fewer examples" 2 "'y' \[10\] has not as many examples as .* \[9," \
      train --model "$model" --data "$folder/${name}_fewer.npz" "${fast[@]}" "${ignore[@]}" \
      --out "$folder/none"
  done
  refuses "pictures in files" 2 "ignore-label: is for labels in NPZ and NPY files, .* IDX files" \
    train --model lenet5 --data "$data" "${fast[@]}" "${ignore[@]}" --out "$folder/none"
  refuses "numbers" 2 "ignore-label: is for classes, and .* has numbers" train --model mlp \
    --data "$folder/numbers.npz" --task regression "${fast[@]}" "${ignore[@]}" --out "$folder/none"
  refuses "several labels" 2 "ignore-label: is for one class of an example or a place, and .*several" \
    train --model mlp --data "$folder/several.npz" "${fast[@]}" "${ignore[@]}" --out "$folder/none"
  refuses "inputs without labels" 2 "give either --input, or --data, --index and --ignore-label" \
    predict --checkpoint "$folder/large" --input "$folder/large.npz" "${ignore[@]}"
  refuses "no number" 2 "ignore-label" train --model mlp --data "$folder/rows.npz" "${fast[@]}" \
    --ignore-label void --out "$folder/none"
  holds "nothing was written" test ! -e "$folder/none"
}

places
examples
refusals
finish
