#!/usr/bin/env bash
# Few bits: quantize, with and without training behind it.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

short=(--batch-size 16 --reestimate 2 --calibration 32)

# network RUN PYTHON: an expression about the run's network, `nodes` by name.
network() {
  python3 - "$1/network.json" "$2" <<'PYTHON'
import json, sys
nodes = {node["name"]: node for node in json.load(open(sys.argv[1]))["nodes"]}
attributes = lambda name: nodes[name].get("attributes", {})
sys.exit(not eval("(" + sys.argv[2] + ")"))
PYTHON
}

accepts "a network to quantise" "test accuracy" train --data "$data" --model resnet8 --width 0.5 \
  --steps 12 --batch-size 16 --out "$folder/a"

accepts "quantize without training" "stage1.block1.conv1 +4 .*test accuracy|test accuracy" \
  quantize --from "$folder/a" --data "$data" "${short[@]}" --out "$folder/w4a4"
holds "weights and inputs have 4 bits" network "$folder/w4a4" \
  'attributes("stage1.block1.conv1")["weight_bits"] == 4 and
   attributes("stage1.block1.conv1.input")["bits"] == 4'
holds "the first and last layers have 8" network "$folder/w4a4" \
  '"weight_bits" not in attributes("stem") and "stem.input" not in nodes and
   "weight_bits" not in attributes("classifier")'
accepts "eval of what was quantised" "accuracy" eval --checkpoint "$folder/w4a4" --data "$data"
prints_json "quantize as JSON" quantize --from "$folder/a" --data "$data" "${short[@]}" --json \
  --overwrite --out "$folder/w4a4"

accepts "quantize and train" "test accuracy" quantize --from "$folder/a" --data "$data" \
  "${short[@]}" --weights 3 --activations 3 --steps 8 --checkpoint-every 4 --threads 1 \
  --out "$folder/trained"
holds "statistics are averaged before the first step and behind the last" eval \
  '[[ $(grep -c "averaged over 2 batches" "$folder/stderr") == 2 ]]'
for isa in scalar auto; do
  run quantize --from "$folder/a" --data "$data" "${short[@]}" --weights 3 --activations 3 \
    --steps 8 --checkpoint-every 4 --threads 2 --isa $isa --out "$folder/again-$isa"
  holds "two threads, $isa: the same weights" \
    same_entry weights_sha256 "$folder/trained" "$folder/again-$isa"
done
rm -f "$folder"/again-auto/{summary.json,model.safetensors,checkpoint-00000008.safetensors}
accepts "--resume goes on" "test accuracy" quantize --from "$folder/a" --data "$data" \
  "${short[@]}" --weights 3 --activations 3 --steps 8 --checkpoint-every 4 --resume \
  --out "$folder/again-auto"
holds "resumed: the same weights" same_entry weights_sha256 "$folder/trained" "$folder/again-auto"
rm -f "$folder"/again-auto/{summary.json,model.safetensors,checkpoint-00000008.safetensors}
refuses "--resume with other bits" 2 "was quantised with --weights 3, and --resume goes on" quantize \
  --from "$folder/a" --weights 2 --activations 3 --resume --out "$folder/again-auto"
run train --data "$data" --model resnet8 --width 0.5 --steps 2 --batch-size 16 --out "$folder/other"
"$MANTISSA" info --model resnet8 --width 0.5 --data "$data" --graph >"$folder/network.json"
accepts "--resume with the network of --from" "test accuracy" quantize --from "$folder/a" \
  --model "$folder/network.json" --weights 3 --activations 3 --resume --out "$folder/again-auto"
refuses "--resume from other weights" 2 "was quantised from other weights than .*other has" \
  quantize --from "$folder/other" --weights 3 --activations 3 --resume --out "$folder/again-auto"
refuses "--resume from what is gone" 2 "gone: is not there; .* keeps its starting weights" \
  quantize --from "$folder/gone" --weights 3 --activations 3 --resume --out "$folder/again-auto"
accepts "--resume alone" "test accuracy" quantize --resume --out "$folder/again-auto"
holds "alone: the same weights" same_entry weights_sha256 "$folder/trained" "$folder/again-auto"
refuses "--resume of a run of train" 2 "a is no run of quantize; train --resume" \
  quantize --resume --out "$folder/a"
run_sha() { sha256sum <"$folder/trained/$1"; }
before=$(run_sha network.json; run_sha start.safetensors)
run quantize --from "$folder/a" --data "$data" "${short[@]}" --weights 2 --memory-budget 4MiB \
  --overwrite --out "$folder/trained"
holds "more memory than training has" eval '((status == 3)) && grep -q "over the budget" "$folder/stderr"'
holds "what was there stays" test "$before" = "$(run_sha network.json; run_sha start.safetensors)"
refuses "--resume of nothing" 2 "nowhere holds no run to go on with; --from names" \
  quantize --resume --out "$folder/nowhere"
refuses "a run that is there" 2 "holds a run already" quantize --from "$folder/a" --data "$data" \
  --out "$folder/trained"

# Where weights begin does not change the first forward pass.
for start in between grid; do
  run quantize --from "$folder/a" --data "$data" --reestimate 0 --calibration 32 --batch-size 16 \
    --start $start --out "$folder/$start"
done
holds "starts on the grid and between: the same predictions" cmp -s \
  "$folder"/{between,grid}/evaluation.json

# places RUN: by layer of few bits, its weights at the start in steps of its grid.
places() {
  python3 - "$folder/$1" <<'PYTHON'
import json, struct, sys
data = open(sys.argv[1] + "/start.safetensors", "rb").read()
size, = struct.unpack("<Q", data[:8])
header, body = json.loads(data[8:8 + size]), data[8 + size:]
for node in json.load(open(sys.argv[1] + "/network.json"))["nodes"]:
    given = node.get("attributes", {})
    if not given.get("weight_bits"):
        continue
    begin, end = header[node["name"] + ".weights"]["data_offsets"]
    step = 2.0 ** given.get("weight_exponent", 0)
    print(node["name"], *(x / step for x, in struct.iter_unpack("<f", body[begin:end])))
PYTHON
}
places grid >"$folder/grid.txt"
places between >"$folder/between.txt"
holds "on the grid the start is the quantised weights, between it is what rounds to them" \
  python3 - "$folder" <<'PYTHON'
import sys
grid, between = (open(f"{sys.argv[1]}/{name}.txt").read().splitlines() for name in ("grid", "between"))
assert len(grid) == len(between) == 8
for on, off in zip(grid, between):
    on, off = ([float(x) for x in line.split()[1:]] for line in (on, off))
    assert all(x == round(x) and abs(x) <= 7 for x in on)
    assert [round(x) for x in off] == on
    assert sum(x != round(x) for x in off) > len(off) / 2
PYTHON

run quantize --from "$folder/a" --data "$data" "${short[@]}" --weights 4 --activations 8 \
  --out "$folder/weights"
holds "weights alone" network "$folder/weights" '"stage1.block1.conv1.input" not in nodes'
accepts "then activations" "test accuracy" quantize --from "$folder/weights" --data "$data" \
  "${short[@]}" --weights 2 --activations 4 --out "$folder/both"
holds "says so" grep -q "8 layers keep the few bits that they have" "$folder/stderr"
holds "shows them" grep -qE "stage1.block1.conv1 +4 +4" "$folder/stdout"
holds "weights stay as they are" network "$folder/both" \
  'attributes("stage1.block1.conv1")["weight_bits"] == 4 and
   attributes("stage1.block1.conv1.input")["bits"] == 4'

run quantize --from "$folder/a" --data "$data" "${short[@]}" --init activations \
  --out "$folder/activations"
holds "activations alone" network "$folder/activations" \
  '"weight_bits" not in attributes("stage1.block1.conv1") and
   attributes("stage1.block1.conv1.input")["bits"] == 4'
run quantize --from "$folder/activations" --data "$data" "${short[@]}" --init weights \
  --out "$folder/both-sides"
holds "then weights" network "$folder/both-sides" \
  'attributes("stage1.block1.conv1")["weight_bits"] == 4 and
   attributes("stage1.block1.conv1.input")["bits"] == 4'

run quantize --from "$folder/a" --data "$data" "${short[@]}" --bits 'stage2*=2,stem=6' --ends 0 \
  --out "$folder/mixed"
holds "bits by name" network "$folder/mixed" \
  'attributes("stage2.block1.conv1")["weight_bits"] == 2 and
   attributes("stem")["weight_bits"] == 6 and attributes("stem.input")["signed"] and
   attributes("classifier")["weight_bits"] == 4'
# mantissas RUN: the numbers of its last checkpoint's weights of few bits, each once.
mantissas() {
  python3 - "$folder/$1" <<'PYTHON'
import glob, json, struct, sys
data = open(sorted(glob.glob(sys.argv[1] + "/checkpoint-*"))[-1], "rb").read()
size, = struct.unpack("<Q", data[:8])
header, body = json.loads(data[8:8 + size]), data[8 + size:]
found = set()
for node in json.load(open(sys.argv[1] + "/network.json"))["nodes"]:
    if node.get("attributes", {}).get("weight_bits"):
        begin, end = header[node["name"] + ".weights"]["data_offsets"]
        found.update(struct.unpack(f"{end - begin}b", body[begin:end]))
print(*sorted(found))
PYTHON
}

# a_range NAME MANTISSAS SETTINGS...: trains weights that are these whole numbers, and takes them
# through a checkpoint, evaluation and an export.
a_range() {
  local run=$1-range numbers=$2
  accepts "$1, trained" "test accuracy" quantize --from "$folder/a" --data "$data" "${short[@]}" \
    "${@:3}" --steps 8 --checkpoint-every 4 --learning-rate 0.2 --out "$folder/$run"
  holds "$1: the weights are $numbers" test "$(mantissas "$run")" = "$numbers"
  holds "$1: resumes" resumes_alike "$run"
  accepts "$1: eval" "accuracy" eval --checkpoint "$folder/$run" --data "$data"
  run predict --checkpoint "$folder/$run" --data "$data" --index 0-9 --raw "$folder/here.npz"
  for target in ort portable; do
    accepts "$1: export, $target" "" export --checkpoint "$folder/$run" --target "$target" \
      --out "$folder/$run-$target.onnx"
    run predict --checkpoint "$folder/$run-$target.onnx" --data "$data" --index 0-9 \
      --raw "$folder/there.npz"
    holds "$1: the exported file predicts the same, $target" cmp -s "$folder"/{here,there}.npz
  done
}

# resumes_alike RUN: as if killed behind its first checkpoint, it ends with the same state.
resumes_alike() {
  cp -r "$folder/$1" "$folder/resumed-$1"
  rm -f "$folder/resumed-$1"/{summary.json,model.safetensors,checkpoint-00000008.safetensors}
  run quantize --resume --out "$folder/resumed-$1"
  same_entry state_sha256 "$folder/$1" "$folder/resumed-$1"
}

a_range "one bit" "-1 1" --weights 1 --activations 4
a_range "one bit through tanh" "-1 1" --weights 1 --activations 4 --train dorefa
a_range "one bit of zero and below" "-1 0" --weights 1 --activations 4 --range full
a_range "the full range" "-8 -7 -6 -5 -4 -3 -2 -1 0 1 2 3 4 5 6 7" --range full --train wrpn
run quantize --from "$folder/a" --data "$data" "${short[@]}" --weights 1 --activations 32 \
  --steps 2 --out "$folder/float1"
holds "one bit in float" eval '((status == 0))'
holds "its layers know their range" network "$folder/the full range-range" \
  'attributes("stage1.block1.conv1")["weight_range"] == "full" and
   attributes("stage1.block1.conv1")["weight_stops"] == 1'

for learning in lsqplus pact wrpn dorefa hwgq uniform; do
  accepts "train by $learning" "test accuracy" quantize --from "$folder/a" --data "$data" \
    "${short[@]}" --train $learning --ends 4 --steps 2 --out "$folder/$learning"
done
holds "weights through tanh" network "$folder/dorefa" \
  'attributes("stem")["weight_tanh"] and "weight_tanh" not in attributes("classifier.input")'
holds "ranges that begin below zero" network "$folder/lsqplus" \
  'attributes("stem.input")["offset"] and "signed" not in attributes("stem.input") and
   "offset" not in attributes("stage1.block1.conv1.input")'
run train --from "$folder/dorefa" --data "$data" --model "$folder/dorefa/network.json" \
  --batch-size 16 --micro-batch-size 4 --steps 2 --out "$folder/in-parts"
run train --from "$folder/dorefa" --data "$data" --model "$folder/dorefa/network.json" \
  --batch-size 16 --micro-batch-size 4 --steps 2 --isa scalar --threads 2 --out "$folder/scalar"
holds "through tanh: the same weights" same_entry weights_sha256 "$folder"/{in-parts,scalar}
accepts "rounding that is trained" "test accuracy" quantize --from "$folder/a" --data "$data" \
  "${short[@]}" --weights 3 --activations 4 --method adaround --out "$folder/adaround"
run quantize --from "$folder/a" --data "$data" "${short[@]}" --weights 3 --activations 4 \
  --out "$folder/nearest"
holds "it gives other weights" eval '! same_entry weights_sha256 "$folder"/{adaround,nearest}'
for sides in '4 16 bfp:a=16' '16 4 bfp:w=16' '4 32 fp32' '32 4 fp32'; do
  read -r weights activations format <<<"$sides"
  accepts "W${weights}A$activations" "test accuracy" quantize --from "$folder/a" --data "$data" \
    "${short[@]}" --weights "$weights" --activations "$activations" --steps 2 \
    --out "$folder/w${weights}a$activations"
  holds "in $format" grep -q "\"format\": \"$format\"" \
    "$folder/w${weights}a$activations/summary.json"
done
for start in between grid; do
  run quantize --from "$folder/a" --data "$data" --reestimate 0 --batch-size 16 --weights 4 \
    --activations 32 --start $start --out "$folder/float-$start"
done
# The files of the networks have the weights between the points of the grid.
evaluation() { grep -v model_sha256 "$folder/float-$1/evaluation.json"; }
holds "floats compute with weights on the grid" cmp -s <(evaluation between) <(evaluation grid)
run quantize --from "$folder/a" --data "$data" "${short[@]}" --weights 4 --activations 32 \
  --out "$folder/float"
holds "says that it computes in float" grep -q "computed in float" "$folder/stderr"
run quantize --from "$folder/a" --data "$data" "${short[@]}" --out "$folder/plan"
holds "plans its memory" grep -q "quantised with .* of memory planned: data" "$folder/stderr"
refuses "more memory than the budget" 3 "over the budget of 1.0 MiB" quantize --from "$folder/a" \
  --data "$data" "${short[@]}" --memory-budget 1MiB --out "$folder/x"
accepts "dynamic fixed point" "test accuracy" quantize --from "$folder/a" --data "$data" \
  "${short[@]}" --format dfp8 --steps 4 --out "$folder/dynamic"
accepts "a network without batch norm" "test accuracy" train --data "$data" --model lenet5 \
  --steps 4 --batch-size 16 --out "$folder/lenet"
accepts "its last layer has scales that are powers of two" "powers of two" quantize \
  --from "$folder/lenet" --data "$data" "${short[@]}" --ends 0 --steps 4 --out "$folder/lenet4"
holds "no batch norm, no statistics" eval '! grep -q averaged "$folder/stderr"'
holds "the others have rescales" network "$folder/lenet4" \
  'nodes["conv2.rescale"]["shares"] == "conv2.input" and "fc3.rescale" not in nodes and
   attributes("conv2")["bias"] == 0'
accepts "eval of it" "accuracy" eval --checkpoint "$folder/lenet4" --data "$data"

accepts "7 bits do not diverge" "test accuracy" quantize --from "$folder/lenet" --data "$data" \
  "${short[@]}" --weights 7 --activations 7 --steps 40 --out "$folder/lenet7"

accepts "the cost of each layer" "stage3.block1.conv2" quantize --from "$folder/a" --data "$data" \
  --sensitivity --calibration 32 --batch-size 16 --validation 32 --weights 2 --activations 2
prints_json "the same as JSON" quantize --from "$folder/a" --data "$data" --sensitivity \
  --calibration 32 --batch-size 16 --validation 32 --weights 2 --activations 2 --json

refuses "nothing that could be measured" 2 "no layer would get fewer bits" quantize \
  --from "$folder/w4a4" --data "$data" --sensitivity --calibration 32 --batch-size 16 --validation 32

# ONNX models: their settings belong to the import; one without norms gets them.
python3 -B - "$folder" "$(dirname "$(realpath "${BASH_SOURCE[0]}")")" <<'PYTHON'
import random, struct, sys
sys.path.insert(0, sys.argv[2])
from onnx_files import *
random.seed(1)
graph = (node("Conv", ["x", "w", "b"], ["c"], "conv") + node("Relu", ["c"], ["r"]) +
         node("GlobalAveragePool", ["r"], ["p"]) + node("Flatten", ["p"], ["f"]) +
         node("Gemm", ["f", "v"], ["y"], "fc") + random_tensor("w", [4, 1, 3, 3], .5) +
         random_tensor("b", [4], .5) +
         random_tensor("v", [4, 10], .5) + value(11, "x", ["batch", 1, 28, 28]) +
         value(12, "y", ["batch", 10]))
open(sys.argv[1] + "/net.onnx", "wb").write(model(graph))
PYTHON
accepts "an ONNX model with a mean of its own" "test accuracy" quantize --from "$folder/net.onnx" \
  --input-mean 0.3 --data "$data" "${short[@]}" --ends 0 --steps 2 --out "$folder/from-onnx"
# The same numbers as doubles.
python3 -B - "$folder" "$(dirname "$(realpath "${BASH_SOURCE[0]}")")" <<'PYTHON'
import random, struct, sys
sys.path.insert(0, sys.argv[2])
from onnx_files import *
def random_tensor(name, dims, most):
    count = math.prod(dims)
    numbers = [struct.unpack("<f", struct.pack("<f", random.uniform(-most, most)))[0]
               for _ in range(count)]
    return tensor(name, dims, part(9, struct.pack(f"<{count}d", *numbers)), 11)
random.seed(1)
graph = (node("Conv", ["x", "w", "b"], ["c"], "conv") + node("Relu", ["c"], ["r"]) +
         node("GlobalAveragePool", ["r"], ["p"]) + node("Flatten", ["p"], ["f"]) +
         node("Gemm", ["f", "v"], ["y"], "fc") + random_tensor("w", [4, 1, 3, 3], .5) +
         random_tensor("b", [4], .5) +
         random_tensor("v", [4, 10], .5) + value(11, "x", ["batch", 1, 28, 28], 11) +
         value(12, "y", ["batch", 10], 11))
open(sys.argv[1] + "/doubles.onnx", "wb").write(model(graph))
PYTHON
accepts "an ONNX model of doubles" "test accuracy" quantize --from "$folder/doubles.onnx" \
  --input-mean 0.3 --data "$data" "${short[@]}" --ends 0 --steps 2 --out "$folder/from-doubles"
holds "the same weights as of floats" same_entry weights_sha256 "$folder"/from-{onnx,doubles}
accepts "with batch norms put in" "conv +4" quantize --from "$folder/net.onnx" \
  --insert-batch-norm --data "$data" "${short[@]}" --ends 0 --out "$folder/with-norms"
holds "it has one" network "$folder/with-norms" 'nodes["conv.norm"]["op"] == "batch_norm"'
refuses "without its batch norms" 2 "have no batch norms any more" quantize \
  --from "$folder/a/model.safetensors" --data "$data" --out "$folder/x"
holds "what was refused leaves no folder" eval '[[ ! -e "$folder/x" ]]'

refuses "nothing to quantise" 2 "--from names the trained network" quantize --out "$folder/x"
refuses "no folder" 2 "--out names a folder" quantize --from "$folder/a"
few=(quantize --from "$folder/a" --data "$data" --out "$folder/x")
refuses "a pattern that fits nothing" 2 "'conv9' fits no layer of resnet8; it has stem" \
  "${few[@]}" --bits conv9=4
refuses "bits without a number" 2 "'stem' is not PATTERN=N" "${few[@]}" --bits stem
refuses "weights of 0 bits" 2 "weights: '0': 1 to 8 bits are possible" "${few[@]}" --weights 0
refuses "an unknown range" 2 "range: 'wide' is neither full nor symmetric" "${few[@]}" --range wide
refuses "weights of 9 bits" 2 "weights" "${few[@]}" --weights 9
refuses "k-means" 2 "k-means gives no linear grid" "${few[@]}" --method kmeans
refuses "an unknown method" 2 "unknown method 'lsq2'; choose lsq, lsqplus" "${few[@]}" --train lsq2
refuses "an unknown side" 2 "none of weights, activations and both" "${few[@]}" --init weight
refuses "fp32 with few bits on both sides" 2 "compute in integers" "${few[@]}" --format fp32
refuses "24 bits" 2 "24 bits have no kernels" "${few[@]}" --weights 24
refuses "16 bits of a format with 8" 2 "bfp:a=16 has" "${few[@]}" --activations 16 --format bfp8
refuses "floats of integers" 2 "fp32" "${few[@]}" --activations 32 --format bfp8
run quantize --from "$folder/a/model.safetensors" --data "$data" --out "$folder/x"
holds "a frozen network lacks statistics" grep -q "lacks .*name the folder of a run" \
  "$folder/stderr"

finish
