#!/usr/bin/env bash
# Tests the command line as a contract: exit codes, one-line errors, JSON, damaged files, Ctrl-C.
#
#   MANTISSA=build/dev/mantissa tests/cli_test.sh
#
# Makes its own tiny data set. Prints a line per check and, at the end, "N passed, N failed".
# `holds NAME eval CONDITION` expands the condition; words are options.
# shellcheck disable=SC2016,SC2013
set -uo pipefail

: "${MANTISSA:?names the binary to test}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0
export XDG_CACHE_HOME=$folder/cache  # where profiles are kept

ok() {
  passed=$((passed + 1))
  echo "ok: $1"
}

bad() {
  failed=$((failed + 1))
  echo "FAILED: $1: $2"
  sed 's/^/    | /' "$folder/stderr" | head -5
}

# run ARGUMENTS...: leaves $status, $folder/stdout and $folder/stderr.
run() {
  status=0
  timeout --kill-after=5 120 "$MANTISSA" "$@" >"$folder/stdout" 2>"$folder/stderr" || status=$?
}

# refuses NAME CODE PATTERN ARGUMENTS...: exits with CODE, says it in one line that matches PATTERN
# (extended, case ignored) and prints no result.
refuses() {
  local name=$1 code=$2 pattern=$3
  run "${@:4}"
  if ((status != code)); then
    bad "$name" "exit code $status instead of $code"
  elif (($(wc -l <"$folder/stderr") != 1)); then
    bad "$name" "$(wc -l <"$folder/stderr") lines on standard error instead of one"
  elif ! grep -qiE -- "$pattern" "$folder/stderr"; then
    bad "$name" "the message does not match '$pattern'"
  elif [[ -s $folder/stdout ]]; then
    bad "$name" "prints something on standard output"
  else
    ok "$name"
  fi
}

# accepts NAME PATTERN ARGUMENTS...: exits with 0, and standard output matches PATTERN.
accepts() {
  run "${@:3}"
  if ((status != 0)); then
    bad "$1" "exit code $status"
  elif ! grep -qE -- "$2" "$folder/stdout"; then
    bad "$1" "standard output does not match '$2'"
  else
    ok "$1"
  fi
}

# prints_json NAME ARGUMENTS...: exits with 0 and prints JSON and nothing else.
prints_json() {
  run "${@:2}"
  if ((status != 0)); then
    bad "$1" "exit code $status"
  elif ! python3 -m json.tool "$folder/stdout" >/dev/null 2>&1; then
    bad "$1" "not JSON"
  else
    ok "$1"
  fi
}

# holds NAME COMMAND...: the command succeeds.
holds() {
  if "${@:2}"; then ok "$1"; else bad "$1" "does not hold"; fi
}

# json FILE NAME: an entry of a JSON file.
json() {
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"
}

# flip FILE PLACE: a copy of FILE over itself with one bit flipped, PLACE (0 to 1) of the way in.
flip() {
  python3 - "$1" "$2" <<'PYTHON'
import sys
path, place = sys.argv[1], float(sys.argv[2])
data = bytearray(open(path, "rb").read())
data[min(len(data) - 1, int(place * len(data)))] ^= 1
open(path, "wb").write(data)
PYTHON
}

# Pictures of ten classes that are easy to tell apart, and a picture as a file.
make_data() {
  python3 - "$1" <<'PYTHON'
import os, random, struct, sys, zlib
folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
random.seed(1)

def picture(label):
    return bytes(min(255, random.randrange(60) + (190 if (x + y * label) % 10 == label else 0))
                 for y in range(28) for x in range(28))

for name, count in ("train", 256), ("t10k", 64):
    labels = bytes(i % 10 for i in range(count))
    with open(f"{folder}/{name}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 0x801, count) + labels)
    with open(f"{folder}/{name}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, count, 28, 28) + b"".join(map(picture, labels)))

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

def put_png(path, rows):
    raw = b"".join(b"\0" + rows[y * 28:(y + 1) * 28] for y in range(28))
    header = struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
                   + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))

put_png(f"{folder}/picture.png", picture(3))
for i in range(40):
    put_png(f"{folder}/pictures/class {i % 4}/{i}.png", picture(i % 4))
PYTHON
}

# damaged NAME COMMAND...: a copy of the data, changed by COMMAND in its folder; prints its path.
damaged() {
  local copy=$folder/$1
  cp -r "$data" "$copy"
  (cd "$copy" && "${@:2}") >&2
  echo "$copy"
}

check_usage() {
  refuses "no such command" 2 "did you mean train" trian
  refuses "no such command lists them" 2 "train, eval, predict, data, plan, bench, profile, verify, report, statistics, info, completion" fly
  refuses "options before the command" 2 "after train" --json train
  refuses "unknown option" 2 "did you mean --batch-size" train --batchsize 5
  refuses "unknown option with underscore" 2 "did you mean --learning-rate" train --learning_rate=1
  refuses "stray argument" 2 "unexpected.*stray" train stray
  refuses "missing value" 2 "--epochs needs a value" train --epochs
  refuses "option instead of a value" 2 "--epochs needs a value" train --epochs --seed 1
  run
  holds "no arguments: usage on standard error, exit code 2" \
    eval '((status == 2)) && grep -q "^Usage" "$folder/stderr" && [[ ! -s $folder/stdout ]]'
  accepts "--version" "^mantissa [0-9]+\.[0-9]+" --version
  accepts "--help" "^Usage: mantissa" --help
  local command option
  for command in train eval predict data plan bench verify report statistics info completion; do
    accepts "$command --help" "^Examples:" "$command" --help
    # Each option in an example must be one of the command's.
    for option in $(grep -E "^ +mantissa $command" "$folder/stdout" | grep -oE -- '--[a-z-]+' |
      sort -u); do
      holds "$command --help: $option of an example exists" \
        grep -qE "^ +(-h,)?$option( |$)" "$folder/stdout"
    done
  done
}

check_settings() {
  local train=(train --data "$data" --model mlp --out "$folder/refused")
  refuses "wrong model" 2 "resnet9.*mlp.*resnet8" "${train[@]}" --model resnet9
  refuses "missing data" 2 "no/such/folder" "${train[@]}" --data no/such/folder
  refuses "no out" 2 "out" train --data "$data" --model mlp
  refuses "batch-size 0" 2 "batch-size.*'0'" "${train[@]}" --batch-size 0
  refuses "empty batch-size" 2 "batch-size" "${train[@]}" --batch-size ""
  refuses "batch larger than the data" 2 "batch" "${train[@]}" --batch-size 1000
  refuses "threads -1" 2 "threads.*'-1'" "${train[@]}" --threads -1
  refuses "learning-rate nan" 2 "learning-rate.*nan" "${train[@]}" --learning-rate nan
  refuses "learning-rate inf" 2 "learning-rate.*inf" "${train[@]}" --learning-rate inf
  refuses "epochs 0" 2 "epochs.*'0'" "${train[@]}" --epochs 0
  refuses "format bfp:w=1" 2 "w=1.*2, 3.*8" "${train[@]}" --format bfp:w=1
  refuses "no such format" 2 "int3" "${train[@]}" --format int3
  refuses "no such loss" 2 "hinge.*cross-entropy or mse" "${train[@]}" --loss hinge
  refuses "smoothing of mse" 2 "label-smoothing.*cross-entropy" "${train[@]}" --loss mse \
    --label-smoothing 0.1
  refuses "no such isa" 2 "mmx.*scalar" "${train[@]}" --isa mmx
  refuses "memory-budget 5apples" 2 "5apples" "${train[@]}" --memory-budget 5apples
  refuses "memory-budget 1MiB" 3 "needs.*MiB.*1(\.0)? MiB.*largest.*[KM]iB" \
    "${train[@]}" --memory-budget 1MiB
  refuses "plan over the budget" 3 "needs" plan --data "$data" --model mlp --memory-budget 1MiB
  refuses "resume and overwrite" 2 "--resume.*--overwrite" "${train[@]}" --resume --overwrite
  refuses "missing config" 2 "none\.toml" "${train[@]}" --config none.toml
  echo 'epochs = [' >"$folder/bad.toml"
  refuses "damaged config" 2 "bad\.toml" "${train[@]}" --config "$folder/bad.toml"
  refuses "info of no such isa" 2 "mmx" info --isa mmx
  refuses "eval without a checkpoint" 2 "checkpoint" eval --data "$data"
  refuses "eval of nothing" 2 "no-run" eval --checkpoint "$folder/no-run" --data "$data"
}

check_data() {
  local train=(train --model mlp --epochs 1 --batch-size 32 --out "$folder/refused") copy
  copy=$(damaged truncated truncate -s -100 train-images-idx3-ubyte)
  refuses "truncated pictures" 2 "truncated/train-images" "${train[@]}" --data "$copy"
  copy=$(damaged headless truncate -s 6 t10k-images-idx3-ubyte)
  refuses "truncated header" 2 "headless/t10k-images" "${train[@]}" --data "$copy"
  copy=$(damaged empty truncate -s 0 train-labels-idx1-ubyte)
  refuses "empty labels" 2 "empty/train-labels" "${train[@]}" --data "$copy"
  copy=$(damaged mismatched cp t10k-labels-idx1-ubyte train-labels-idx1-ubyte)
  refuses "other number of labels than pictures" 2 "256.*64|64.*256" "${train[@]}" --data "$copy"
  copy=$(damaged swapped cp train-labels-idx1-ubyte train-images-idx3-ubyte)
  refuses "labels instead of pictures" 2 "swapped/train-images" "${train[@]}" --data "$copy"
  copy=$(damaged huge python3 -c 'open("train-images-idx3-ubyte", "r+b").write(
    bytes([0, 0, 8, 3]) + b"\x7f" * 12)')
  refuses "header that promises exabytes" 2 "huge/train-images" "${train[@]}" --data "$copy"
}

check_training() {
  local train=(train --data "$data" --model mlp --batch-size 32 --threads 2)
  accepts "train" "test accuracy +[0-9.]+ %" "${train[@]}" --epochs 1 --out "$folder/a"
  holds "no escape codes in files" eval '! grep -q $'"'\\033'"' "$folder/stdout" "$folder/stderr"'
  holds "suggested commands work" suggested_commands_work
  refuses "epochs and steps at once" 2 "exclude" "${train[@]}" --epochs 1 --steps 3 --out "$folder/b"
  accepts "resume takes the settings of the run" "test accuracy" train --out "$folder/a" --resume
  holds "a refused run leaves no folder" [ ! -e "$folder/b" ]
  refuses "train again into the same folder" 2 "--resume.*--overwrite" \
    "${train[@]}" --epochs 1 --out "$folder/a"
  run "${train[@]}" --epochs 1 --out "$folder/a" --resume
  holds "resume of a finished run says so" \
    eval '((status == 0)) && grep -q "already finished" "$folder/stderr"'
  refuses "resume with other settings" 2 "other" "${train[@]}" --epochs 2 --out "$folder/a" --resume
  run train --data "$data" --model mlp --batch-size 96 --steps 2 --out "$folder/of-96" --quiet
  accepts "resume with a batch size that is named again" "test accuracy" \
    train --batch-size 96 --out "$folder/of-96" --resume
  prints_json "train --json" "${train[@]}" --epochs 1 --out "$folder/b" --json --quiet
  holds "train --json prints summary.json" cmp -s "$folder/stdout" "$folder/b/summary.json"
  holds "--quiet shows no progress" eval '[[ ! -s $folder/stderr ]]'
  holds "the same bits again" same_entry weights_sha256 "$folder/a" "$folder/b"
  prints_json "train --config" train --config "$folder/a/config.toml" --out "$folder/c" --json
  holds "a configuration file repeats the run" same_entry weights_sha256 "$folder/a" "$folder/c"
  run "${train[@]}" --epochs 1 --out "$folder/a" --overwrite --quiet
  holds "--overwrite" eval '((status == 0)) && (($(wc -l <"$folder/stdout") == 1))'
}

# go_on_from_the_checkpoint_before RUN SETTINGS...: as if RUN had been killed after its last
# checkpoint but one, resumes it in a copy; the results must be the same.
go_on_from_the_checkpoint_before() {
  local copy=$1-resumed
  cp -r "$1" "$copy"
  rm "$copy/summary.json" "$(printf '%s\n' "$copy"/checkpoint-*.safetensors | tail -1)"
  run train --out "$copy" --resume "${@:2}"
  ((status == 0)) && grep -q "resuming at step" "$folder/stderr" &&
    same_entry state_sha256 "$1" "$copy" && same_entry test_loss "$1" "$copy" &&
    same_entry steps "$1" "$copy"
}

check_optimizers() {
  local train=(train --data "$data" --model mlp --batch-size 32 --threads 2 --epochs 2) name
  for name in sgd momentum nesterov adam adamw; do
    accepts "train --optimizer $name" "test accuracy" "${train[@]}" --optimizer $name \
      --clip-norm 0.5 --out "$folder/$name"
    holds "--optimizer $name resumes" go_on_from_the_checkpoint_before "$folder/$name"
    prints_json "--optimizer $name: its config repeats it" \
      train --config "$folder/$name/config.toml" --out "$folder/$name-again" --json
    holds "--optimizer $name: the same bits again" \
      same_entry state_sha256 "$folder/$name" "$folder/$name-again"
  done
  holds "clipping reports the norm" grep -q '"gradient_norm":[0-9.]' "$folder/adam/metrics.jsonl"
  holds "no momentum in the config of adam" eval '! grep -q "^momentum" "$folder/adam/config.toml"'
  holds "adam takes 7 bytes per parameter" \
    grep -qE '"weight_state_bytes_per_parameter": 7\.0' "$folder/adam/summary.json"
  accepts "another optimizer than the config's" "test accuracy" train --quiet \
    --config "$folder/adam/config.toml" --optimizer momentum --out "$folder/other"
  accepts "the config's optimizer with another beta" "test accuracy" train --quiet \
    --config "$folder/adam/config.toml" --optimizer adam --beta1 0.8 --out "$folder/other-beta"
  refuses "no such optimizer" 2 "lion.*sgd, momentum, nesterov, adam or adamw" \
    "${train[@]}" --optimizer lion --out "$folder/refused"
  refuses "momentum of adam" 2 "momentum and nesterov.*is adam" \
    "${train[@]}" --optimizer adam --momentum 0.8 --out "$folder/refused"
  refuses "beta1 of momentum" 2 "adam and adamw.*is momentum" \
    "${train[@]}" --beta1 0.8 --out "$folder/refused"
  refuses "beta2 1" 2 "beta2.*'1'" "${train[@]}" --optimizer adam --beta2 1 --out "$folder/refused"
  refuses "negative clip-norm" 2 "clip-norm.*'-1'" "${train[@]}" --clip-norm -1 --out "$folder/refused"
  accepts "plan of clipping" "gradient_norm +all" plan --data "$data" --model mlp --clip-norm 1
  accepts "bench of adam" "update_adam" bench --model mlp --batch-size 8 --steps 2 --optimizer adam --sort time
}

# Inverted batch norm: a numeric mode of the run, whatever the plan.
check_inversion() {
  local network=(--data "$data" --model mobilenet_v2 --width 0.125 --batch-size 32 --threads 2)
  local train=(train "${network[@]}" --steps 2)
  accepts "without inversion" "test accuracy" "${train[@]}" --recompute none --out "$folder/plain"
  accepts "inversion" "test accuracy" "${train[@]}" --allow-inversion --recompute none \
    --out "$folder/inverted"
  accepts "inversion by the format" "test accuracy" "${train[@]}" --format bfp:inversion=yes \
    --recompute all --out "$folder/inverted-format"
  holds "the flag is the format's key" \
    same_entry run_identity "$folder/inverted" "$folder/inverted-format"
  holds "inversion: the same state under another plan" \
    same_entry state_sha256 "$folder/inverted" "$folder/inverted-format"
  holds "inversion is another run" eval \
    '! same_entry run_identity "$folder/plain" "$folder/inverted"'
  holds "inversion takes less memory" eval \
    '(($(json "$folder/inverted/summary.json" planned_peak_bytes) <
       $(json "$folder/plain/summary.json" planned_peak_bytes)))'
  accepts "four steps with inversion" "test accuracy" "${train[@]}" --steps 4 --allow-inversion \
    --out "$folder/inverted-four"
  run "${train[@]}" --steps 4 --checkpoint-every 2 --allow-inversion --out "$folder/inverted-resumed"
  rm -f "$folder"/inverted-resumed/{summary.json,checkpoint-00000004.safetensors}
  accepts "the config keeps inversion" "test accuracy" train --threads 1 --resume \
    --config "$folder/inverted-resumed/config.toml" --out "$folder/inverted-resumed"
  holds "inversion, resumed: the same state" \
    same_entry state_sha256 "$folder/inverted-four" "$folder/inverted-resumed"
  accepts "plan of inversion" "= batch_norm_inverted" plan "${network[@]}" --allow-inversion
  refuses "inversion of nothing" 2 "resnet8: inversion=yes changes nothing" \
    train --data "$data" --model resnet8 --allow-inversion --out "$folder/refused"
  refuses "inversion in fp32" 2 "integer formats" \
    "${train[@]}" --format fp32 --allow-inversion --out "$folder/refused"
  refuses "inversion after floats" 2 "leave one of them out" \
    "${train[@]}" --format dfp:pretraining=float --allow-inversion --out "$folder/refused"
}

# Plans under a budget: less memory, the same results.
check_memory() {
  local network=(--data "$data" --model resnet8 --batch-size 64 --threads 2) budget name
  local train=(train "${network[@]}" --steps 4 --hash-every 1)
  accepts "keep everything" "test accuracy" "${train[@]}" --recompute none --out "$folder/kept"
  accepts "keep the least" "test accuracy" "${train[@]}" --recompute all --out "$folder/least"
  budget=$((($(json "$folder/kept/summary.json" planned_peak_bytes) +
    $(json "$folder/least/summary.json" planned_peak_bytes)) / 2))
  accepts "keep what fits" "test accuracy" "${train[@]}" --memory-budget ${budget}B \
    --out "$folder/fits"
  for name in least fits; do
    holds "$name: the same state" same_entry state_sha256 "$folder/kept" "$folder/$name"
    holds "$name: the same clipping" same_entry saturation_rate "$folder/kept" "$folder/$name"
    holds "$name: the same observations" cmp -s "$folder"/{kept,"$name"}/tensors.jsonl
    holds "$name: the same run" same_entry run_identity "$folder/kept" "$folder/$name"
  done
  holds "what fits is within the budget" eval \
    '(($(json "$folder/fits/summary.json" planned_peak_bytes) <= budget))'
  holds "the least is less" eval \
    '(($(json "$folder/least/summary.json" planned_peak_bytes) < budget))'
  holds "the config repeats the run on any machine" eval \
    '! grep -qE "recompute|memory-budget" "$folder/fits/config.toml"'
  accepts "goes on with another budget" "test accuracy" "${train[@]}" --steps 6 --recompute none \
    --out "$folder/six"
  run "${train[@]}" --steps 6 --memory-budget ${budget}B --checkpoint-every 3 --out "$folder/six-b"
  rm -f "$folder"/six-b/{summary.json,checkpoint-00000006.safetensors}
  accepts "resume with everything kept" "test accuracy" "${train[@]}" --steps 6 --recompute none \
    --resume --out "$folder/six-b"
  holds "resumed under another plan: the same state" \
    same_entry state_sha256 "$folder/six" "$folder/six-b"
  accepts "plan --explain" "stem_relu .* memory is short" plan "${network[@]}" --recompute all --explain
  prints_json "plan --explain as JSON" plan "${network[@]}" --explain --json
  accepts "plan with instructions that compute again" "recompute +convolution" \
    plan "${network[@]}" --recompute all
  accepts "plan by the literal rule" "arena" plan "${network[@]}" --recompute literal
  accepts "bench under a budget" "recompute" bench --model resnet8 --batch-size 64 --steps 1 \
    --warmup 1 --recompute all
  refuses "bench over its budget" 3 "needs" bench --model resnet8 --memory-budget 1MiB
  refuses "less than the least" 3 "needs .*MiB.*no plan for less was found" \
    plan "${network[@]}" --memory-budget 4MiB
  refuses "a budget that keeping everything exceeds" 3 "--recompute auto may need less" \
    plan "${network[@]}" --memory-budget ${budget}B --recompute none
  accepts "plan proven by a solver" "arena" plan "${network[@]}" --memory-budget ${budget}B --plan exact
  refuses "plan quickly" 2 "quickly.*neither search nor exact" plan "${network[@]}" --plan quickly
  refuses "recompute some" 2 "some.*auto, none, all and literal" plan "${network[@]}" --recompute some
  for budget in 0 -1 "5 apples" ""; do
    refuses "memory-budget '$budget'" 2 "memory-budget: '$budget' is not a size" \
      plan "${network[@]}" --memory-budget "$budget"
  done
}

# What the machine takes, for planning.
check_profile() {
  local network=(--data "$data" --model resnet8 --batch-size 64 --threads 2)
  accepts "profile" "^elements_per_ns = [0-9.]+" profile --threads 2
  holds "profile: kept for later runs" test -s "$XDG_CACHE_HOME/mantissa/profile.toml"
  prints_json "profile --json --out" profile --threads 1 --out "$folder/profile.toml" --json
  accepts "plan with a profile" "arena" plan "${network[@]}" --profile "$folder/profile.toml"
  echo "elements_per_ns = -1" >"$XDG_CACHE_HOME/mantissa/profile.toml"
  refuses "a kept profile that cannot be" 2 "mantissa/profile.toml: elements_per_ns: '-1'" \
    plan "${network[@]}"
  accepts "plan with the built-in profile" "arena" plan "${network[@]}" --profile builtin
  rm "$XDG_CACHE_HOME/mantissa/profile.toml"
  refuses "no such profile" 2 "none.toml" plan "${network[@]}" --profile none.toml
  refuses "profile to nowhere" 2 "no/such" profile --out no/such/folder/profile.toml
}

# Exponents from steps in fp32.
check_pretraining() {
  local train=(train --data "$data" --model mlp --batch-size 32 --threads 1 --epochs 2)
  accepts "pre-training in fp32" "test accuracy" "${train[@]}" \
    --format dfp:pretraining=float,warmup=3 --out "$folder/float"
  holds "no instruction is repeated then" [ "$(json "$folder/float/summary.json" re_executions)" = 0 ]
  holds "resumes behind the pre-training" go_on_from_the_checkpoint_before "$folder/float"
  refuses "no steps in fp32" 2 "choose warmup from 1" "${train[@]}" \
    --format dfp:pretraining=float,warmup=0 --out "$folder/refused"
  accepts "plan with pre-training" "pre-training in fp32" plan --data "$data" --model mlp \
    --format dfp:pretraining=float
}

# Values and weights of more than 8 bits.
check_wide_formats() {
  local train=(train --data "$data" --batch-size 32 --threads 2 --steps 4 --checkpoint-every 2)
  refuses "format bfp:a=17" 2 "a=17.*15, 16" "${train[@]}" --format bfp:a=17 --out "$folder/refused"
  accepts "train with w=12,a=16" "test accuracy" "${train[@]}" --model lenet5 \
    --format bfp:w=12,a=16 --out "$folder/wide"
  holds "w=12,a=16 resumes" go_on_from_the_checkpoint_before "$folder/wide"
  accepts "train with linear=16" "test accuracy" "${train[@]}" --model lenet5 \
    --format bfp:linear=16 --out "$folder/linear16"
  holds "linear=16 resumes" go_on_from_the_checkpoint_before "$folder/linear16"
  accepts "info: weights of 12 bits" "^conv1.weights +I16 +\[.*\] +[0-9]+ +-[0-9]+ +1[01]" \
    info "$folder/wide/model.safetensors" --tensors
  accepts "eval of linear=16" "test accuracy" eval --checkpoint "$folder/linear16" --data "$data"
  accepts "bench of linear=16" "^  median" bench --model lenet5 --batch-size 8 --steps 2 --format bfp:linear=16
  accepts "bench of dynamic fixed point" "^  median" bench --model mlp --batch-size 8 --steps 2 --format dfp8
  accepts "eval of wide values" "test accuracy" eval --checkpoint "$folder/wide" --data "$data"
  accepts "predict by wide values" "^test 3 " \
    predict --checkpoint "$folder/wide" --data "$data" --index 0-3
  accepts "plan of wide values" "peak +[0-9.]+ [KMG]iB" \
    plan --data "$data" --model resnet8 --format bfp:a=16,w=16,linear=16
}

check_validation() {
  local train=(train --data "$data" --model mlp --batch-size 32 --threads 2) early
  refuses "early-stop without a split" 2 "early-stop.*--validation" \
    "${train[@]}" --early-stop 2 --out "$folder/refused"
  refuses "validation of nothing" 2 "none of the 256" \
    "${train[@]}" --validation 0.001 --out "$folder/refused"
  refuses "validation of nearly all" 2 "only 6 would be left" \
    "${train[@]}" --validation 250 --out "$folder/refused"
  refuses "validation 1.5" 2 "validation.*1\.5" "${train[@]}" --validation 1.5 --out "$folder/refused"
  refuses "plateau-factor of one-cycle" 2 "plateau.*one-cycle" \
    "${train[@]}" --plateau-factor 0.5 --out "$folder/refused"
  accepts "train --validation" "test accuracy" "${train[@]}" --epochs 2 --validation 0.25 \
    --out "$folder/validated"
  holds "two epochs, two validation losses" \
    eval '(($(grep -c validation_loss "$folder/validated/metrics.jsonl") == 2))'
  holds "the split is not trained on" \
    eval '[[ $(json "$folder/validated/summary.json" train_examples) == 192 ]]'
  # A learning rate that learns by heart, then gets worse: stops before its 200 epochs.
  early=("${train[@]}" --epochs 200 --validation 64 --early-stop 2 --lr-schedule plateau
    --learning-rate 0.05 --plateau-patience 1)
  accepts "train --early-stop" "test accuracy" "${early[@]}" --out "$folder/early"
  holds "it says that it stopped early" grep -q "stopped early at step .*; keeping" "$folder/stderr"
  holds "it stopped two epochs after the best" eval '(($(json "$folder/early/summary.json" steps) ==
    $(json "$folder/early/summary.json" best_step) + 12))'
  holds "the last step's tensors are observed" eval '(($(json "$folder/early/summary.json" steps) ==
    $(tail -1 "$folder/early/tensors.jsonl" | grep -oE "^.\"step\":[0-9]+" | tr -cd 0-9)))'
  holds "early stopping resumes" go_on_from_the_checkpoint_before "$folder/early"
  accepts "eval of the best" "test accuracy" eval --checkpoint "$folder/early" --data "$data"
  accepts "early stopping from a config with another split" "test accuracy" train --quiet \
    --config "$folder/early/config.toml" --validation 32 --epochs 3 --out "$folder/other-split"
  rm "$folder/early/summary.json"
  flip "$folder/early/best.safetensors" 0.5
  run train --out "$folder/early" --resume --quiet
  holds "flipped bit in the best weights" \
    eval '((status == 2)) && tail -1 "$folder/stderr" | grep -q "best[.]safetensors"'
  accepts "plateau on the training loss" "test accuracy" "${train[@]}" --epochs 3 \
    --lr-schedule plateau --out "$folder/plateau"
}

# same_entry NAME RUN RUN: both summaries have the same entry.
same_entry() {
  [[ $(json "$2/summary.json" "$1") == "$(json "$3/summary.json" "$1")" ]]
}

# Runs what `train` printed under "What to try next", but for the long training.
suggested_commands_work() {
  local line count=0
  while IFS= read -r line; do
    [[ $line == *" train "* ]] && line="${line/--epochs 10/} --steps 1 --batch-size 8 --model mlp"
    bash -c "$line" >/dev/null 2>"$folder/stderr" || { cat "$folder/stderr" >&2; return 1; }
    count=$((count + 1))
  done < <(sed '1,/^What to try next/d' "$folder/stdout")
  ((count >= 3))
}

check_inference() {
  accepts "eval" "test accuracy [0-9.]+ %" eval --checkpoint "$folder/a" --data "$data"
  prints_json "eval --json" eval --checkpoint "$folder/a" --data "$data" --json
  holds "eval finds the accuracy of the training" \
    eval '[[ $(json "$folder/stdout" accuracy) == "$(json "$folder/a/summary.json" test_accuracy)" ]]'
  holds "training stored its evaluation" \
    eval '[[ $(json "$folder/a/evaluation.json" accuracy) == "$(json "$folder/stdout" accuracy)" ]]'
  accepts "train in fp32" "test accuracy" train --data "$data" --model lenet5 --batch-size 32 \
    --epochs 1 --format fp32 --optimizer adam --clip-norm 1 --out "$folder/fp32"
  prints_json "eval of fp32" eval --checkpoint "$folder/fp32" --data "$data" --json
  holds "eval in fp32 finds the accuracy of the training" \
    eval '[[ $(json "$folder/stdout" accuracy) == "$(json "$folder/fp32/summary.json" test_accuracy)" ]]'
  accepts "train with block=channel" "test accuracy" train --data "$data" --model lenet5 \
    --batch-size 32 --steps 2 --format bfp:block=channel --checkpoint-every 1 \
    --out "$folder/channel"
  holds "block=channel resumes" go_on_from_the_checkpoint_before "$folder/channel"
  prints_json "eval of it" eval --checkpoint "$folder/channel" --data "$data" --json
  holds "eval with block=channel finds the accuracy of the training" \
    eval '[[ $(json "$folder/stdout" accuracy) == "$(json "$folder/channel/summary.json" test_accuracy)" ]]'
  accepts "info shows the exponents of channels" "conv1\.weights\.exponent +I16 +\[6\]" \
    info "$folder/channel" --tensors
  prints_json "info --json of it" info "$folder/channel" --tensors --json
  holds "info --json has the smallest of them" grep -q '"smallest_exponent"' "$folder/stdout"
  refuses "block of another kind" 2 "block=tensor or channel" \
    train --data "$data" --model lenet5 --format bfp:block=row --out "$folder/row"
  accepts "train with mse" "test accuracy" train --data "$data" --model mlp --batch-size 32 \
    --epochs 1 --loss mse --out "$folder/mse"
  prints_json "eval of it" eval --checkpoint "$folder/mse" --data "$data" --json
  holds "eval takes the loss that it was trained with" \
    eval '[[ $(json "$folder/stdout" loss) == "$(json "$folder/mse/summary.json" test_loss)" ]]'
  accepts "eval: precision and recall" "^class +examples +precision +recall" \
    eval --checkpoint "$folder/a" --data "$data" --out "$folder"
  holds "eval --out writes what training wrote" \
    cmp "$folder/evaluation.json" "$folder/a/evaluation.json"
  refuses "eval --out into no folder" 2 "no folder" \
    eval --checkpoint "$folder/a" --data "$data" --out "$folder/none/e.json"
  accepts "predict test examples" "^test 9 " \
    predict --checkpoint "$folder/a" --data "$data" --index 0-9
  accepts "predict a picture" "picture\.png" \
    predict --checkpoint "$folder/a/model.safetensors" --input "$data/picture.png"
  prints_json "predict --json" predict --checkpoint "$folder/a" --data "$data" --index 3 --json
  refuses "predict beyond the test examples" 2 "63" \
    predict --checkpoint "$folder/a" --data "$data" --index 64
  refuses "predict with a wrong index" 2 "index" \
    predict --checkpoint "$folder/a" --data "$data" --index nine
  refuses "predict a picture and an example at once" 2 "either" \
    predict --checkpoint "$folder/a" --input "$data/picture.png" --index 3
  refuses "predict a missing picture" 2 "none\.png" \
    predict --checkpoint "$folder/a" --input "$folder/none.png"
  refuses "predict something else" 2 "labels" \
    predict --checkpoint "$folder/a" --input "$data/train-labels-idx1-ubyte"
  accepts "plan prints a peak" "peak +[0-9.]+ [KMG]iB" plan --data "$data" --model mlp
  accepts "plan of a large network" "peak +[0-9.]+ [KMG]iB" \
    plan --data "$data" --model resnet50 --batch-size 32
  prints_json "plan --json" plan --data "$data" --model mlp --json
  accepts "info" "^kernels" info
  prints_json "info --json" info --json
  status=0
  "$MANTISSA" info >/dev/full 2>"$folder/stderr" || status=$?
  holds "a full disk is a failure" eval '((status == 1))'
}

# The last eval saw examples of classes 2 and 3 alone, and said so.
labels_of_some_classes() {
  grep -q "matched by name" "$folder/stderr" && python3 - "$folder/stdout" <<'PYTHON'
import json, sys
rows = [sum(row) for row in json.load(open(sys.argv[1]))["confusion"]]
sys.exit([label for label, count in enumerate(rows) if count] != [2, 3])
PYTHON
}

check_pictures() {
  local pictures=$data/pictures run=$folder/of-pictures
  accepts "data describes IDX files" "kind +IDX files" data "$data"
  prints_json "data --json" data --data "$data" --json
  accepts "data describes pictures" "kind +folders of pictures" \
    data "$pictures" --contact-sheet "$folder/sheet.png"
  holds "data writes a contact sheet" eval '[[ $(head -c 4 "$folder/sheet.png" | tail -c 3) == PNG ]]'
  refuses "data of nothing" 2 "name a data set" data
  mkdir -p "$folder/nothing"
  refuses "data of an empty folder" 2 "holds no data set.*IDX.*CIFAR.*pictures" data "$folder/nothing"
  refuses "wrong input-size" 2 "input-size.*0x3" train --input-size 0x3 --out "$run"
  refuses "fewer classes than the data" 2 "has 4 classes" \
    train --data "$pictures" --classes 3 --out "$run"
  accepts "train on pictures" "test accuracy" train --model mlp --data "$pictures" --input-size 14 \
    --classes 12 --augment flip,crop,jitter,cutout --batch-size 8 --steps 9 --out "$run"
  holds "train says how pictures were split" grep -q "no test folder" "$folder/stderr"
  accepts "eval brings other data to the network's size" "test accuracy" \
    eval --checkpoint "$run" --data "$data"
  holds "eval says that the network has more classes" grep -q "10 of the network's 12" "$folder/stderr"
  mkdir -p "$folder/some"
  cp -r "$pictures/class 2" "$pictures/class 3" "$folder/some"
  prints_json "eval on data with some of the classes" \
    eval --checkpoint "$run" --data "$folder/some" --json
  holds "eval matches classes by name" labels_of_some_classes
  accepts "predict several pictures and a folder" "class 3/7\.png" \
    predict --checkpoint "$run" --input "$data/picture.png" "$pictures" --quiet
  holds "predict takes all pictures of the folder" eval '(($(wc -l <"$folder/stdout") == 42))'
  accepts "predict --csv -" "^source,label,.*,class 3,4" \
    predict --checkpoint "$run" --input "$pictures" --csv -
  mkfifo "$folder/csv_pipe"
  refuses "predict --csv over a pipe" 2 "csv: .*no regular file" \
    predict --checkpoint "$run" --input "$pictures" --csv "$folder/csv_pipe"
  refuses "data --contact-sheet over a pipe" 2 "contact-sheet: .*no regular file" \
    data "$pictures" --contact-sheet "$folder/csv_pipe"
  run predict --checkpoint "$run" --input "$pictures" --csv "$folder/all.csv" --quiet
  holds "predict --csv FILE" eval '((status == 0)) && (($(wc -l <"$folder/all.csv") == 41))'
  echo "no picture" >"$pictures/class 1/bad.png"
  refuses "train on a bad picture" 2 "class 1/bad\.png" train --data "$pictures" --out "$run-2"
  run predict --checkpoint "$run" --input "$pictures" --quiet
  holds "predict with a bad picture: reported, the others predicted, exit code 2" \
    eval '((status == 2)) && grep -q "1/bad.png" "$folder/stderr" && grep -q "1 of 41" "$folder/stderr" &&
      (($(wc -l <"$folder/stdout") == 41))'
  accepts "data lists bad pictures" "class 1/bad\.png" data "$pictures"
}

# missing_entries FILE: prints what bench's JSON lacks; fails if its times do not add up.
missing_entries() {
  python3 - "$1" <<'PYTHON'
import json, sys
bench = json.load(open(sys.argv[1]))
wanted = {"machine": "cpu isa threads", "run": "model format batch_size data parameters",
          "peaks": "integer_instructions measured", "step": "median_us p10_us p90_us overhead_us"}
print(*[f"{name}.{key}" for name, keys in wanted.items() for key in keys.split()
        if key not in bench[name]])
rows = bench["instructions"]
assert rows and all(row["median_us"] > 0 for row in rows), "rows without a time"
total = sum(row["median_us"] for row in rows)
for table in "by_op", "by_phase":
    assert abs(sum(row["median_us"] for row in bench[table]) - total) < 1e-6 * total, table
PYTHON
}

# nested_bench FILE: FILE as `bench --out` wrote it, with a model that is nested ever deeper.
nested_bench() {
  python3 - "$1" <<'PYTHON'
import json, sys
bench = json.load(open(sys.argv[1]))
bench["run"]["model"] = "here"
print(json.dumps(bench).replace('"here"', "[" * 100000 + "]" * 100000))
PYTHON
}

check_bench() {
  local bench=(bench --model mlp --batch-size 16 --threads 2 --steps 3 --warmup 1) file
  accepts "bench" "^  median +[0-9.]+ us" "${bench[@]}"
  holds "bench: every instruction has its row" \
    eval '(($(grep -cE "^(forward|grad_in|grad_w|update) " "$folder/stdout") >= 27))'
  holds "bench: at most 100 columns" eval '! grep -qE ".{101}" "$folder/stdout"'
  accepts "bench --sort time" "^grad_w +linear1" "${bench[@]}" --sort time
  accepts "bench of a data set" "^  data wait +[0-9.]+ us" "${bench[@]}" --data "$data"
  accepts "bench --isa scalar" "plain integer" "${bench[@]}" --isa scalar
  accepts "bench of larger pictures" "16x32x32x3" "${bench[@]}" --input-size 32x32x3 --classes 4
  mkdir -p "$folder/bench"
  file=$folder/bench/bench.json
  prints_json "bench --json" "${bench[@]}" --json --quiet --out "$folder/bench"
  holds "bench --out writes what --json prints" cmp -s "$folder/stdout" "$file"
  holds "bench --json has all entries" eval 'missing=$(missing_entries "$file") && [[ -z $missing ]]'
  accepts "bench --compare" "speedup [0-9.]+x" "${bench[@]}" --compare "$folder/bench"
  holds "bench --compare: at most 100 columns" eval '! grep -qE ".{101}" "$folder/stdout"'
  holds "bench --compare: the same conditions, no warning" eval '! grep -q warning "$folder/stdout"'
  accepts "bench --compare warns" "warning: batch_size differs: now 8, before 16" \
    "${bench[@]}" --compare "$file" --batch-size 8
  run "${bench[@]}" --compare "$file" --optimizer sgd --quiet
  holds "bench --quiet: a line, and warnings aside" eval '((status == 0)) &&
    (($(wc -l <"$folder/stdout") == 1)) && grep -q "warning: optimizer differs" "$folder/stderr"'
  refuses "bench --compare with nothing" 2 "none\.json" "${bench[@]}" --compare "$folder/none.json"
  nested_bench "$file" >"$folder/nested.json"
  refuses "bench --compare with values nested without end" 2 "nested\.json: .*'run'.*'model'" \
    "${bench[@]}" --compare "$folder/nested.json"
  truncate -s 200 "$file"
  refuses "bench --compare with half a file" 2 "bench\.json: is no JSON" \
    "${bench[@]}" --compare "$folder/bench"
  refuses "bench --compare with another JSON" 2 "not written by mantissa bench" \
    "${bench[@]}" --compare "$folder/a/summary.json"
  refuses "bench --out into no folder" 2 "no folder" "${bench[@]}" --out "$folder/none/bench.json"
  check_bench_targets "${bench[@]}"
  refuses "bench --sort by size" 2 "sort.*size.*time" "${bench[@]}" --sort size
  refuses "bench of a flat picture" 2 "input-size.*28x28" "${bench[@]}" --input-size 28x28
  refuses "bench of huge pictures" 2 "1 GiB" "${bench[@]}" --input-size 4096x4096x3 --batch-size 64
  refuses "bench: classes of a data set" 2 "classes" "${bench[@]}" --data "$data" --classes 5
  refuses "bench: one class" 2 "classes: '1'.*2.*256" "${bench[@]}" --classes 1
  refuses "bench: augmented noise" 2 "augment" "${bench[@]}" --augment flip
  accepts "bench --augment none" "^  median" "${bench[@]}" --augment none
}

# check_bench_targets BENCH...: where --out cannot write, or must not.
check_bench_targets() {
  ln -s target "$folder/link"
  mkfifo "$folder/pipe"
  refuses "bench --out over a link" 2 "link is no regular file" "$@" --out "$folder/link"
  refuses "bench --out over a pipe" 2 "pipe is no regular file" "$@" --out "$folder/pipe"
  holds "bench --out leaves links and pipes" eval '[[ -L $folder/link && -p $folder/pipe ]]'
  # Not even root can create a file there.
  run "$@" --out /proc/bench.json
  holds "bench --out that cannot be written: exit code 1" eval '((status == 1))'
  holds "bench --out that cannot be written: prints the report" \
    grep -qE "^  median +[0-9.]+ us" "$folder/stdout"
  holds "bench --out that cannot be written: names it last" \
    eval 'tail -1 "$folder/stderr" | grep -q "^mantissa bench: .*/proc/bench.json"'
  run "$@" --out /proc/bench.json --json --quiet
  holds "bench --out that cannot be written: prints the JSON" \
    eval '((status == 1)) && python3 -m json.tool "$folder/stdout" >/dev/null'
}

check_verify() {
  local train=(train --data "$data" --model mlp --batch-size 32 --steps 20 --hash-every 5 --quiet)
  run "${train[@]}" --threads 2 --out "$folder/v1"
  run "${train[@]}" --threads 1 --isa scalar --out "$folder/v2"
  accepts "verify: the same" "^same: .* 5 steps, the last of them 20" \
    verify "$folder/v1" "$folder/v2"
  prints_json "verify --json" verify "$folder/v1" "$folder/v2/hashes.jsonl" --json
  run "${train[@]}" --hash-every 4 --out "$folder/v3"
  accepts "verify: common steps only" "only common ones" verify "$folder/v1" "$folder/v3"
  run "${train[@]}" --seed 2 --out "$folder/v3" --overwrite
  refuses "verify: other settings are named" 2 "different runs: seed 1 / 2" \
    verify "$folder/v1" "$folder/v3"
  refuses "verify of one run" 2 "wants 2" verify "$folder/v1"
  refuses "verify of three runs" 2 "wants 2 .*not 3" verify "$folder/v1" "$folder/v2" "$folder/v3"
  refuses "verify of nothing" 2 "none" verify "$folder/v1" "$folder/none"
  refuses "verify of runs without hashes" 2 "hash-every" verify "$folder/v1" "$data"
  change_hashes "$folder/v2/hashes.jsonl"
  run verify "$folder/v1" "$folder/v2"
  holds "verify: different, exit code 1" eval '((status == 1)) && [[ ! -s $folder/stderr ]]'
  holds "verify: first differing step and tensor" \
    eval 'grep -q "first at step 10, same at step 5" "$folder/stdout" &&
      grep -q "1 of 50 tensors: linear2.weights$" "$folder/stdout"'
  flip "$folder/v1/hashes.jsonl" 0.5
  refuses "verify of a changed file" 2 "v1/hashes\.jsonl, line [0-9]" verify "$folder/v1" "$folder/v2"
}

# events FOLDER: steps and losses of the event files in it, by the framing and protobuf's rules.
events() {
  python3 - "$1" <<'PYTHON'
import glob, struct, sys

def fields(data):
    at = 0
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]; at += 1
            value |= (byte & 127) << shift; shift += 7
            if byte < 128: return value
    while at < len(data):
        key = varint()
        if key & 7 == 0: yield key >> 3, varint(); continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, data[at:at + size]; at += size

for path in sorted(glob.glob(sys.argv[1] + "/**/*tfevents*", recursive=True)):
    data, at = open(path, "rb").read(), 0
    while at < len(data):
        size, = struct.unpack_from("<Q", data, at)
        event = dict(fields(data[at + 12:at + 12 + size])); at += 16 + size
        for _, value in fields(event.get(5, b"")):
            value = dict(fields(value))
            if value[1] == b"train/loss":
                print(event[2], "%.5f" % struct.unpack("<f", value[2]))
PYTHON
}

losses() { python3 -c 'import json, sys
for line in open(sys.argv[1]): row = json.loads(line); print(row["step"], "%.5f" % row["loss"])' "$1"; }

check_tensorboard() {
  local train=(train --data "$data" --model mlp --batch-size 32 --quiet --tensorboard "$folder/tb")
  run "${train[@]}" --steps 120 --out "$folder/t1"
  holds "--tensorboard: what metrics.jsonl says" \
    eval '((status == 0)) && diff <(events "$folder/tb") <(losses "$folder/t1/metrics.jsonl")'
  rm "$folder/t1/summary.json"
  run "${train[@]}" --steps 120 --out "$folder/t1" --resume
  rm "$folder/t1/checkpoint-00000120.safetensors" "$folder/t1/summary.json"
  run "${train[@]}" --steps 120 --out "$folder/t1" --resume
  holds "--tensorboard: the same after --resume" \
    eval '((status == 0)) && diff <(events "$folder/tb") <(losses "$folder/t1/metrics.jsonl")'
  accepts "report --tensorboard" "^written" \
    report "$folder/t1" --tensorboard "$folder/tb2" --out "$folder/r.html"
  holds "report --tensorboard: the same" diff <(events "$folder/tb") <(events "$folder/tb2/t1")
  refuses "--tensorboard into a file" 2 "tensorboard.*folder" "${train[@]}" --steps 1 \
    --out "$folder/t2" --tensorboard "$data/picture.png"
}

check_info() {
  run train --data "$data" --model mlp --batch-size 32 --steps 10 --quiet --out "$folder/i1"
  accepts "info of a run" "^run .*i1" info "$folder/i1"
  accepts "info of a run: results" "test_accuracy +[0-9.]+" info "$folder/i1"
  accepts "info of a checkpoint" "^checkpoint " info "$folder/i1/checkpoint-00000010.safetensors"
  accepts "info of a frozen network: tensors" "^linear1.weights +I8 +\[200,784\] +156800 +-[0-9]+ +7" \
    info "$folder/i1/model.safetensors" --tensors
  prints_json "info of a run as JSON" info "$folder/i1" --json
  holds "info of a run: its identity" eval '[[ $(json "$folder/stdout" summary) == \
    *"$(json "$folder/i1/summary.json" run_identity)"* ]]'
  prints_json "info of a checkpoint as JSON" info "$folder/i1/checkpoint-00000010.safetensors" --json
  holds "info of a checkpoint: its step" \
    eval '[[ $(json "$folder/stdout" metadata) == *"'"'step': '10'"'"* ]]'
  refuses "info of no run" 2 "nothing of a run" info "$data"
  refuses "info of something else" 2 "picture\.png" info "$data/picture.png"
  refuses "info of nothing" 2 "none" info "$folder/none"
  flip "$folder/i1/model.safetensors" 0.5
  refuses "info of a damaged file" 2 "model\.safetensors" info "$folder/i1/model.safetensors"
}

# completes WORDS...: what bash offers for the last word, one a line.
completes() {
  bash -c 'source "$1"; COMP_WORDS=(mantissa "${@:2}"); COMP_CWORD=$(($# - 1))
    _mantissa 2>/dev/null; printf "%s\n" "${COMPREPLY[@]}"' _ "$folder/completion" "$@"
}

check_completion() {
  accepts "completion bash" "^complete .*mantissa$" completion bash
  cp "$folder/stdout" "$folder/completion"
  holds "completion: commands" eval '[[ $(completes tr) == train ]]'
  holds "completion: options" eval '[[ $(completes train --batch | tr "\n" " ") == "--batch-size " ]]'
  holds "completion: models" eval '[[ $(completes train --model resnet2) == resnet20 ]]'
  holds "completion: models after an equals sign" \
    eval '[[ $(completes train --model = lene) == lenet5 ]]'
  holds "completion: enumerations" eval '[[ $(completes train --optimizer m) == momentum ]]'
  holds "completion: no file for a number" eval '[[ -z $(completes train --epochs "") ]]'
  holds "completion: options of their own command" eval '[[ -z $(completes eval --epo) ]]'
  holds "completion: shells" eval '[[ $(completes completion f) == fish ]]'
  local option
  run train --help
  for option in $(grep -oE "^ +(-h,)?--[a-z0-9-]+" "$folder/stdout" | grep -oE -- "--.*"); do
    completes train "$option" | grep -qx -- "$option" ||
      bad "completion: every option of train" "$option is missing"
  done
  accepts "completion zsh" "^#compdef mantissa" completion zsh
  accepts "completion fish" "^complete -c mantissa .*-l model -x -a .*resnet20" completion fish
  refuses "completion of another shell" 2 "bash, zsh or fish" completion tcsh
}

check_statistics() {
  local train=(train --data "$data" --model mlp --batch-size 32 --quiet)
  run "${train[@]}" --steps 60 --statistics --out "$folder/st1"
  accepts "statistics" "^linear1 +7 " statistics "$folder/st1"
  holds "statistics: no line is longer than 80 columns" \
    eval '! LC_ALL=C.UTF-8 grep -qE "^.{81}" "$folder/stdout"'
  accepts "statistics --kind" "^Gradients of values" statistics "$folder/st1" --kind gradient
  holds "statistics --kind shows no other" eval '! grep -q "^Parameters" "$folder/stdout"'
  prints_json "statistics --json" statistics "$folder/st1" --json
  holds "statistics --json: counts of all mantissas" \
    python3 -c 'import json, sys
tensors = json.load(open(sys.argv[1]))["tensors"]
counted = sum(sum(t["bit_counts"]) for t in tensors if t["kind"] == "parameter")
assert counted == json.load(open(sys.argv[2]))["parameters"]' \
    "$folder/stdout" "$folder/st1/summary.json"
  run "${train[@]}" --steps 60 --out "$folder/st2"
  holds "--statistics changes no weight" same_entry state_sha256 "$folder/st1" "$folder/st2"
  accepts "statistics without histograms" "Train with --statistics" statistics "$folder/st2"
  refuses "statistics of an unknown kind" 2 "choose value, gradient" \
    statistics "$folder/st1" --kind weights
  accepts "statistics --quiet" "steps observed, up to 60; .* worth a look$" \
    statistics "$folder/st1" --quiet
  echo "{]" >>"$folder/st2/tensors.jsonl"
  run statistics "$folder/st2"
  holds "statistics of a damaged run: warns" \
    eval '((status == 0)) && grep -q "warning: tensors.jsonl, line 4" "$folder/stderr"'
  refuses "--statistics in fp32" 2 "no mantissas" "${train[@]}" --steps 1 --format fp32 \
    --statistics --out "$folder/st3"
  refuses "statistics of nothing" 2 "wants 1" statistics
  refuses "statistics of no run" 2 "nothing of a run" statistics "$data"
}

check_report() {
  accepts "report" "^written to .*r.html" report "$folder/v1" "$folder/v2" --out "$folder/r.html"
  prints_json "report --json" report "$folder/v1" --out "$folder/r.html" --json
  refuses "report of nothing" 2 "at least 1|wants" report
  refuses "report of no run" 2 "nothing of a run" report "$data" --out "$folder/r.html"
  refuses "report into no folder" 2 "no folder" report "$folder/v1" --out "$folder/none/r.html"
  local seven=("$folder"/v{1,1,1,1,1,1,1})
  refuses "report of seven runs" 2 "at most 6" report "${seven[@]}" --out "$folder/r.html"
}

# change_hashes FILE: another digest of linear2.weights from step 10 on, in a chain that holds.
change_hashes() {
  python3 - "$1" <<'PYTHON'
import hashlib, json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
chain = ""
with open(sys.argv[1], "w") as file:
    for line in lines:
        if line["step"] >= 10:
            line["digests"][lines[0]["tensors"].index("linear2.weights")] = "0123456789abcdef"
        del line["chain"]
        text = json.dumps(line, separators=(",", ":"))
        chain = line["chain"] = hashlib.sha256((chain + text).encode()).hexdigest()
        file.write(json.dumps(line, separators=(",", ":")) + "\n")
PYTHON
}

# Each place of a file counts: header, data, end.
check_damage() {
  local place newest
  for place in 0 0.01 0.3 0.7 1; do
    cp -r "$folder/b" "$folder/damaged"
    flip "$folder/damaged/model.safetensors" $place
    refuses "flipped bit in model.safetensors at $place" 2 "model\.safetensors" \
      eval --checkpoint "$folder/damaged" --data "$data"
    # Not finished, so that --resume reads the checkpoint.
    rm "$folder/damaged/summary.json"
    newest=$(printf '%s\n' "$folder"/damaged/checkpoint-*.safetensors | tail -1)
    flip "$newest" $place
    refuses "flipped bit in a checkpoint at $place" 2 "checkpoint-[0-9]+\.safetensors" train --data \
      "$data" --model mlp --batch-size 32 --epochs 1 --out "$folder/damaged" --resume --quiet
    rm -r "$folder/damaged"
  done
  cp -r "$folder/b" "$folder/damaged"
  truncate -s 100 "$folder/damaged/model.safetensors"
  refuses "truncated model.safetensors" 2 "model\.safetensors" \
    eval --checkpoint "$folder/damaged" --data "$data"
}

# interrupt SIGNAL PATTERN ARGUMENTS...: starts it, signals it when standard error matches PATTERN.
interrupt() {
  status=0
  # Or what the run before wrote matches.
  : >"$folder/stderr"
  timeout --kill-after=5 60 "$MANTISSA" "${@:3}" >"$folder/stdout" 2>"$folder/stderr" &
  local waits=0
  # `timeout` passes the signal on.
  until grep -q "$2" "$folder/stderr" || ((++waits > 100)); do sleep 0.1; done
  kill "-$1" $!
  wait $! || status=$?
}

# interrupt_on_terminal ARGUMENTS...: starts it on a terminal and presses Ctrl-C when a bar is drawn.
# Leaves $status, and in $folder/stdout the lines that remain to be seen.
interrupt_on_terminal() {
  status=0
  TERM=xterm timeout --kill-after=5 60 python3 - "$MANTISSA" "$@" \
    >"$folder/stdout" 2>"$folder/stderr" <<'PYTHON' || status=$?
import os, pty, re, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
written, asked = b"", False
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    written += part
    if not asked and b"%" in written:
        asked = True
        os.write(terminal, b"\x03")
for line in written.decode(errors="replace").split("\n"):
    print(re.sub("\033\\[[0-9;]*[A-Za-z]", "", line.rstrip("\r").split("\r")[-1]))
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(code if code >= 0 else 128 - code)
PYTHON
}

check_bench_interruption() {
  local bench=(bench --model mlp --batch-size 512 --threads 1 --steps 10000) signal
  mkdir -p "$folder/stopped"
  for signal in INT TERM; do
    interrupt "$signal" "^step" "${bench[@]}" --out "$folder/stopped"
    holds "bench, SIG$signal: exit code 130" eval '((status == 130))'
    holds "bench, SIG$signal: says that it was interrupted" \
      grep -q "^mantissa bench: interrupted" "$folder/stderr"
    holds "bench, SIG$signal: no result, no file" \
      eval '[[ ! -s $folder/stdout && -z $(ls -A "$folder/stopped") ]]'
  done
  interrupt_on_terminal "${bench[@]}"
  holds "bench, Ctrl-C on a terminal: exit code 130" eval '((status == 130))'
  holds "bench, Ctrl-C on a terminal: leaves no bar" \
    eval '! grep -q "%" "$folder/stdout" && grep -q "^mantissa bench: inter" "$folder/stdout"'
}

check_interruption() {
  local signal more=()
  for signal in INT TERM; do
    interrupt "$signal" "^saved" train --data "$data" --model mlp --batch-size 32 \
      --epochs 1000000 --checkpoint-every 100 --out "$folder/endless" "${more[@]}"
    holds "SIG$signal: exit code 130" eval '((status == 130))'
    holds "SIG$signal: says that it stops" grep -q "stopping after this step" "$folder/stderr"
    holds "SIG$signal: says how to resume" grep -q "train --data .* --resume$" "$folder/stderr"
    more=(--resume)
  done
  holds "the second run resumed the first" grep -qE "resuming at step [0-9]+" "$folder/stderr"
}

data=$folder/data
make_data "$data"
check_usage
check_settings
check_data
check_training
check_optimizers
check_inversion
check_memory
check_profile
check_pretraining
check_wide_formats
check_validation
check_inference
check_pictures
check_bench
check_verify
check_report
check_statistics
check_tensorboard
check_info
check_completion
check_damage
check_interruption
check_bench_interruption

echo "$passed passed, $failed failed"
((failed == 0))
