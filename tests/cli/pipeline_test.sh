#!/usr/bin/env bash
# Pipelines: the same bits where they are promised, resumed runs, plans, simulations, refusals.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

settings=(--data "$data" --model resnet8 --width 0.5 --steps 12 --batch-size 16 --accumulate 4)

# field NAME RUN
field() {
  python3 -c 'import json, sys; print(json.load(open(sys.argv[2] + "/summary.json"))[sys.argv[1]])' \
    "$1" "$2"
}
same_weights() { [[ $(field weights_sha256 "$1") == "$(field weights_sha256 "$2")" ]]; }

accepts "one stage" "test accuracy" train "${settings[@]}" --out "$folder/one"
for stages in 2 3; do
  accepts "flush in $stages stages" "test accuracy" train "${settings[@]}" --stages $stages \
    --out "$folder/flush$stages"
  holds "the same weights in $stages stages" same_weights "$folder/flush$stages" "$folder/one"
done
holds "the summary has the stages" test "$(field stages "$folder/flush2") $(field pipeline \
  "$folder/flush2")" = "2 flush"

for mode in async stash 2bw; do
  way=("${settings[@]}" --stages 3 --pipeline "$mode" --drain-every 4)
  accepts "$mode" "test accuracy" train "${way[@]}" --out "$folder/$mode"
  accepts "$mode again, other threads" "test accuracy" train "${way[@]}" --threads 6 \
    --isa scalar --out "$folder/$mode-again"
  holds "$mode: the same weights again" same_weights "$folder/$mode" "$folder/$mode-again"
done
holds "async has other weights than flush" \
  test "$(field weights_sha256 "$folder/async")" != "$(field weights_sha256 "$folder/one")"

for mode in async stash 2bw; do
  way=("${settings[@]}" --stages 3 --pipeline "$mode" --drain-every 6 --predict-weights)
  accepts "$mode, predicted weights" "test accuracy" train "${way[@]}" --out "$folder/$mode-ahead"
  accepts "$mode again, predicted weights" "test accuracy" train "${way[@]}" --threads 6 \
    --isa scalar --checkpoint-every 6 --out "$folder/$mode-ahead-again"
  holds "$mode: the same weights again, predicted" same_weights "$folder/$mode-ahead" \
    "$folder/$mode-ahead-again"
done
cp -r "$folder/2bw-ahead-again" "$folder/ahead-gone-on"
rm "$folder"/ahead-gone-on/{summary.json,model.safetensors,evaluation.json}
rm -r "$folder"/ahead-gone-on/checkpoint-00000012*
accepts "prediction goes on from a drain" "test accuracy" train --resume \
  --out "$folder/ahead-gone-on"
holds "with the same weights" same_weights "$folder/ahead-gone-on" "$folder/2bw-ahead"
refuses "prediction is another run" 2 "predict-weights none, now true" train "${settings[@]}" \
  --stages 3 --pipeline 2bw --drain-every 4 --predict-weights --resume --out "$folder/2bw"
refuses "prediction without missed updates" 2 "no micro-batch misses an update" train \
  "${settings[@]}" --stages 3 --predict-weights --out "$folder/no"
refuses "prediction without a velocity" 2 "sgd keeps nothing to predict weights from" train \
  "${settings[@]}" --stages 3 --pipeline async --optimizer sgd --predict-weights --out "$folder/no"
accepts "rates of stages rise" "test accuracy" train "${settings[@]}" --stages 4 \
  --pipeline async --windows full --stage-warmup 8 --out "$folder/warm"
refuses "no rates of stages in a flush" 2 "or --warmup for all layers alike" train \
  "${settings[@]}" --stages 3 --stage-warmup 8 --out "$folder/no"

# The newest checkpoint is taken away: the run goes on from a drain before.
cp -r "$folder/async" "$folder/resumed"
accepts "async with a checkpoint at each drain" "test accuracy" train "${settings[@]}" --stages 3 \
  --pipeline async --drain-every 4 --checkpoint-every 4 --out "$folder/checkpoints"
cp -r "$folder/checkpoints" "$folder/gone-on"
rm "$folder"/gone-on/{summary.json,model.safetensors,evaluation.json}
rm -r "$folder"/gone-on/checkpoint-00000012*
accepts "and goes on from one" "test accuracy" train --resume --out "$folder/gone-on"
holds "from the last drain" grep -q "resuming at step 8" "$folder/stderr"
holds "with the same weights" same_weights "$folder/gone-on" "$folder/checkpoints"
holds "as without checkpoints" same_weights "$folder/checkpoints" "$folder/async"
refuses "another number of stages is another run" 2 "pipeline async, 3 stages" train \
  "${settings[@]}" --stages 2 --pipeline async --drain-every 4 --resume --out "$folder/resumed"

# Programs of one stage run beside the stages: with all threads. fp32 has the same bits with the same
# number of them.
accepts "pretraining, averaged statistics and more threads than stages" "test accuracy" train \
  "${settings[@]}" --stages 2 --threads 5 --format dfp:pretraining=float --reestimate 2 \
  --out "$folder/beside"
accepts "the same in one stage" "test accuracy" train "${settings[@]}" --threads 5 \
  --format dfp:pretraining=float --reestimate 2 --out "$folder/beside-one"
holds "the same weights" same_weights "$folder/beside" "$folder/beside-one"

accepts "plan of a pipeline" "stage 1 .*misses up to 1 updates" plan "${settings[@]}" --stages 3 \
  --pipeline async
accepts "its diagram" "^P3 \\. +\\. +M1 +B1" plan "${settings[@]}" --stages 3 --pipeline async \
  --diagram --svg "$folder/pipeline.svg"
holds "its picture" python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' \
  "$folder/pipeline.svg"
prints_json "plan as JSON" plan "${settings[@]}" --stages 3 --json
accepts "simulate" "idle once filled +0" simulate --stages 14 --accumulate 56
prints_json "simulate as JSON" simulate --stages 14 --accumulate 56 --json

# Kernels may need more memory on the threads of a stage than on all of them.
narrow=(--data "$data" --model mobilenet_v2 --width 0.125 --steps 2 --batch-size 8 --accumulate 4)
accepts "other kernels on two threads" "test accuracy" train "${narrow[@]}" --threads 2 \
  --out "$folder/narrow"
accepts "on two stages of a thread" "test accuracy" train "${narrow[@]}" --threads 2 --stages 2 \
  --recompute all --out "$folder/narrow2"
holds "the same weights of other kernels" same_weights "$folder/narrow" "$folder/narrow2"

# What stages compute again has the same bits; the memory is as planned, and within the budget.
computed_again() {
  "$MANTISSA" plan "$@" --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["planned_peak_bytes"])'
}
near_the_plan() {
  python3 - "$1/summary.json" <<'PYTHON'
import json, sys
run = json.load(open(sys.argv[1]))
planned, measured = run["planned_peak_bytes"], run["peak_rss_bytes"]
sys.exit(abs(planned - measured) > max(0.05 * planned, 8 * 2**20))
PYTHON
}
for way in "flush --flush-form 1f1b" "async --drain-every 4"; do
  read -ra words <<<"--stages 3 --pipeline $way"
  mode=${words[3]}
  most=$(computed_again "${settings[@]}" "${words[@]}" --recompute none)
  least=$(computed_again "${settings[@]}" "${words[@]}" --recompute all)
  budget=$(((most + least) / 2))
  holds "$mode: computing again takes less" test "$least" -lt "$most"
  accepts "$mode computes all again" "test accuracy" train "${settings[@]}" "${words[@]}" \
    --recompute all --out "$folder/all-$mode"
  holds "$mode: as planned" near_the_plan "$folder/all-$mode"
  accepts "$mode under a budget" "test accuracy" train "${settings[@]}" "${words[@]}" \
    --memory-budget "${budget}B" --out "$folder/budget-$mode"
  holds "$mode: the plan is within the budget" \
    test "$(field planned_peak_bytes "$folder/budget-$mode")" -le "$budget"
  holds "$mode: the same weights" same_weights "$folder/budget-$mode" "$folder/all-$mode"
done
holds "flush: those of one stage" same_weights "$folder/all-flush" "$folder/one"
holds "async: those of keeping everything" same_weights "$folder/all-async" "$folder/async"
refuses "a budget below the least" 3 "over the budget .*--flush-form 1f1b" plan "${settings[@]}" \
  --stages 3 --memory-budget 2MiB
accepts "a limit for each stage" "computed again|kept" plan "${settings[@]}" --stages 3 \
  --pipeline async --stage-memory 3MiB --explain
refuses "a limit below the least" 3 "stage [1-3] needs .* over the stage-memory of 64.0 KiB" plan \
  "${settings[@]}" --stages 3 --pipeline async --stage-memory 64KiB
refuses "a limit that keeping everything exceeds" 3 "stage-memory|alone needs|no division" plan \
  "${settings[@]}" --stages 3 --recompute none --stage-memory 64KiB
refuses "a limit for the stages of none" 2 "is for --stages 2 and more" plan "${settings[@]}" \
  --stage-memory 3MiB
refuses "a proof for several stages" 2 "is for one stage" plan "${settings[@]}" --stages 2 \
  --plan exact

# Fourteen equal blocks on fourteen stages.
"$(dirname "${BASH_SOURCE[0]}")/../../examples/networks/stack" 14 >"$folder/stack14.json"
stack=(--data "$data" --model "$folder/stack14.json" --steps 3 --batch-size 28 --accumulate 14)
accepts "a stack in one stage" "test accuracy" train "${stack[@]}" --out "$folder/stack"
accepts "and in fourteen" "test accuracy" train "${stack[@]}" --stages 14 --partition operations \
  --out "$folder/stack14"
holds "the same weights in fourteen" same_weights "$folder/stack14" "$folder/stack"
accepts "a block for each stage" "stage 7 +block7.convolution to block7: " plan "${stack[@]}" \
  --stages 14 --partition operations
accepts "its diagram" "^P14 " plan "${stack[@]}" --stages 14 --partition operations --diagram

refuses "too many stages" 2 "has 1 to [0-9]+ stages, not 500" train "${settings[@]}" --stages 500 \
  --out "$folder/no"
refuses "2bw with too few micro-batches" 2 "an update needs at least 5 micro-batches, not 4" train \
  "${settings[@]}" --stages 6 --pipeline 2bw --out "$folder/no"
refuses "a common norm" 2 "no stage of a pipeline knows" train "${settings[@]}" --stages 2 \
  --clip-norm 1 --out "$folder/no"
refuses "times that decide results" 2 "must not depend on a machine" train "${settings[@]}" \
  --stages 2 --pipeline async --partition time --out "$folder/no"
refuses "accumulate and micro-batch-size that disagree" 2 "do not make batch-size 16" train \
  "${settings[@]}" --micro-batch-size 8 --out "$folder/no"
refuses "an unknown mode" 2 "is not flush, async, stash or 2bw" train "${settings[@]}" --stages 2 \
  --pipeline sometimes --out "$folder/no"
refuses "a time without a unit" 2 "is not a time such as" simulate --hop 4

finish
