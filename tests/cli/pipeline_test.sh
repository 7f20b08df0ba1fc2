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
hashed() { grep -o '"step":[0-9]*' "$1/hashes.jsonl" | cut -d: -f2 | xargs; }
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
accepts "hashes that are rarer than drains" "test accuracy" train "${settings[@]}" --stages 3 \
  --pipeline async --drain-every 4 --checkpoint-every 8 --hash-every 5 --out "$folder/hashed"
holds "one behind each multiple of 5" test "$(hashed "$folder/hashed")" = "0 8 12"
holds "it goes on" go_on_from_the_checkpoint_before "$folder/hashed"
holds "without a gap" test "$(grep -c "has no lines" "$folder/stderr")" = 0
accepts "nor does verify find one" "same" verify "$folder/hashed" "$folder/hashed-resumed"
cp -r "$folder/hashed" "$folder/lost"
sed -i '2,$d' "$folder/lost/hashes.jsonl"
holds "it goes on without a line that was lost" go_on_from_the_checkpoint_before "$folder/lost"
holds "and says so" grep -q "has no lines between step 0 and step 8" "$folder/stderr"
run verify "$folder/hashed" "$folder/lost-resumed"
holds "verify says it, too" grep -q "has no hashes between step 0 and step 12" "$folder"/std{out,err}
refuses "another number of stages is another run" 2 "pipeline async, 3 stages" train \
  "${settings[@]}" --stages 2 --pipeline async --drain-every 4 --resume --out "$folder/resumed"

refuses "other windows are another run" 2 "windows lean.*windows full" train "${settings[@]}" \
  --stages 3 --pipeline async --drain-every 4 --windows full --resume --out "$folder/resumed"
refuses "other drains are another run" 2 "drain-every 4.*drain-every 6" train "${settings[@]}" \
  --stages 3 --pipeline async --drain-every 6 --resume --out "$folder/resumed"
accepts "other drains" "test accuracy" train "${settings[@]}" --stages 3 --pipeline async \
  --drain-every 6 --out "$folder/drains"
holds "which change the weights" test "$(field weights_sha256 "$folder/drains")" != \
  "$(field weights_sha256 "$folder/async")"
holds "tensors are observed in a flush, and not in what is asynchronous" \
  eval '[[ -s $folder/flush2/tensors.jsonl && ! -s $folder/async/tensors.jsonl ]]'

accepts "over the end of an epoch" "test accuracy" train "${settings[@]}" --steps 20 --stages 3 \
  --pipeline async --hash-every 1 --out "$folder/epochs"
holds "it drains there" test "$(hashed "$folder/epochs")" = "0 16 20"

# Other words for the same.
accepts "accumulate in cycles" "test accuracy" train "${settings[@]}" --accumulate 4:cycles \
  --stages 2 --out "$folder/cycles"
holds "the same weights in cycles" same_weights "$folder/cycles" "$folder/one"
accepts "the size of micro-batches" "test accuracy" train --data "$data" --model resnet8 --width 0.5 \
  --steps 12 --batch-size 16 --micro-batch-size 4 --out "$folder/sizes"
holds "the same weights by size" same_weights "$folder/sizes" "$folder/one"
for optimizer in sgd "momentum --momentum 0"; do
  read -ra words <<<"--optimizer $optimizer --format fp32 --threads 1"
  accepts "$optimizer" "test accuracy" train "${settings[@]}" "${words[@]}" \
    --out "$folder/steps-${words[1]}"
done
holds "momentum 0 takes the steps of sgd in fp32" same_weights "$folder/steps-sgd" "$folder/steps-momentum"

# The last steps flush. The run goes on from a checkpoint before, at and behind the switch.
tail=("${settings[@]}" --stages 3 --pipeline async --drain-every 6 --sync-last 5 --hash-every 3)
for steps in 6 7 9; do
  accepts "a synchronous tail with checkpoints every $steps" "test accuracy" train "${tail[@]}" \
    --checkpoint-every $steps --out "$folder/tail$steps"
  holds "it goes on from step $steps" go_on_from_the_checkpoint_before "$folder/tail$steps"
  holds "from that" grep -q "resuming at step $steps" "$folder/stderr"
  holds "without a gap" test "$(grep -c "has no lines" "$folder/stderr")" = 0
  holds "with the same hashes" \
    cmp "$folder/tail$steps/hashes.jsonl" "$folder/tail$steps-resumed/hashes.jsonl"
  holds "as with other checkpoints" same_weights "$folder/tail$steps" "$folder/tail6"
done
holds "the tail shows" test "$(field weights_sha256 "$folder/tail6")" != \
  "$(field weights_sha256 "$folder/async")"
holds "hashes where it drains behind a multiple of 3" test "$(hashed "$folder/tail6")" = "0 6 9 12"
accepts "verify finds no gap" "same" verify "$folder/tail6" "$folder/tail9"
refuses "another tail is another run" 2 "sync-last 5, now async.*sync-last 4" train --resume \
  --sync-last 4 --out "$folder/tail6"
refuses "a tail of a flush" 2 "sync-last: is for asynchronous pipelines" train "${settings[@]}" \
  --stages 2 --sync-last 4 --out "$folder/no"
refuses "a tail of one stage" 2 "sync-last: is for asynchronous pipelines of several" train \
  "${settings[@]}" --pipeline async --sync-last 4 --out "$folder/no"
refuses "a tail longer than the run" 2 "sync-last 13: the run has 12 steps" train \
  "${settings[@]}" --stages 2 --pipeline async --sync-last 13 --out "$folder/no"
refuses "a tail of a run that may stop early" 2 "sync-last: .*early-stop" train "${settings[@]}" \
  --stages 2 --pipeline async --sync-last 4 --early-stop 2 --out "$folder/no"

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
# Full windows: the pipeline is full before the first stage turns round (docs/pipelines.md).
"$MANTISSA" plan --data "$data" --model resnet8 --width 0.5 --batch-size 4 --stages 3 \
  --pipeline async --windows full --diagram --svg "$folder/full.svg" | head -3 >"$folder/drawn"
holds "its diagram until a full pipeline has updated three times" diff - "$folder/drawn" <<'FULL'
P1 M1 M2 M3 M4 M5 B1 W1 M6 B2 W2 M7 B3 W3
P2 .  M1 M2 M3 B1 W1 M4 B2 W2 M5 B3 W3 M6
P3 .  .  M1 B1 W1 M2 B2 W2 M3 B3 W3 M4 B4
FULL
for cell in M7 W3; do
  holds "its picture has $cell" grep -q "<title>$cell</title>" "$folder/full.svg"
done
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

# Values that stages compute again have the same bits; the memory is as planned, and within the budget.
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

# BERT's twelve blocks on fourteen stages, as figure 3 of the AsyncPipeline document divides them:
# input, a block each, output. (Narrow; tests/long/transformer_stages has the whole width.)
python3 - "$folder" <<'PYTHON'
import json, sys
stages = ["embedding", *(f"block{i}.query" for i in range(1, 13)), "head.linear"]
json.dump({"stages": stages}, open(sys.argv[1] + "/figure3.json", "w"))
open(sys.argv[1] + "/text.txt", "w").write("the layers of a network are divided among stages. " * 40)
PYTHON
bert=(--data "$folder/text.txt" --model bert_base --width 0.0625 --sequence 16 --batch-size 14
  --micro-batch-size 1 --steps 3)
figure3=("${bert[@]}" --partition "$folder/figure3.json")
accepts "BERT in one stage" "test accuracy" train "${bert[@]}" --out "$folder/bert"
accepts "as figure 3 divides it" "test accuracy" train "${figure3[@]}" --out "$folder/bert-flush"
holds "the same weights" same_weights "$folder/bert" "$folder/bert-flush"
accepts "asynchronously, empty behind each update" "test accuracy" train "${figure3[@]}" \
  --pipeline async --drain-every 1 --out "$folder/bert-empty"
holds "misses no update" same_weights "$folder/bert" "$folder/bert-empty"
for again in "" -again; do
  accepts "asynchronously, never empty$again" "test accuracy" train "${figure3[@]}" \
    --pipeline async --threads $((${#again} > 0 ? 28 : 2)) --out "$folder/bert-async$again"
done
holds "the same weights again" same_weights "$folder/bert-async" "$folder/bert-async-again"
holds "other weights than a flush" test "$(field weights_sha256 "$folder/bert-async")" != \
  "$(field weights_sha256 "$folder/bert")"
holds "all blocks but the last stage's miss updates" python3 - "$folder/bert-async/summary.json" <<'PYTHON'
import json, sys
most = {layer["layer"]: (layer["stage"], layer["most"])
        for layer in json.load(open(sys.argv[1]))["staleness"]}
assert all(most[f"block{i}.query"] == (i + 1, 1) for i in range(1, 13)), most
assert most["embedding"] == (1, 1) and most["classifier"] == (14, 0), most
PYTHON

# Divisions by hand: the same run whether a file, its network or its config.toml says it.
echo '{"stages": ["normalise", "stage2.block1.conv1", "stage3.block1.conv1"]}' >"$folder/mine.json"
accepts "a network as a file" "" info --model resnet8 --width 0.5 --data "$data" --graph
python3 - "$folder/stdout" "$folder/staged.json" <<'PYTHON'
import json, sys
network = json.load(open(sys.argv[1]))
for node in network["nodes"]:
    if node["name"].startswith(("stage2", "stage3")):
        node["stage"] = int(node["name"][5])
json.dump(network, open(sys.argv[2], "w"))
PYTHON
from_file=(--data "$data" --model "$folder/staged.json" --steps 12 --batch-size 16 --accumulate 4)
hand=("${from_file[@]}" --pipeline async --drain-every 4 --checkpoint-every 4)
trace=$folder/by-file/trace.json
accepts "a division from a file" "test accuracy" train "${hand[@]}" \
  --partition "$folder/mine.json" --trace "$trace" --trace-steps 3 --out "$folder/by-file"
accepts "the same from the network" "test accuracy" train "${hand[@]}" --stages 3 \
  --out "$folder/by-graph"
accepts "and asked for" "stage 3 +stage3.block1.conv1 to loss" plan "${from_file[@]}" \
  --partition graph
holds "the same weights" same_weights "$folder/by-file" "$folder/by-graph"
holds "the same run" same_entry run_identity "$folder/by-file" "$folder/by-graph"
rm "$folder/mine.json" "$folder/staged.json"
holds "it goes on without the file" go_on_from_the_checkpoint_before "$folder/by-file"
refuses "another division is another run" 2 "stages from .*stage2.*, now async, 3 stages by" train \
  --resume --partition operations --out "$folder/by-file-resumed"
accepts "the plan lists what a file needs" '"normalise",?$' plan "${settings[@]}" --stages 2 --json
divides() { refuses "$1" 2 "$2" plan "${settings[@]}" --partition "$3"; }
divides "an unknown layer" "'nope', which is to begin stage 2, is no layer" '["normalise","nope"]'
divides "layers without a stage" "'normalise' before it has no stage" '["stem","classifier"]'
divides "the wrong order" "'stem' of stage 3 comes before" '["normalise","average","stem"]'
divides "an empty stage" "stage 2 has no layer" '["normalise","stem","stem"]'
divides "layers that stay together" "'stem_norm' cannot begin stage 2: it stays with 'stem'" \
  '["normalise","stem_norm"]'
divides "one stage" "a pipeline has several" '["normalise"]'
divides "a graph that says nothing" "whose nodes have \"stage\"" graph
divides "no division" "nor graph, nor NAME.json" sometimes
divides "a file that is not there" "cannot open" "$folder/mine.json"
refuses "other stages than the file has" 2 "names the layers of 3 stages, and --stages says 2" plan \
  "${settings[@]}" --stages 2 --partition '["normalise","stem","average"]'

holds "staleness for each layer" python3 - "$folder/by-file/summary.json" <<'PYTHON'
import json, sys
summary = json.load(open(sys.argv[1]))
layers = {layer["layer"]: layer for layer in summary["staleness"]}
assert layers["stem"]["stage"] == 1 and layers["stem"]["most"] == 1, layers
assert 0 < layers["stem"]["mean"] < 1 and layers["classifier"]["mean"] == 0, layers
assert "stem_relu" not in layers and len(summary["idle_fraction"]) == 3
PYTHON
accepts "the end names idle time" "idle +stage 1 [0-9.]+ %, stage 2" train \
  "${settings[@]}" --stages 2 --out "$folder/idle"

# Traces: of the first steps, and simulated.
holds "a trace of three steps" python3 - "$trace" <<'PYTHON'
import json, sys
events = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "X"]
assert len(events) == 3 * 3 * (4 * 2 + 1), len(events)
assert {e["args"]["step"] for e in events} == {1, 2, 3} and {e["tid"] for e in events} == {1, 2, 3}
for stage in 1, 2, 3:
    end = 0
    for e in (e for e in events if e["tid"] == stage):
        assert e["ts"] >= end - 0.01 and e["dur"] >= 0, e
        end = e["ts"] + e["dur"]
PYTHON
accepts "simulated from its times" "idle once filled" simulate --from-trace "$trace"
refuses "in an order that it has no times for" 2 "flush-form 1f1b" simulate --from-trace "$trace" \
  --pipeline flush
accepts "in one that it has" "idle once filled" simulate --from-trace "$trace" --pipeline flush \
  --flush-form 1f1b
accepts "a simulated trace" "idle once filled" simulate --stages 3 --accumulate 4 \
  --trace "$folder/simulated.json"
accepts "which can be simulated" "idle once filled" simulate --from-trace "$folder/simulated.json"
refuses "times twice" 2 "times: comes from the trace" simulate --from-trace "$trace" \
  --times 1ms,1ms,1ms
refuses "what is no trace" 2 "is no trace" simulate --from-trace "$folder/by-file/summary.json"
refuses "a trace of one stage" 2 "trace: is of a pipeline" train "${settings[@]}" \
  --trace "$folder/t.json" --out "$folder/no"
refuses "a trace that is too long" 2 "trace-steps: .* at most [0-9]+ steps" train "${settings[@]}" \
  --stages 3 --trace "$folder/t.json" --trace-steps 100000 --out "$folder/no"
accepts "a report" "" report "$folder/by-file" --out "$folder/report.html"
for text in "<h2>Pipeline</h2>" "stage2.block1.conv1 to stage2.block1.relu2" "Missed updates" \
  "Timeline" "<title>M1</title>"; do
  holds "the report has $text" grep -q "$text" "$folder/report.html"
done
accepts "a run without a trace takes that of the run before away" "test accuracy" train \
  "${settings[@]}" --stages 2 --overwrite --out "$folder/by-file"
holds "it is gone" test ! -e "$trace"

# What stages get equal parts of, and what is taken if nothing is said.
loads() {
  "$MANTISSA" plan --data "$data" --model "$folder/stack14.json" --batch-size 28 --accumulate 14 \
    --stages 3 --profile builtin --json "$@" |
    python3 -c 'import json, sys
plan = json.load(sys.stdin)
stages = plan["pipeline"]["stages"]
print([stage["load"] for stage in stages], [len(stage["layer_names"]) for stage in stages],
      plan["parameters"])'
}
holds "equal numbers of layers" python3 - "$(loads --partition layers)" <<'PYTHON'
import re, sys
numbers = [float(x) for x in re.findall(r"[0-9.e+]+", sys.argv[1])]
loads, layers = numbers[:3], numbers[3:6]
assert loads == layers and max(loads) - min(loads) <= 1, numbers
PYTHON
holds "equal numbers of parameters" python3 - "$(loads --partition parameters)" <<'PYTHON'
import re, sys
*loads, _, _, _, trained = (float(x) for x in re.findall(r"[0-9.e+]+", sys.argv[1]))
assert max(loads) <= 1.25 * sum(loads) / 3, loads
# With the running statistics of batch norms, which are not trained.
assert trained <= sum(loads) <= 1.05 * trained, (loads, trained)
PYTHON
holds "an asynchronous pipeline is divided by operations" \
  test "$(loads --pipeline async)" = "$(loads --pipeline async --partition operations)"
holds "a flush by time" test "$(loads)" = "$(loads --partition time)"
holds "which are not the same" test "$(loads --partition time)" != "$(loads --partition operations)"
tied=(--data "$folder/text.txt" --model transformer_lm --tied --sequence 16 --batch-size 4)
refuses "layers that share weights stay together" 2 "a network of 2 layers has 1 to 2 stages" plan \
  "${tied[@]}" --stages 3
refuses "also by hand" 2 "'block2.norm1' cannot begin stage 2: it stays with 'embedding'" plan \
  "${tied[@]}" --partition '["embedding","block2.norm1"]'

# Ctrl-C lets an asynchronous run go on to its next drain; an epoch has 16 steps, and ends with one.
way=("${settings[@]}" --steps 3000 --stages 2 --pipeline async --drain-every 16 --quiet)
env --default-signal=INT timeout --kill-after=5 60 "$MANTISSA" train "${way[@]}" --hash-every 0 \
  --out "$folder/drained" >"$folder/stdout" 2>"$folder/stderr" &
for _ in {1..600}; do
  [[ -s $folder/drained/metrics.jsonl ]] && break
  sleep 0.05
done
kill -INT $!
wait $!
stopped=$(sed -n 's/.*interrupted at step \([0-9]*\);.*/\1/p' "$folder/stderr")
holds "asynchronous: stopped where it drains" eval '((stopped > 0 && stopped % 16 == 0))'

# Ctrl-C ends a flush behind the steps that are under way.
long=("${settings[@]}" --steps 300 --stages 2 --hash-every 0 --quiet)
run train "${long[@]}" --out "$folder/whole"
env --default-signal=INT timeout --kill-after=5 60 "$MANTISSA" train "${long[@]}" \
  --out "$folder/stopped" >"$folder/stdout" 2>"$folder/stderr" &
for _ in {1..600}; do
  [[ -s $folder/stopped/metrics.jsonl ]] && break
  sleep 0.05
done
kill -INT $!
wait $!
holds "stopped in the middle" grep -qE "interrupted at step ([5-9][0-9]|[12][0-9][0-9]);" \
  "$folder/stderr"
accepts "and goes on" "test accuracy" train --resume --out "$folder/stopped"
holds "with the same weights" same_weights "$folder/stopped" "$folder/whole"

refuses "too many stages" 2 "has 1 to [0-9]+ stages, not 500" train "${settings[@]}" --stages 500 \
  --out "$folder/no"
refuses "2bw with too few micro-batches" 2 "an update needs at least 5 micro-batches, not 4" train \
  "${settings[@]}" --stages 6 --pipeline 2bw --out "$folder/no"
refuses "a common norm" 2 "no stage of a pipeline knows" train "${settings[@]}" --stages 2 \
  --clip-norm 1 --out "$folder/no"
refuses "times that decide results" 2 "must not depend on a machine" train "${settings[@]}" \
  --stages 2 --pipeline async --partition time --out "$folder/no"
accepts "cycles of the pipeline" "4 micro-batches of 4 in an update" plan "${settings[@]}" \
  --accumulate 4:cycles --stages 2
refuses "half a cycle" 2 "accumulate: '4:cycle' is not a whole number" plan "${settings[@]}" \
  --accumulate 4:cycle --stages 2
refuses "accumulate and micro-batch-size that disagree" 2 "do not make batch-size 16" train \
  "${settings[@]}" --micro-batch-size 8 --out "$folder/no"
refuses "an unknown mode" 2 "is not flush, async, stash or 2bw" train "${settings[@]}" --stages 2 \
  --pipeline sometimes --out "$folder/no"
refuses "a time without a unit" 2 "is not a time such as" simulate --hop 4

finish
