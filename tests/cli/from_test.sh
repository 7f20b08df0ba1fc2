#!/usr/bin/env bash
# Trained weights as a start: train --from, --freeze and --classes.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

short=(--data "$data" --steps 6 --batch-size 16 --checkpoint-every 3 --hash-every 2)
# A learning rate that moves no weight of 8 bits and no accumulator.
still=(--optimizer sgd --learning-rate 1e-30 --lr-schedule constant)

# tells PATTERN: the run that ended said so in one line on standard error.
tells() {
  [[ $(grep -cE -- "$1" "$folder/stderr") == 1 ]]
}

# last RUN: its newest checkpoint.
last() {
  printf '%s\n' "$1"/checkpoint-*.safetensors | tail -1
}

# begins_with RUN RUN: the state before the second run's first step has the parameters that the first
# run ended with.
begins_with() {
  python3 - "$1/hashes.jsonl" "$2/hashes.jsonl" <<'PYTHON'
import json, sys
first, then = ([json.loads(line) for line in open(path)] for path in sys.argv[1:])
was = dict(zip(first[0]["tensors"], first[-1]["digests"]))
begins = dict(zip(then[0]["tensors"], then[0]["digests"]))
training = ("velocity", "gradient", "predictors", "guards", "bits")
names = [name for name in begins if not any(word in name for word in training)]
assert then[0]["step"] == 0 and len(names) >= 10
sys.exit(any(begins[name] != was[name] for name in names))
PYTHON
}

# tensors FILE FILE PYTHON: an expression about the tensors of two files, `a` and `b`, as bytes.
tensors() {
  python3 - "$@" <<'PYTHON'
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: data[8 + size:][slice(*entry["data_offsets"])] for name, entry in header.items()}
a, b = read(sys.argv[1]), read(sys.argv[2])
sys.exit(not eval(sys.argv[3]))
PYTHON
}

check_the_same_network() {
  accepts "a run to start from" "test accuracy" train --model resnet8 "${short[@]}" --out "$folder/a"
  for format in bfp8 bfp:block=channel,acc=8 dfp8; do
    run train --model lenet5 --format "$format" "${short[@]}" --out "$folder/lenet"
    accepts "the same network and format, $format" "test accuracy" train --from "$folder/lenet" \
      --format "$format" "${short[@]}" "${still[@]}" --seed 5 --out "$folder/same"
    holds "begins with its parameters, $format" begins_with "$folder/lenet" "$folder/same"
    # With exponents per channel updates of nothing still make grids finer.
    [[ $format == *channel* ]] ||
      holds "keeps its weights, $format" same_entry weights_sha256 "$folder/lenet" "$folder/same"
    rm -r "$folder/lenet" "$folder/same"
  done
}

check_what_is_taken() {
  accepts "the network is the run's" "test accuracy" train --from "$folder/a" "${short[@]}" \
    --out "$folder/b"
  holds "it says what it takes" tells \
    'taken: 47 of 47 parameters from .*/a/checkpoint-00000006.safetensors$'
  holds "it begins with all parameters" tensors "$(last "$folder/a")" "$folder/b/start.safetensors" \
    '(b and all(b[name] == a[name] for name in b) and "stem_norm.running_mean" in b and
     "stem.weights.accumulator" in b and not any("velocity" in name for name in b))'
  accepts "another number of classes" "test accuracy" train --from "$folder/a" --classes 12 \
    "${short[@]}" --out "$folder/c"
  holds "the classifier is new" tells \
    'taken: 45 of 47 .*; initial: classifier.weights \[12, 64\], classifier.bias \[12\]; left over: classifier.weights \[10, 64\], '
  holds "so says the summary" eval \
    '[[ $(json "$folder/c/summary.json" from) == *"'"'taken': 45, 'initial': ['classifier.weights [12, 64]'"'"* ]]'
  accepts "another network" "test accuracy" train --from "$folder/a" --model resnet20 "${short[@]}" \
    --out "$folder/d"
  holds "takes what it has of it" tells "taken: [0-9]+ of [0-9]+ parameters .*initial: stage1.block2"
  # What a file is, its bytes say, whatever its name ends with.
  cp "$folder/a/model.safetensors" "$folder/weights.bin"
  accepts "a frozen network under another name" "test accuracy" train --from "$folder/weights.bin" \
    "${short[@]}" --out "$folder/named"
  cp "${BASH_SOURCE[0]%/*}/../fixtures/foreign/qdq.onnx" "$folder/weights.bin"
  accepts "an ONNX model under another name" "test accuracy" train --from "$folder/weights.bin" \
    --data fashion-mnist --steps 1 --out "$folder/named-onnx"
  accepts "a frozen network" "test accuracy" train --from "$folder/a/model.safetensors" \
    "${short[@]}" --out "$folder/f"
  holds "has no scales of batch norm" tells \
    "taken: 11 of 47 .*initial: stem_norm.scale .*left over: stem.sum_bias"
}

check_networks_from_files() {
  "$MANTISSA" info --model lenet5 --data "$data" --graph | sed 's/"lenet5"/"mine"/' \
    >"$folder/mine.json"
  run train --model "$folder/mine.json" "${short[@]}" --out "$folder/own"
  accepts "the network of a run with one of its own" "test accuracy" train --from "$folder/own" \
    --classes 12 "${short[@]}" --out "$folder/own-12"
  holds "it has as many outputs as classes" grep -q '"channels": 12' "$folder/own-12/network.json"
  holds "it resumes" go_on_from_the_checkpoint_before "$folder/own-12"
  accepts "the network of a file alone" "test accuracy" train \
    --from "$folder/own/model.safetensors" "${short[@]}" --out "$folder/own-file"
  holds "takes all that lenet5 has" tells "taken: 10 of 10 parameters"
  refuses "settings of built-in networks" 2 "width: is for built-in networks" train \
    --from "$folder/own" --width 2 "${short[@]}" --out "$folder/none"
  cp "$(last "$folder/own")" "$folder/alone.safetensors"
  refuses "a checkpoint alone has no network" 2 "does not say what its network is.*--model" train \
    --from "$folder/alone.safetensors" "${short[@]}" --out "$folder/none"
  accepts "but weights" "test accuracy" train --from "$folder/alone.safetensors" \
    --model lenet5 "${short[@]}" "${still[@]}" --out "$folder/alone"
  holds "all of them, accumulators too" same_entry weights_sha256 "$folder/own" "$folder/alone"
}

check_formats() {
  for format in fp32 bfp:w=4 bfp:block=channel dfp8 dfp:pretraining=float,warmup=2; do
    accepts "from bfp8 to $format" "test accuracy" train --from "$folder/a" --format "$format" \
      --freeze 'stem*' "${short[@]}" --out "$folder/to"
    accepts "and back" "test accuracy" train --from "$folder/to" "${short[@]}" --out "$folder/back"
    holds "with all parameters" tells "taken: 47 of 47"
    rm -r "$folder/to" "$folder/back"
  done
}

check_freezing() {
  local file
  for format in bfp8 bfp:block=channel dfp:pretraining=float,warmup=2; do
    run train --model resnet8 --format "$format" "${short[@]}" --out "$folder/src"
    accepts "frozen layers, $format" "test accuracy" train --from "$folder/src" \
      --format "$format" --freeze 'stem*,stage1.*' "${short[@]}" --out "$folder/frozen"
    file=$(last "$folder/frozen")
    holds "stay as they are, bit for bit, $format" tensors "$(last "$folder/src")" "$file" \
      'all(a[name] == b[name] for name in b
           if name.startswith(("stem", "stage1.")) and "running" not in name)'
    holds "the others move, $format" tensors "$(last "$folder/src")" "$file" \
      'a["stage2.block1.conv1.weights"] != b["stage2.block1.conv1.weights"]'
    holds "statistics move, too, $format" tensors "$(last "$folder/src")" "$file" \
      'a["stem_norm.running_mean"] != b["stem_norm.running_mean"]'
    holds "frozen ones have no accumulator and no velocity, $format" tensors "$file" "$file" \
      'not any(name.startswith("stem.weights.") and name != "stem.weights.exponent" for name in a)'
    holds "frozen layers resume, $format" go_on_from_the_checkpoint_before "$folder/frozen"
    rm -r "$folder/src" "$folder/frozen" "$folder/frozen-resumed"
  done
  run plan --model resnet8 --data "$data" --json
  cp "$folder/stdout" "$folder/all.json"
  run plan --from "$folder/a" --data "$data" --freeze 'stem*,stage1.*' --json
  holds "plan knows that they take less memory" eval \
    '(($(json "$folder/stdout" weight_state_bytes) < $(json "$folder/all.json" weight_state_bytes)))'
  accepts "plan says what would be taken" "^taken: 47 of 47" plan --from "$folder/a" --data "$data"
  accepts "bench --freeze" "^resnet8, " bench --model resnet8 --freeze 'stem*,stage*' --steps 1 \
    --warmup 1 --batch-size 4
}

check_identity() {
  local begin=("${short[@]}")
  cp -r "$folder/a" "$folder/moved"
  run train --from "$folder/moved/checkpoint-00000006.safetensors" "${begin[@]}" --out "$folder/b2"
  holds "another path, the same run" same_entry run_identity "$folder/b" "$folder/b2"
  holds "and the same state" same_entry state_sha256 "$folder/b" "$folder/b2"
  run train --from "$folder/moved/checkpoint-00000003.safetensors" "${begin[@]}" --out "$folder/b3"
  holds "other weights, another run" eval '! same_entry run_identity "$folder/b" "$folder/b3"'
  refuses "verify says so" 2 "from weights [0-9a-f]+ / weights" verify "$folder/b" "$folder/b3"
  run train --from "$folder/a" --freeze 'stem*' "${begin[@]}" --out "$folder/b4"
  holds "frozen layers, another run" eval '! same_entry run_identity "$folder/b" "$folder/b4"'
  run train --model resnet8 --from "" --freeze "" "${begin[@]}" --out "$folder/a2"
  holds "nothing given, the run of before" same_entry run_identity "$folder/a" "$folder/a2"
  refuses "resuming with other weights" 2 "other settings: from weights [0-9a-f]+, now weights" \
    train --resume --out "$folder/b" --from "$folder/moved/checkpoint-00000003.safetensors"
}

# as_killed_at_the_start RUN COPY: as if RUN had been killed before its first checkpoint.
as_killed_at_the_start() {
  cp -r "$1" "$2"
  rm "$2"/checkpoint-* "$2"/{summary,evaluation}.json "$2"/model.safetensors "$2"/hashes.jsonl
}

check_resuming() {
  rm -r "$folder/a" "$folder/moved"
  holds "resumes after the file is gone" go_on_from_the_checkpoint_before "$folder/b"
  as_killed_at_the_start "$folder/b" "$folder/early"
  mv "$folder/early" "$folder/early-moved"
  accepts "resumes before its first checkpoint" "test accuracy" train --resume \
    --out "$folder/early-moved"
  holds "from the same weights" same_entry state_sha256 "$folder/b" "$folder/early-moved"
  holds "and says from where" tells "taken: 47 of 47 parameters from .*/a/checkpoint-00000006"
  refuses "names its copy" 2 "a: is not there; .*b keeps its starting weights: leave --from out" \
    train --resume --out "$folder/b" --from "$folder/a"
  accepts "its configuration repeats it" "test accuracy" train --config "$folder/b/config.toml" \
    --out "$folder/repeated"
  holds "with the same weights" same_entry weights_sha256 "$folder/b" "$folder/repeated"
  holds "it is the same run" same_entry run_identity "$folder/b" "$folder/repeated"
  accepts "replaces the run it starts from" "test accuracy" train --from "$folder/b" --overwrite \
    "${short[@]}" --out "$folder/b"
  accepts "info knows the copy" "starting weights" info "$folder/b/start.safetensors"
  as_killed_at_the_start "$folder/b2" "$folder/early"
  rm "$folder/early/start.safetensors"
  refuses "says what is missing" 2 "start.safetensors is not there" train --resume \
    --out "$folder/early"
}

check_errors() {
  local begin=("${short[@]}" --out "$folder/none")
  refuses "not there" 2 "from: .*nowhere is not there; name the folder of a run" \
    train --from "$folder/nowhere" "${begin[@]}"
  refuses "not a run" 2 "data holds no run; name" train --from "$data" "${begin[@]}"
  refuses "not a safetensors file" 2 "not a safetensors file" \
    train --from "$data/picture.png" "${begin[@]}"
  mkdir "$folder/empty" && touch "$folder/empty/config.toml"
  refuses "no checkpoint yet" 2 "empty has no checkpoint" train --from "$folder/empty" "${begin[@]}"
  cp "$(last "$folder/b")" "$folder/damaged.safetensors"
  flip "$folder/damaged.safetensors" 0.5
  refuses "damaged" 2 "damaged" train --from "$folder/damaged.safetensors" --model resnet8 \
    "${begin[@]}"
  refuses "nothing matches" 2 "no parameter of .* has the name and shape of one of vgg8b .*--model" \
    train --from "$folder/own" --model vgg8b --classes 12 "${begin[@]}"
  refuses "a pattern that fits nothing" 2 "'foo\*' fits no parameter of resnet8; it has stem.weights" \
    train --from "$folder/b" --freeze 'stem*,foo*' "${begin[@]}"
  refuses "part of a node" 2 "a node trains all of its parameters or none: classifier\.\*" \
    train --from "$folder/b" --freeze 'classifier.bias' "${begin[@]}"
  refuses "nothing left" 2 "leaves nothing of resnet8 to train" \
    train --from "$folder/b" --freeze '*' "${begin[@]}"
  holds "none of them left a folder" [ ! -e "$folder/none" ]
}

check_the_same_network
check_what_is_taken
check_networks_from_files
check_formats
check_freezing
check_identity
check_resuming
check_errors
finish
