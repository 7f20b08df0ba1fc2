#!/usr/bin/env bash
# What is guessed follows from the network: a class of one logit or of two with a threshold, labels
# that go together, a class for each pixel. Exported C and serve guess what predict does.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python3 - "$folder" <<'PYTHON'
import io, json, random, struct, sys, zipfile
folder = sys.argv[1]
random.seed(4)

def array(shape, type, numbers):
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(numbers)

def archive(name, pictures, labels, shape):
    with zipfile.ZipFile(f"{folder}/{name}.npz", "w") as file:
        for split, part in ("train", slice(0, 240)), ("test", slice(240, 300)):
            some = pictures[part]
            file.writestr(f"x_{split}.npy", array((len(some), 8, 8), "|u1", sum(some, [])))
            file.writestr(f"y_{split}.npy", array((len(some), *shape), "|u1", sum(labels[part], [])))
    open(f"{folder}/{name}.pixels", "wb").write(bytes(sum(pictures[240:], [])))

labels = [[int(random.random() < p) for p in (.5, .3, .1)] for _ in range(300)]
stripes = [[min(255, random.randrange(90) + 110 * (x < 6 and l[x // 2])) for y in range(8)
            for x in range(8)] for l in labels]
archive("labels", stripes, labels, (3,))
archive("two", stripes, [[l[0] | l[2]] for l in labels], ())
dots = [[random.randrange(140) for _ in range(64)] for _ in range(300)]
archive("places", dots, [[int(p > 90) + int(p > 120) for p in picture] for picture in dots], (8, 8))
json.dump({"format": "mantissa network 1", "name": "places", "nodes": [
    {"name": "pixels", "op": "input", "type": "uint8", "shape": [8, 8, 1]},
    {"name": "n", "op": "normalise_input", "inputs": ["pixels"]},
    {"name": "c", "op": "convolution", "inputs": ["n"], "attributes": {"channels": 8, "padding": 1}},
    {"name": "r", "op": "relu", "inputs": ["c"]},
    {"name": "out", "op": "convolution", "inputs": ["r"], "attributes": {"channels": 3, "kernel": 1}},
    {"name": "labels", "op": "input", "type": "int32", "shape": [8, 8]},
    {"name": "loss", "op": "softmax_cross_entropy", "inputs": ["out", "labels"]}],
    "outputs": ["out"], "losses": ["loss"]}, open(f"{folder}/places.json", "w"))
with open(f"{folder}/table.csv", "w") as file:
    file.write('a,"the ""colour""",y\n' + "".join(
        f"{10 + i % 7},{('red', 'blue')[i % 2]},{('no', 'yes')[i % 7 > 3]}\n" for i in range(200)))
PYTHON

# trained NAME DATA SETTINGS...: the run, and the guesses of predict on the test examples.
trained() {
  accepts "$1" "test" train --data "$folder/$2.npz" --epochs 4 --batch-size 20 --quiet \
    --out "$folder/$1" "${@:3}"
  run predict --checkpoint "$folder/$1" --index 0-59 --csv "$folder/$1.csv" --quiet
  run predict --checkpoint "$folder/$1" --index 0-59 --raw "$folder/$1-raw.npz" --quiet
}

# has_guesses KIND NAME: KIND c: the compiled C prints, for each example, the guesses of predict; or
# serve: the server's answer has them. They follow from the raw results and the thresholds.
has_guesses() {
  python3 - "$1" "$folder/$2" <<'PYTHON'
import csv, json, struct, sys, zipfile
kind, run = sys.argv[1:]
def array(name):
    data = zipfile.ZipFile(run + "-raw.npz").read(name + ".npy")
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return struct.unpack(f"<{(len(data) - start) // 4}i", data[start:])
mantissas, unit = array("mantissas"), 2.0 ** array("exponent")[0]
data = open(run + "/model.safetensors", "rb").read()
header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
network = json.loads(header["__metadata__"]["description"])
thresholds = network.get("thresholds", [])
each = len(mantissas) // 60
name = run.rsplit("/", 1)[1]
wanted = []
for i in range(60):
    logits = [m * unit for m in mantissas[i * each:(i + 1) * each]]
    if name == "labels":
        wanted.append([k for k, z in enumerate(logits) if z > (thresholds or [0] * 3)[k]])
    elif name == "one-logit":
        wanted.append(int(logits[0] > thresholds[0]))
    elif name == "two-logits":
        wanted.append(int(logits[1] - logits[0] > thresholds[0]))
    else:
        places = [logits[k:k + 3] for k in range(0, each, 3)]
        wanted.append([place.index(max(place)) for place in places])
assert len(set(map(str, wanted))) > 1, wanted[:3]
rows = list(csv.DictReader(open(run + ".csv")))
if name.endswith("logits") or name.endswith("logit"):
    assert [int(row["guess"]) for row in rows] == wanted, "predict itself"
if kind == "c":
    found = [json.loads(line) for line in open(run + ".guesses")]
else:
    found = json.load(open(run + ".answer"))["classes"]
assert found == wanted, (found[:5], wanted[:5])
PYTHON
}

# compiled NAME: the C of the network, called for each test example.
compiled() {
  local run=$folder/$1
  "$MANTISSA" export --checkpoint "$run" --target c --out "$run.c" --quiet >/dev/null || return
  cat >"$run.c/example.c" <<'C'
#include <stdio.h>
#include "mantissa.h"
int main(void) {
  static mantissa_memory memory;
  static uint8_t input[MANTISSA_INPUTS];
  static int32_t results[MANTISSA_RESULTS];
  while (fread(input, sizeof(input), 1, stdin) == 1) {
    mantissa_predict(&memory, input, results);
    GUESSES
  }
  return 0;
}
C
  python3 - "$run.c/example.c" "$2" <<'PYTHON'
import sys
text = open(sys.argv[1]).read().replace("GUESSES", sys.argv[2])
open(sys.argv[1], "w").write(text)
PYTHON
  make -s -C "$run.c" CFLAGS="-O1 -Wall -Wextra -Werror" example &&
    "$run.c/example" <"$folder/$3.pixels" >"$run.guesses"
}

# served NAME DATA: the server's answer about the test pictures.
served() {
  "$MANTISSA" serve --checkpoint "$folder/$1" --port 0 >"$folder/address" 2>"$folder/serving" &
  local server=$! status=0
  for ((i = 0; i < 100; ++i)); do
    [[ -s $folder/address ]] && break
    sleep 0.1
  done
  python3 - "$(<"$folder/address")/predict" "$folder/$2.pixels" "$folder/$1.answer" <<'PYTHON' || status=1
import sys, urllib.request
data = open(sys.argv[2], "rb").read()
open(sys.argv[3], "wb").write(urllib.request.urlopen(sys.argv[1], data, timeout=30).read())
PYTHON
  kill -TERM $server
  wait $server
  : >"$folder/address"
  return $status
}

readonly best='printf("%d\n", mantissa_best(results));'
readonly list='printf("[");
    for (int i = 0, n = 0; i < MANTISSA_RESULTS; ++i) {
      if (mantissa_has_label(results, i)) printf("%s%d", n++ ? ", " : "", i);
    }
    printf("]\n");'
readonly places='for (int i = 0; i < MANTISSA_PLACES; ++i) {
      printf("%s%d", i ? ", " : "[", mantissa_best_at(results, i));
    }
    printf("]\n");'

trained labels labels --model mlp --loss sigmoid --threshold f1 --validation 60
trained one-logit two --model mlp --loss sigmoid --threshold 0.3
trained two-logits two --model mlp --threshold 0.3
trained places places --model "$folder/places.json"
for row in "labels labels list" "one-logit two best" "two-logits two best" "places places places"; do
  read -r name data function <<<"$row"
  holds "$name as C" compiled "$name" "${!function}" "$data"
  holds "guesses as predict does" has_guesses c "$name"
  holds "$name is served" served "$name" "$data"
  holds "and guessed so" has_guesses serve "$name"
done
holds "labels have no best one" eval '! grep -q mantissa_best "$folder/labels.c/mantissa.h"'

# How rows become the input.
accepts "a table" "test" train --data "$folder/table.csv" --model mlp --hidden 4 --epochs 1 \
  --batch-size 20 --quiet --out "$folder/table"
run export --checkpoint "$folder/table" --target c --out "$folder/table.c"
holds "its header names columns, means and texts" python3 - "$folder/table" <<'PYTHON'
import json, struct, sys
data = open(sys.argv[1] + "/model.safetensors", "rb").read()
header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
table = json.loads(header["__metadata__"]["description"])["table"]
a = (json.loads(table) if isinstance(table, str) else table)["columns"][0]
text = open(sys.argv[1] + ".c/mantissa.h").read()
number = f'//   0: "a", (number - {a["mean"]:.17g}'[:24]
assert number in text and '//   2: "the \\"colour\\"", 1 of "red", else 0' in text, text
PYTHON
holds "it compiles" make -s -C "$folder/table.c" CFLAGS="-O1 -Wall -Wextra -Werror" example
finish
