#!/usr/bin/env bash
# Language models from ONNX: import, train, eval and generate. The model of bytes is built by hand:
# an embedding, an LSTM, a layer of logits.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")

text=$folder/text.txt
for line in {1..60}; do echo "line $line of a text: the quick brown fox jumps over the lazy dog"; done >"$text"

python3 -B - "$folder" "$here" <<'PYTHON'
import os, random, struct, sys
sys.path.insert(0, sys.argv[2])
from onnx_files import *
os.chdir(sys.argv[1])
random.seed(1)

def floats(name, dims):
    return random_tensor(name, dims, 0.3)

def wholes(name, numbers):
    return tensor(name, [len(numbers)], b"".join(number(7, n) for n in numbers), 7)

def integers(name, numbers):
    return part(5, part(1, name) + b"".join(number(8, n) for n in numbers) + number(20, 7))

def text(name, value):
    return part(5, part(1, name) + part(4, value) + number(20, 3))

def language_model(steps, more=b""):
    turn = integers("perm", [1, 0, 2])
    return model(
        node("Gather", ["table.weight", "x"], ["e"], "embed") +
        node("Transpose", ["e"], ["t"], "turn", turn) +
        node("LSTM", ["t", "W", "R", "B"], ["h"], "rnn", integer("hidden_size", 8) + more) +
        node("Squeeze", ["h", "one"], ["s"], "squeeze") +
        node("Transpose", ["s"], ["b"], "back", turn) +
        node("MatMul", ["b", "head.weight"], ["y"], "logits") +
        floats("table.weight", [256, 8]) + floats("W", [1, 32, 8]) + floats("R", [1, 32, 8]) +
        floats("B", [1, 64]) + floats("head.weight", [8, 256]) + wholes("one", [1]) +
        value(11, "x", ["batch", steps], 7) + value(12, "y", []))

def put(name, data):
    with open(name + ".onnx", "wb") as file:
        file.write(data)

put("lm", language_model(16))
put("open", language_model("steps"))
put("clipped", language_model(16, part(5, part(1, "clip") + varint(2 << 3 | 5) +
                                       struct.pack("<f", 1.0) + number(20, 1))))
put("coupled", language_model(16, integer("input_forget", 1)))
PYTHON

lm=$folder/lm.onnx short=(--data "$text" --tokens bytes --steps 4 --batch-size 4)

accepts "imports a language model" "5 layers" import "$lm" --out "$folder/lm.safetensors"
for from in "$lm" "$folder/lm.safetensors"; do
  run train --from "$from" "${short[@]}" --out "$folder/${from##*.}"
  holds "trains from ${from##*.}" eval '((status == 0))'
  holds "and takes all weights" grep -q "taken: 5 of 5 parameters" "$folder/stderr"
done
holds "to the same state" same_entry state_sha256 "$folder/onnx" "$folder/safetensors"
accepts "eval" "bits per byte" eval --checkpoint "$folder/onnx"
run generate --checkpoint "$folder/onnx" --prompt "the " --length 8 --temperature 0
holds "generate" eval '((status == 0))'
run train --model "$lm" "${short[@]}" --out "$folder/fresh"
holds "trains the architecture alone" eval '((status == 0)) && [[ ! -e $folder/fresh/start.safetensors ]]'

refuses "open positions" 2 "the input 'x' is \[2, \?\]; --sequence says how many positions" \
  import "$folder/open.onnx" --out "$folder/x"
accepts "positions that are said" "5 layers" \
  import "$folder/open.onnx" --sequence 12 --out "$folder/open.safetensors"
run train --from "$folder/open.onnx" --sequence 12 "${short[@]}" --out "$folder/twelve"
holds "train takes them, too" eval '((status == 0))'
refuses "other positions than the model's" 2 "sequence 12: the model has 16 positions" \
  import "$lm" --sequence 12 --out "$folder/x"
refuses "other positions in training" 2 "sequence 12: .* 16: leave it out" \
  train --from "$lm" --sequence 12 "${short[@]}" --out "$folder/x"
refuses "gates that are clipped" 2 "node 'rnn' \(LSTM\): clips its gates" \
  import "$folder/clipped.onnx" --out "$folder/x"
refuses "gates that are coupled" 2 "node 'rnn' \(LSTM\): couples its gates" \
  import "$folder/coupled.onnx" --out "$folder/x"
accepts "export of an imported network" 'near those of Mantissa' \
  export --checkpoint "$folder/onnx" --out "$folder/x.onnx"

finish
