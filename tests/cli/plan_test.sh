#!/usr/bin/env bash
# `plan` and `profile`; training under a memory budget.
# shellcheck disable=SC2016,SC2013
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

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
  accepts "plan --explain of a large gradient" "linear1.weights \(gradient\) .* computed by rows" \
    plan --data "$data" --model vgg16_bn --batch-size 8 --input-size 96 --explain
  prints_json "plan --explain as JSON" plan "${network[@]}" --explain --json
  accepts "plan with instructions that compute again" "convolution +forward .* again " \
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
  # The first values, up to the first batch norm, lie on the chip, what follows in slow memory.
  printf '%s\n' "on_chip_bytes = 1200000" "on_chip_bytes_per_ns = 200" "memory_bytes_per_ns = 2" \
    "near_cache_bytes = 1" "far_cache_bytes = 2" "norm_elements_per_ns = 20" >"$folder/chip.toml"
  accepts "the literal rule where values lie apart" \
    "stem_relu .* computed again +loading its input and computing it is faster" \
    plan "${network[@]}" --recompute literal --profile "$folder/chip.toml" --explain
  accepts "the literal rule by batch norm's output" \
    "stem_relu .* computed again +loading its input and computing it is faster" \
    plan "${network[@]}" --allow-inversion --recompute literal --profile "$folder/chip.toml" --explain
  # Trained so, it has the state of the run that stores all.
  local literal=(--profile "$folder/chip.toml" --steps 2) way
  for way in none literal; do
    accepts "training with --recompute $way" "test accuracy" train "${network[@]}" \
      "${literal[@]}" --recompute "$way" --out "$folder/literal-$way"
  done
  holds "the literal rule: the same state" \
    same_entry state_sha256 "$folder/literal-none" "$folder/literal-literal"
  accepts "the literal rule in caches" "stem_relu .* kept +loading it is faster" \
    plan "${network[@]}" --recompute literal --profile builtin --explain
  echo "elements_per_ns = -1" >"$XDG_CACHE_HOME/mantissa/profile.toml"
  refuses "a kept profile that cannot be" 2 "mantissa/profile.toml: elements_per_ns: '-1'" \
    plan "${network[@]}"
  accepts "plan with the built-in profile" "arena" plan "${network[@]}" --profile builtin
  rm "$XDG_CACHE_HOME/mantissa/profile.toml"
  refuses "no such profile" 2 "none.toml" plan "${network[@]}" --profile none.toml
  refuses "profile to nowhere" 2 "no/such" profile --out no/such/folder/profile.toml
}

# Arenas with inverted batch norm, as docs/memory.md has them: at most so many percent.
check_inversion() {
  local model most plain inverted
  arena_of() { "$MANTISSA" plan --threads 2 --json "$@" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["arena_bytes"])'; }
  while read -r model most; do
    plain=$(arena_of --model "$model")
    inverted=$(arena_of --model "$model" --allow-inversion)
    holds "inverted batch norm: the arena of $model" \
      eval '((plain > 0 && inverted * 100 <= plain * most))'
  done <<<$'mobilenet_v2 73\ninception_small 90'
}

# A budget that cannot be met is refused before a picture is read, so that a damaged one is no matter.
check_order() {
  local damaged=$folder/damaged
  cp -r "$data" "$damaged"
  gzip -f "$damaged/train-images-idx3-ubyte"
  flip "$damaged/train-images-idx3-ubyte.gz" 0.5
  refuses "a damaged picture" 2 "train-images-idx3-ubyte.gz" train --data "$damaged" --model mlp \
    --steps 1 --out "$folder/refused"
  refuses "a budget before a damaged picture" 3 "needs .*MiB" train --data "$damaged" --model mlp \
    --steps 1 --memory-budget 1MiB --out "$folder/refused"
}

check_memory
check_profile
check_inversion
check_order
finish
