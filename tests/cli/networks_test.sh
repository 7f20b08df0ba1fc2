#!/usr/bin/env bash
# Networks as files: printed by info --graph, taken by train, plan and bench, kept by runs and by the
# files of trained networks.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# A network of one model under the name "mine", as a file.
print_network() {
  "$MANTISSA" info --model "$1" --data "$data" --graph |
    sed "s/\"name\": \"$1\"/\"name\": \"mine\"/" >"$2"
}

# change FILE PYTHON: a network after a statement about `network` and `nodes` (by name).
change() {
  python3 - "$1" "$2" <<'PYTHON'
import json, sys
network = json.load(open(sys.argv[1]))
nodes = {node["name"]: node for node in network["nodes"]}
exec(sys.argv[2])
json.dump(network, open(sys.argv[1], "w"), indent=1)
PYTHON
}

check_the_same_bits() {
  local begin=(--data "$data" --steps 6 --batch-size 16 --checkpoint-every 3 --hash-every 2)
  print_network resnet8 "$folder/mine.json"
  accepts "the built-in network" "test accuracy" train --model resnet8 "${begin[@]}" \
    --out "$folder/built-in"
  accepts "the same from a file" "test accuracy" train --model "$folder/mine.json" "${begin[@]}" \
    --out "$folder/own"
  holds "it ends with the same weights" same_entry weights_sha256 "$folder/built-in" "$folder/own"
  holds "it ends with the same state" same_entry state_sha256 "$folder/built-in" "$folder/own"
  holds "it is another run" eval '! same_entry run_identity "$folder/built-in" "$folder/own"'
  holds "its name is that of the file" eval '[[ $(json "$folder/own/summary.json" model) == mine ]]'
  holds "a built-in network leaves no network.json" [ ! -e "$folder/built-in/network.json" ]
  # Laid out otherwise and under another path it is the same run.
  mkdir "$folder/elsewhere"
  python3 -m json.tool "$folder/mine.json" "$folder/elsewhere/other.json"
  accepts "the same file, laid out otherwise" "test accuracy" \
    train --model "$folder/elsewhere/other.json" "${begin[@]}" --out "$folder/own-2"
  holds "is the same run" same_entry run_identity "$folder/own" "$folder/own-2"
  accepts "runs of one network are compared" "same" verify "$folder/own" "$folder/own-2"
  refuses "a built-in network and a file are not" 2 "model resnet8 / .*network.json" \
    verify "$folder/built-in" "$folder/own"
}

# After the file is deleted and the run's folder has moved.
check_without_the_file() {
  rm "$folder/mine.json"
  mv "$folder/own" "$folder/moved"
  local run=$folder/moved
  holds "it resumes" go_on_from_the_checkpoint_before "$run"
  accepts "it resumes with the same network at another path" "test accuracy" \
    train --resume --out "$run" --model "$folder/elsewhere/other.json"
  refuses "it says where its network is" 2 "mine.json: is not there; .*moved keeps its network" \
    train --resume --out "$run" --model "$folder/mine.json"
  accepts "its configuration repeats it" "test accuracy" \
    train --config "$run/config.toml" --out "$folder/repeated"
  holds "with the same weights" same_entry weights_sha256 "$run" "$folder/repeated"
  cp "$run/model.safetensors" "$folder/alone.safetensors"
  accepts "eval of the run" "test accuracy" eval --checkpoint "$run"
  accepts "eval of the file alone" "test accuracy" \
    eval --checkpoint "$folder/alone.safetensors" --data "$data"
  accepts "predict" "class|picture" predict --checkpoint "$folder/alone.safetensors" \
    --input "$data/picture.png"
  accepts "info of the run" "model +.*network.json" info "$run"
  accepts "info of the file" "model +mine" info "$folder/alone.safetensors"
  accepts "report" "written" report "$run" --out "$folder/report.html"
  holds "it names the network" grep -q "<td>mine</td>" "$folder/report.html"
  accepts "the network of the run" '"name": "mine"' info "$run" --graph
  cp "$folder/stdout" "$folder/of-run.json"
  accepts "the network of the file, with its means" '"means": \[' info "$folder/alone.safetensors" \
    --graph
  cp "$folder/stdout" "$folder/of-file.json"
  accepts "plan of the run's network" "^arena" plan --model "$folder/of-run.json" --data "$data"
  accepts "plan of the file's network" "^arena" plan --model "$folder/of-file.json" --data "$data"
  accepts "bench" "^mine, " bench --model "$folder/of-file.json" --steps 1 --warmup 1 --batch-size 4
  change "$run/network.json" 'nodes["stem"]["attributes"]["channels"] = 17
for node in nodes.values(): node.pop("shape") if node["op"] != "input" else 0
for node in network["nodes"]:
    if node.get("attributes", {}).get("channels") == 16: node["attributes"]["channels"] = 17'
  rm "$run/summary.json"
  refuses "a run whose network was changed does not go on" 2 "written by a run with" \
    train --resume --out "$run"
}

# Files from before the network was in them name a built-in one.
check_old_files() {
  python3 - "$folder/built-in/model.safetensors" "$folder/old.safetensors" \
    "$folder/alone.safetensors" "$folder/unknown.safetensors" <<'PYTHON'
import json, struct, sys
for source, target in (sys.argv[1:3], sys.argv[3:5]):
    data = open(source, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    for key in ("network", "sha256", "sha256_covers"):
        del header["__metadata__"][key]
    text = json.dumps(header).encode()
    open(target, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
PYTHON
  prints_json "eval of a file" eval --checkpoint "$folder/built-in" --json
  cp "$folder/stdout" "$folder/new-eval"
  prints_json "eval of a file without its network" \
    eval --checkpoint "$folder/old.safetensors" --data "$data" --json
  holds "both have the same results" eval \
    '[[ $(json "$folder/stdout" loss) == $(json "$folder/new-eval" loss) ]]'
  refuses "a file without its network and of no built-in one" 2 "unknown model 'mine'" \
    eval --checkpoint "$folder/unknown.safetensors" --data "$data"
}

# The examples in the documents are networks.
check_documents() {
  local root
  root=$(dirname "${BASH_SOURCE[0]}")/../..
  json_of() { sed -n '/^```json$/,/^```$/{/^```/d;p}' "$1"; }
  json_of "$root/README.md" >"$folder/readme.json"
  accepts "README's network" "test accuracy" train --model "$folder/readme.json" --data "$data" \
    --steps 2 --batch-size 8 --out "$folder/readme"
  json_of "$root/docs/networks.md" >"$folder/example.json"
  accepts "the documented network" "two_paths|test accuracy" train --model "$folder/example.json" \
    --data "$data" --steps 2 --batch-size 8 --out "$folder/example"
  sed '/"stem", "op"/s/"channels"/"chanels"/' "$folder/example.json" >"$folder/misspelt.json"
  refuses "its error has the line" 2 "misspelt.json, line 7: node 'stem' \(convolution\): has no att" \
    plan --model "$folder/misspelt.json" --data "$data"
}

check_refusals() {
  local own=$folder/of-run.json
  : >"$folder/empty.json"
  refuses "an empty file" 2 "empty.json, line 1: is not JSON" plan --model "$folder/empty.json" \
    --data "$data"
  refuses "no file" 2 "none.json" plan --model "$folder/none.json" --data "$data"
  refuses "no such network" 2 "unknown model 'resnet9'.*or a file NAME.json" plan --model resnet9
  for setting in "width 2" "loss mse" "label-smoothing 0.1"; do
    # shellcheck disable=SC2086
    refuses "--$setting with a file" 2 "${setting% *}: is for built-in networks; .*of-run.json" \
      plan --model "$own" --data "$data" --$setting
  done
  mkdir -p "$folder/rgb"
  refuses "pictures of another size" 2 \
    "'mine' takes pictures of \[28, 28, 1\], and .* has pictures of \[14, 14, 1\]; --input-size resizes them" \
    plan --model "$own" --data "$data" --input-size 14
  refuses "pictures with other channels" 2 "takes pictures of \[28, 28, 1\].*\[28, 28, 3\]" \
    bench --model "$own" --input-size 28x28x3
  refuses "more classes than outputs" 2 "has 10 outputs, and .* 12 classes" \
    plan --model "$own" --data "$data" --classes 12
  refuses "fewer classes than outputs" 2 "has 10 outputs, and .* 4 classes; --classes 10" \
    bench --model "$own" --classes 4
  cp "$own" "$folder/broken.json"
  change "$folder/broken.json" 'nodes["stem"]["attributes"]["chanels"] = 3'
  refuses "a misspelt attribute" 2 \
    "broken.json, line [0-9]+: node 'stem' \(convolution\): has no attribute 'chanels'; it has chan" \
    train --model "$folder/broken.json" --data "$data" --out "$folder/refused"
  holds "nothing is written" [ ! -e "$folder/refused" ]
  cp "$own" "$folder/two.json"
  change "$folder/two.json" 'network["outputs"].append("stem")'
  refuses "two outputs" 2 "two.json: network 'mine': it has 2 outputs, and not a loss for each" \
    plan --model "$folder/two.json" --data "$data"
  cp "$own" "$folder/image.json"
  change "$folder/image.json" 'nodes["pixels"]["name"] = "image"
nodes["normalise"]["inputs"] = ["image"]'
  refuses "an input that the data lack" 2 "takes 'image' .U8 .*has 'pixels'" \
    plan --model "$folder/image.json" --data "$data"
  refuses "--graph of nothing" 2 "name either --model, or" info --graph
  refuses "--graph of a checkpoint" 2 "not a frozen network" \
    info "$folder/built-in/checkpoint-00000006.safetensors" --graph
  refuses "--model without --graph" 2 "is for --graph" info --model mlp
}

# Files that are made to take time, memory or the stack.
check_hostile_files() {
  python3 - "$folder" "$folder/alone.safetensors" <<'PYTHON'
import json, struct, sys
folder, trained = sys.argv[1:]
pixels = {"name": "pixels", "op": "input", "type": "uint8", "shape": [28, 28, 1]}
normalise = {"name": "n", "op": "normalise_input", "inputs": ["pixels"]}

def network(nodes):
    return json.dumps({"format": "mantissa network 1", "name": "x", "nodes": nodes,
                       "outputs": ["n"], "losses": []})

def node(name, op, inputs, **attributes):
    return {"name": name, "op": op, "inputs": inputs, "attributes": attributes}

huge = 2**62
texts = {
    "cycle": network([pixels, normalise, node("a", "add", ["n", "b"]), node("b", "relu", ["a"])]),
    "many": network([pixels, normalise] + [node(f"r{i}", "relu", ["n"]) for i in range(1_000_000)]),
    "some": network([pixels, normalise] + [{}] * 100_000),
    "wide": network([{**pixels, "shape": [huge, huge, 3]}, normalise]),
    "grown": network([pixels, normalise, node("p", "reshape", ["n"], channels=huge)]),
    "padded": network([pixels, normalise] + [
        node(f"p{i}", "pad", ["n" if i == 0 else f"p{i - 1}"], top=2**20, left=2**20)
        for i in range(4000)]),
    "inner": network([pixels, normalise, node("u", "update_sgd", ["n"])]),
    "deep": network([pixels, normalise]).replace('["n"]', "[" * 1_000_000),
    "objects": '{"nodes":' * 200_000,
    "keys": "{" + ",".join(f'"k{i}":1' for i in range(200_000)) + "}",
    "zero": network([pixels]).replace("uint8", "uint8\0"),
    "name": network([{**pixels, "name": "x" * 3_000_000}]),
    "numbers": "[" + "1," * 1_900_000 + "1]"}
for name, text in texts.items():
    open(f"{folder}/hostile-{name}.json", "w").write(text)
    data = open(trained, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    for key in ("sha256", "sha256_covers"):
        del header["__metadata__"][key]
    header["__metadata__"]["network"] = text
    header = json.dumps(header).encode()
    if len(header) < 90_000_000:
        open(f"{folder}/hostile-{name}.safetensors", "wb").write(
            struct.pack("<Q", len(header)) + header + data[8 + size:])
PYTHON
  local file
  run() {
    status=0
    (ulimit -v 262144 && exec timeout --kill-after=5 20 "$MANTISSA" "$@") \
      >"$folder/stdout" 2>"$folder/stderr" || status=$?
    (($(wc -L <"$folder/stderr") < 1000)) || bad "$*" "a very long line on standard error"
  }
  for file in "$folder"/hostile-*.json; do
    refuses "plan of ${file##*/}" 2 "${file##*/}" plan --model "$file" --data "$data" --threads 1
  done
  for file in "$folder"/hostile-*.safetensors; do
    refuses "eval of ${file##*/}" 2 "${file##*/}: its network, line|header" \
      eval --checkpoint "$file" --data "$data" --threads 1
  done
}

check_the_same_bits
check_without_the_file
check_old_files
check_documents
check_refusals
check_hostile_files
finish
