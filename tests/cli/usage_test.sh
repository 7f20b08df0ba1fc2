#!/usr/bin/env bash
# Commands, options, settings and data sets that are refused, and what helps to find the right ones.
# shellcheck disable=SC2016,SC2013
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# fits_in WIDTH: no line of standard output is longer.
fits_in() {
  awk -v width="$1" 'length($0) > width { exit 1 }' "$folder/stdout"
}

check_usage() {
  refuses "no such command" 2 "did you mean train" trian
  refuses "no such command lists them" 2 "train, eval, predict, generate, chat, fill-mask, translate, embed, export, data, import, plan, launch, simulate, quantize, serve, bench, profile, verify, report, statistics, info, run, completion" fly
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
  local width
  for width in 60 80 100; do
    COLUMNS=$width run --help
    holds "--help in $width columns" fits_in "$width"
  done
  local command option
  for command in train eval predict data plan simulate bench verify report statistics info completion; do
    accepts "$command --help" "^Examples:" "$command" --help
    holds "$command --help in 80 columns" fits_in 80
    # Each option in an example must be one of the command's. Examples may go on in a line of theirs.
    for option in $(sed -n '/^Examples:/,/^$/p' "$folder/stdout" | sed ':a;/\\$/{N;ba}' |
      grep -E "^ +mantissa $command" | grep -oE -- '--[a-z-]+' | sort -u); do
      holds "$command --help: $option of an example exists" \
        grep -qE "^ +(-h,)?$option( |$)" "$folder/stdout"
    done
  done
  run train --help
  holds "names and what they mean stand apart" eval '! grep -E "^  [a-z0-9_]+[A-Z]" "$folder/stdout" &&
    grep -qE "^  mobilenet_v2 +inverted" "$folder/stdout"'
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
  refuses "epochs -1" 2 "epochs.*'-1'" "${train[@]}" --epochs -1
  refuses "format bfp:w=1" 2 "w=1.*2, 3.*8" "${train[@]}" --format bfp:w=1
  refuses "no such format" 2 "int3" "${train[@]}" --format int3
  refuses "no such loss" 2 "hinge.*cross-entropy, mse, sigmoid" "${train[@]}" --loss hinge
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

# damaged NAME COMMAND...: a copy of the data, changed by COMMAND in its folder; prints its path.
damaged() {
  local copy=$folder/$1
  cp -r "$data" "$copy"
  (cd "$copy" && "${@:2}") >&2
  echo "$copy"
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

# Which kernels convolve which shapes. The scalar ones are there on every CPU.
check_kernels() {
  accepts "info names the kernels of convolutions" "^  3x3 in 4 groups +convolution_reference$" \
    info --isa scalar
  prints_json "info --json has the reasons" info --isa scalar --json
  holds "info --json says why rows are passed over" python3 -c 'import json, sys
declined = json.load(open(sys.argv[1]))["convolutions"]["3x3 in 4 groups"]["declined"]
assert declined["convolution_dilated"] == "takes only dilation", declined
assert "reference" in declined["convolution_grouped"], declined' "$folder/stdout"
}

# completes WORDS...: what bash offers for the last word, one a line.
completes() {
  bash -c 'source "$1"; COMP_WORDS=(mantissa "${@:2}"); COMP_CWORD=$(($# - 1))
    _mantissa 2>/dev/null; printf "%s\n" "${COMPREPLY[@]}"' _ "$folder/completion" "$@"
}

check_completion() {
  accepts "completion bash" "^complete .*mantissa$" completion bash
  cp "$folder/stdout" "$folder/completion"
  holds "completion: commands" eval '[[ $(completes tra | tr "\n" " ") == "train translate " ]]'
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
    # (Whoever is still writing when grep has found it must not look like a failure.)
    grep -qx -- "$option" <(completes train "$option") ||
      bad "completion: every option of train" "$option is missing"
  done
  accepts "completion zsh" "^#compdef mantissa" completion zsh
  accepts "completion fish" "^complete -c mantissa .*-l optimizer -x -a .*nesterov" completion fish
  holds "it offers networks and files" grep -q -- "-l model -r -F -a .*resnet20" "$folder/stdout"
  refuses "completion of another shell" 2 "bash, zsh or fish" completion tcsh
}

check_usage
check_settings
check_data
check_kernels
check_completion
finish
