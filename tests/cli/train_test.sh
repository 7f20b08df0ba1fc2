#!/usr/bin/env bash
# `train`: settings, results, `--resume`, formats and validation.
# shellcheck disable=SC2016,SC2013
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

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
  accepts "plan of clipping" "gradient_norm +forward +all" plan --data "$data" --model mlp --clip-norm 1
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
  network=(--data "$data" --model resnet8 --batch-size 64 --threads 2)
  train=(train "${network[@]}" --steps 2 --hash-every 1 --allow-inversion)
  accepts "inversion behind ReLU" "test accuracy" "${train[@]}" --recompute none \
    --out "$folder/relu"
  accepts "inversion behind ReLU, the least memory" "test accuracy" "${train[@]}" --recompute all \
    --out "$folder/relu-least"
  holds "inversion behind ReLU: the same state under another plan" \
    same_entry state_sha256 "$folder/relu" "$folder/relu-least"
  holds "inversion behind ReLU: the same clipping" \
    same_entry saturation_rate "$folder/relu" "$folder/relu-least"
  accepts "plan of inversion behind ReLU" "= norm_relu" plan "${network[@]}" --allow-inversion
  accepts "activations are computed again from batch norm's output" "norm_relu +forward .* again" \
    plan "${network[@]}" --allow-inversion --recompute all
  refuses "inversion of nothing" 2 "lenet5: inversion=yes changes nothing" \
    train --data "$data" --model lenet5 --allow-inversion --out "$folder/refused"
  refuses "inversion in fp32" 2 "integer formats" \
    "${train[@]}" --format fp32 --allow-inversion --out "$folder/refused"
  refuses "inversion after floats" 2 "leave one of them out" \
    "${train[@]}" --format dfp:pretraining=float --allow-inversion --out "$folder/refused"
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
  accepts "train with bfp8-text" "test accuracy" "${train[@]}" --model lenet5 \
    --format bfp8-text --out "$folder/text"
  holds "bfp8-text resumes" go_on_from_the_checkpoint_before "$folder/text"
  accepts "info: updates of 32 bits" "^conv1.weights.velocity +I32 " \
    info "$folder/text/checkpoint-00000004.safetensors" --tensors
  accepts "eval of bfp8-text" "test accuracy" eval --checkpoint "$folder/text" --data "$data"
  refuses "a width of updates that is not built" 2 "choose u from 16, 32" \
    "${train[@]}" --format bfp:u=8 --out "$folder/refused"
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
  # Learnt by heart, the training loss goes up and down at last.
  local by_heart=("${train[@]}" --epochs 200 --early-stop 2 --learning-rate 0.05)
  accepts "early stopping on the training loss" "test accuracy" "${by_heart[@]}" --out "$folder/heart"
  holds "it says that it stopped" grep -q "stopped early at step .*; keeping" "$folder/stderr"
  holds "it stopped two epochs of eight steps after the best" eval \
    '(($(json "$folder/heart/summary.json" steps) == $(json "$folder/heart/summary.json" best_step) + 16))'
  holds "the best training loss is a small one" eval \
    '[[ $(json "$folder/heart/summary.json" best_training_loss) == 0.0* ]]'
  holds "stopping on the training loss resumes" go_on_from_the_checkpoint_before "$folder/heart"
  accepts "early-stop in less than an epoch" "test accuracy" \
    "${train[@]}" --steps 5 --early-stop 1 --out "$folder/short"
  holds "its weights are kept" grep -q "keeping the weights of step 5" "$folder/stderr"
}

# weighted NAME OPTION...: trains with class weights, and leaves weights_sha256 in $weights.
weighted() {
  accepts "class weights: $1" "test accuracy" train --data "$data" --model mlp --batch-size 32 \
    --epochs 2 --learning-rate 0.01 --quiet --out "$folder/weighted-$1" "${@:2}"
  weights=$(json "$folder/weighted-$1/summary.json" weights_sha256)
}

check_class_weights() {
  local classes plain first
  classes=$(json "$folder/validated/evaluation.json" class_names | tr -cd , | wc -c)
  weighted none --threads 2
  plain=$weights
  weighted even --class-weights "4$(printf ',4%.0s' $(seq "$classes"))"
  holds "weights that are alike change nothing" [ "$weights" = "$plain" ]
  first=8$(printf ',0.5%.0s' $(seq "$classes"))
  weighted first --class-weights "$first"
  holds "others do" [ "$weights" != "$plain" ]
  plain=$weights
  weighted parts --class-weights "$first" --micro-batch-size 16 --threads 2
  first_parts=$weights
  weighted stages --class-weights "$first" --micro-batch-size 16 --stages 2 --threads 2
  holds "two stages have the bits of one" [ "$weights" = "$first_parts" ]
  weighted balanced --class-weights balanced
  holds "class weights resume" go_on_from_the_checkpoint_before "$folder/weighted-first"
  accepts "eval counts examples alike" "test accuracy" eval --checkpoint "$folder/weighted-first"
  refuses "a weight too few" 2 "class-weights: there are 1 weights and" train --data "$data" \
    --model mlp --class-weights 2 --out "$folder/refused"
  refuses "class weights of words" 2 "class-weights: 'heavy' is neither none nor balanced" \
    train --data "$data" --model mlp --class-weights heavy --out "$folder/refused"
}

check_training
check_optimizers
check_inversion
check_pretraining
check_wide_formats
check_validation
check_class_weights
finish
