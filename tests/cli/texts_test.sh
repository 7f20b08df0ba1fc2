#!/usr/bin/env bash
# Networks of texts: an encoder gets a classifier and learns the labels of a CSV file.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python3 "$(dirname "${BASH_SOURCE[0]}")/../make_encoder.py" "$folder/bert"
run import "$folder/bert" --out "$folder/e.safetensors"
# Texts about cats and dogs, in quotes and with line ends, and columns that do not matter.
python3 - "$folder/pets.csv" <<'END'
import csv
import random
import sys
random.seed(1)
with open(sys.argv[1], "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["id", "text", "kind"])
    for i in range(600):
        pet = random.choice(["cat", "dog"])
        words = ["the", pet, *random.choices(["sat", "runs", "on", "the", "mat", "and", "a"], k=4)]
        random.shuffle(words)
        rows.writerow([i, ("\n" if i % 9 == 0 else " ").join(words) + "!", pet])
END
json() { python3 -c "import json, sys; print(json.load(open(sys.argv[1]))$1)" "$2"; }
state() { json '["state_sha256"]' "$folder/$1/summary.json" || echo "no $1"; }
weights() { json '["weights_sha256"]' "$folder/$1/summary.json" || echo "no $1"; }
texts=(train --from "$folder/e.safetensors" --data "$folder/pets.csv" --target kind --sequence 12
  --learning-rate 0.003)

run "${texts[@]}" --epochs 6 --threads 2 --out "$folder/a"
holds "train" eval '((status == 0))'
holds "it learns: $(json '["test_accuracy"]' "$folder/a/summary.json")" python3 -c \
  "import json, sys; sys.exit(not json.load(open('$folder/a/summary.json'))['test_accuracy'] > 0.9)"
holds "what it starts from is said" eval '[[ -n $(json "[\"from\"]" "$folder/a/summary.json") ]]'
run eval --checkpoint "$folder/a" --json
cp "$folder/stdout" "$folder/eval.json"
holds "eval finds what train found" eval \
  '[[ $(json "[\"accuracy\"]" "$folder/eval.json") == "$(json "[\"test_accuracy\"]" "$folder/a/summary.json")" ]]'
printf 'text\nthe cat runs\na dog sat on the mat\n' >"$folder/new.csv"
run predict --checkpoint "$folder/a" --input "$folder/new.csv" --csv "$folder/out.csv"
holds "predict" eval 'grep -q "cat" <(sed -n 2p "$folder/out.csv") && grep -q "dog" <(sed -n 3p "$folder/out.csv")'
run predict --checkpoint "$folder/a" --input "$folder/new.csv" --csv "$folder/scalar.csv" --isa scalar --threads 1
holds "predict: the same by another instruction set" cmp "$folder/out.csv" "$folder/scalar.csv"
run predict --checkpoint "$folder/a" --index 0-3 --quiet
holds "predict test examples" eval '((status == 0))'

# The same bits whatever computes them, and after a resume without the file that it began with.
run "${texts[@]}" --steps 20 --checkpoint-every 10 --out "$folder/b"
run "${texts[@]}" --steps 20 --threads 1 --isa scalar --out "$folder/scalar"
holds "another instruction set" eval '[[ $(state b) == $(state scalar) ]]'
run "${texts[@]}" --steps 20 --stages 2 --threads 2 --out "$folder/stages"
holds "two stages" eval '[[ $(state b) == $(state stages) ]]'
mkdir "$folder/resumed"
cp "$folder/b/"{config.toml,network.json,start.safetensors,checkpoint-00000010.safetensors} "$folder/resumed/"
mv "$folder/e.safetensors" "$folder/moved.safetensors"
run train --out "$folder/resumed" --resume
holds "resume" eval '[[ $(state b) == $(state resumed) ]]'
mv "$folder/moved.safetensors" "$folder/e.safetensors"

for choice in '--format fp32' '--format bfp:block=channel' '--format dfp8' '--freeze embedding*' \
  '--class-weights balanced'; do
  # shellcheck disable=SC2086
  run "${texts[@]}" --steps 3 $choice --out "$folder/c" --overwrite
  holds "train $choice" eval '((status == 0))'
done
# Values with an exponent for each token: neither the batch nor its padding changes a prediction.
run "${texts[@]}" --format bfp:block=channel,blocks=token --epochs 3 --threads 2 --out "$folder/rows"
holds "blocks=token learns: $(json '["test_accuracy"]' "$folder/rows/summary.json")" python3 -c \
  "import json, sys; sys.exit(not json.load(open('$folder/rows/summary.json'))['test_accuracy'] > 0.9)"
run eval --checkpoint "$folder/rows" --json
cp "$folder/stdout" "$folder/eval.json"
holds "blocks=token: eval finds what train found" eval \
  '[[ $(json "[\"accuracy\"]" "$folder/eval.json") == "$(json "[\"test_accuracy\"]" "$folder/rows/summary.json")" ]]'
run predict --checkpoint "$folder/rows" --input "$folder/new.csv" --csv "$folder/both.csv"
sed -n '1p;3p' "$folder/new.csv" >"$folder/one.csv"
run predict --checkpoint "$folder/rows" --input "$folder/one.csv" --csv "$folder/alone.csv"
holds "blocks=token: a text alone and among others" eval \
  '[[ $(sed -n 3p "$folder/both.csv" | cut -d, -f2-) == "$(sed -n 2p "$folder/alone.csv" | cut -d, -f2-)" ]]'
run train --from "$folder/a/model.safetensors" --data "$folder/pets.csv" --target kind --steps 3 \
  --out "$folder/d"
holds "a trained network goes on" eval '((status == 0))'
run train --from "$folder/a" --data "$folder/pets.csv" --target kind --steps 3 --out "$folder/f"
holds "a run goes on" eval '((status == 0))'
run train --from "$folder/f" --data "$folder/pets.csv" --target kind --steps 3 --out "$folder/g"
holds "and that run, too" eval '((status == 0))'
accepts "quantize" 'test accuracy' quantize --from "$folder/a" --weights 4 --activations 4 --ends 0 \
  --epochs 1 --buckets 2 --out "$folder/few"
holds "4 bits are learned: $(json '["test_accuracy"]' "$folder/few/summary.json")" python3 -c \
  "import json, sys; sys.exit(not json.load(open('$folder/few/summary.json'))['test_accuracy'] > 0.9)"
accepts "predict of few bits" 'cat' \
  predict --checkpoint "$folder/few" --input "$folder/new.csv" --csv "$folder/few.csv"
rm "$folder/a/start.safetensors"
refuses "a run without its tokenizer" 2 'no tokenizer' \
  train --from "$folder/a" --data "$folder/pets.csv" --target kind --steps 3 --out "$folder/h"

# Batches of similar length.
python3 - "$folder/lengths.csv" <<'END'
import random
import sys
random.seed(2)
with open(sys.argv[1], "w") as file:
    print("text,kind", file=file)
    for i in range(600):
        pet = random.choice(["cat", "dog"])
        words = ["the", pet, *random.choices(["sat", "runs", "on", "mat", "and", "a"],
                                             k=random.choice([0, 2, 4, 12, 26]))]
        random.shuffle(words)
        print(" ".join(words) + "," + pet, file=file)
END
lengths=(train --from "$folder/e.safetensors" --data "$folder/lengths.csv" --target kind --sequence 32
  --learning-rate 0.003)
accuracy() { json "['$1']" "$folder/$2" || echo "no $2"; }
learns() {
  python3 -c "import sys; sys.exit(not float(sys.argv[1]) > 0.9)" "$(accuracy test_accuracy "$1/summary.json")"
}
run "${lengths[@]}" --buckets 4 --epochs 8 --validation 0.1 --threads 2 --out "$folder/buckets"
holds "buckets learn: $(accuracy test_accuracy buckets/summary.json)" learns buckets
run eval --checkpoint "$folder/buckets" --json
cp "$folder/stdout" "$folder/eval.json"
holds "buckets: eval finds what train found" eval \
  '[[ $(accuracy accuracy eval.json) == "$(accuracy test_accuracy buckets/summary.json)" &&
      $(accuracy loss eval.json) == "$(accuracy test_loss buckets/summary.json)" ]]'
run predict --checkpoint "$folder/buckets" --input "$folder/new.csv" --csv "$folder/out.csv"
holds "buckets: predict" eval 'grep -q "cat" <(sed -n 2p "$folder/out.csv") && grep -q "dog" <(sed -n 3p "$folder/out.csv")'
# eval and predict pad texts to lengths of their own: the run's test padded them to the sequence.
run "${lengths[@]}" --steps 20 --threads 2 --out "$folder/padded"
run eval --checkpoint "$folder/padded" --json
cp "$folder/stdout" "$folder/eval.json"
holds "eval pads texts less than train, and finds the same" eval \
  '[[ $(accuracy accuracy eval.json) == "$(accuracy test_accuracy padded/summary.json)" &&
      $(accuracy loss eval.json) == "$(accuracy test_loss padded/summary.json)" ]]'
long=$(for i in {1..20}; do printf 'dog sat on '; done)
printf 'text\nthe cat runs\n%s\n' "$long" >"$folder/long.csv"
run predict --checkpoint "$folder/padded" --input "$folder/long.csv" --csv "$folder/both.csv"
sed -n 1,2p "$folder/long.csv" >"$folder/one.csv"
run predict --checkpoint "$folder/padded" --input "$folder/one.csv" --csv "$folder/alone.csv"
holds "predict: a short text alone and beside a long one" cmp <(sed -n 2p "$folder/both.csv") \
  <(sed -n 2p "$folder/alone.csv")
run "${lengths[@]}" --buckets 4 --steps 40 --checkpoint-every 20 --validation 0.1 --threads 2 --out "$folder/b4"
run "${lengths[@]}" --buckets 4 --steps 40 --validation 0.1 --threads 1 --isa scalar --out "$folder/b4-scalar"
holds "buckets: threads and instruction sets change nothing" eval '[[ $(state b4) == $(state b4-scalar) ]]'
resumes() {  # FROM TO STEP
  mkdir "$folder/$2"
  cp "$folder/$1/"{config.toml,network.json,start.safetensors,checkpoint-000000"$3".safetensors} "$folder/$2/"
  run train --out "$folder/$2" --resume
  [[ $(state "$1") == $(state "$2") ]]
}
holds "buckets: a resumed run has the same state" resumes b4 b4-resumed 20
holds "buckets: the run names them" grep -q '^buckets = "4"' "$folder/b4/config.toml"
run "${lengths[@]}" --steps 40 --validation 0.1 --threads 2 --out "$folder/padded"
holds "padded batches are another run" eval '[[ $(state b4) != $(state padded) ]]'
holds "which does not name them" eval '! grep -q buckets "$folder/padded/config.toml"'
for choice in '--format fp32' '--format dfp8' '--format bfp:block=channel,blocks=token' \
  '--class-weights balanced --micro-batch-size 4' '--memory-budget 32MiB --freeze embedding*'; do
  # shellcheck disable=SC2086
  run "${lengths[@]}" --buckets 3 --steps 5 $choice --out "$folder/c" --overwrite
  holds "train $choice, buckets" eval '((status == 0))'
done
# A MiB more: how many pages of its code the system maps differs between builds and runs.
holds "buckets: the memory that was planned is enough" eval \
  '(($(json "[\"peak_rss_bytes\"]" "$folder/b4/summary.json") <= (1 << 20) + $(json "[\"planned_peak_bytes\"]" "$folder/b4/summary.json")))'
refuses "buckets of stages" 2 'buckets 2: stages and replicas' \
  "${lengths[@]}" --buckets 2 --stages 2 --out "$folder/x"

# The head of earlier versions shows all positions as one row: the same bits, and one length.
python3 - "$folder/b/network.json" "$folder/earlier" <<'END'
import json
import pathlib
import sys
network = json.loads(pathlib.Path(sys.argv[1]).read_text())
at, = (i for i, node in enumerate(network["nodes"]) if node["name"] == "first")
first = network["nodes"][at]
assert first["attributes"].pop("position") == 0
channels = 12 * first["attributes"]["channels"]
network["nodes"].insert(at, {"name": "flat", "op": "reshape", "inputs": first["inputs"],
                             "attributes": {"channels": channels}})
first["inputs"] = ["flat"]
folder = pathlib.Path(sys.argv[2])
folder.mkdir()
(folder / "network.json").write_text(json.dumps(network))
END
cp "$folder/b/"{config.toml,start.safetensors} "$folder/earlier/"
run train --out "$folder/earlier" --resume
holds "the earlier head, the same bits" eval '((status == 0)) && [[ $(weights b) == $(weights earlier) ]]'
mkdir "$folder/inputs"
sed 1d "$folder/new.csv" >"$folder/new.txt"
python3 "$(dirname "${BASH_SOURCE[0]}")/onnx_sentences.py" put "$folder/bert/vocab.txt" "$folder/new.txt" \
  "$folder/inputs" >"$folder/stdout"
for name in b earlier; do
  run export --checkpoint "$folder/$name" --out "$folder/$name.onnx"
  run run "$folder/$name.onnx" --inputs "$folder/inputs/all.npz" --out "$folder/$name.npz"
done
holds "and the same exported logits" cmp "$folder/b.npz" "$folder/earlier.npz"
refuses "buckets of the earlier head" 2 "buckets 4: node 'flat'.*--buckets 1 pads" \
  train --from "$folder/earlier" --data "$folder/pets.csv" --target kind --steps 3 --buckets 4 --out "$folder/x"
python3 - "$folder/b/network.json" "$folder/unmasked.json" <<'END'
import json
import pathlib
import sys
network = json.loads(pathlib.Path(sys.argv[1]).read_text())
for node in network["nodes"]:
    if node["op"] == "attention":
        node["inputs"].remove("lengths")
pathlib.Path(sys.argv[2]).write_text(json.dumps(network))
END
refuses "buckets of a network that reads padding" 2 "buckets 2: node 'block1.attention' reads padding" \
  train --model "$folder/unmasked.json" --from "$folder/e.safetensors" --data "$folder/pets.csv" --target kind \
  --steps 3 --buckets 2 --out "$folder/x"
run train --from "$folder/b" --data "$folder/pets.csv" --target kind --steps 3 --buckets 2 --out "$folder/go"
holds "a run goes on in buckets" eval '((status == 0))'

refuses "pictures" 2 'takes texts' train --from "$folder/e.safetensors" --out "$folder/x"
refuses "no column that is the text" 2 'text-column' \
  train --from "$folder/e.safetensors" --data "$folder/pets.csv" --target text --out "$folder/x"
refuses "a column that is not there" 2 "body" \
  train --from "$folder/e.safetensors" --data "$folder/pets.csv" --target kind --text-column body --out "$folder/x"
refuses "numbers as the target" 2 'task classification' train --from "$folder/e.safetensors" \
  --data "$folder/pets.csv" --target id --task regression --out "$folder/x"
refuses "more tokens than positions" 2 'sequence 4096' \
  train --from "$folder/e.safetensors" --data "$folder/pets.csv" --target kind --sequence 4096 --out "$folder/x"
refuses "a column of texts for a network of pictures" 2 'networks of texts' \
  train --model mlp --text-column text --out "$folder/x"
printf 'text,kind\ncat \xff,cat\ndog,dog\n' >"$folder/bad.csv"
run train --from "$folder/e.safetensors" --data "$folder/bad.csv" --target kind --out "$folder/x"
holds "too few rows" eval '((status == 2))'
finish
