#!/usr/bin/env bash
# Sequences of numbers and labels of pixels from the command line: training, measuring, predicting.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python3 - "$folder" <<'PYTHON'
import random
from small_data import npz

# Two channels of noise with a bump: early in the first channel, late in it, or in the second.
def signal(kind):
    x = [[random.gauss(5, 1) for _ in range(24)] for _ in range(2)]
    at = [3, 15, random.randrange(3, 16)][kind]
    for t in range(at, at + 5):
        x[kind // 2][t] += 6
    return x

kinds = [i % 3 for i in range(600)]
signals = [signal(kind) for kind in kinds]
first = [number for x in signals for channel in x for number in channel]
last = [x[c][t] for x in signals for t in range(24) for c in range(2)]
npz("first", x=([600, 2, 24], "<f4", first), y=([600], "|u1", kinds))
npz("last", x=([600, 24, 2], "<f4", last), y=([600], "|u1", kinds))

# Rectangles (1) and plus signs (2) on a dim ground.
def picture():
    x = [[random.randrange(60) for _ in range(16)] for _ in range(16)]
    y = [[0] * 16 for _ in range(16)]
    for kind in (1, 2):
        h, w = random.randrange(4, 8), random.randrange(4, 8)
        top, left = random.randrange(16 - h), random.randrange(16 - w)
        for i in range(top, top + h):
            for j in range(left, left + w):
                if kind == 1 or i == top + h // 2 or j == left + w // 2:
                    x[i][j], y[i][j] = 130 + random.randrange(60) * kind, kind
    return x, y

pictures = [picture() for _ in range(400)]
npz("shapes", x=([400, 16, 16], "|u1", [p for x, _ in pictures for row in x for p in row]),
    y=([400, 16, 16], "|u1", [p for _, y in pictures for row in y for p in row]))
npz("whole", x=([400, 16, 16], "|u1", [p for x, _ in pictures for row in x for p in row]),
    y=([400], "|u1", [i % 3 for i in range(400)]))
PYTHON

cat >"$folder/tcn.json" <<'JSON'
{"format": "mantissa network 1", "name": "tcn",
 "nodes": [
  {"name": "numbers", "op": "input", "type": "int16", "shape": [24, 2], "exponent": -12},
  {"name": "labels", "op": "input", "type": "int32", "shape": []},
  {"name": "input", "op": "quantise_input", "inputs": ["numbers"]},
  {"name": "conv1", "op": "convolution", "inputs": ["input"], "attributes": {"channels": 8, "kernel": 3, "causal": true, "bias": false}},
  {"name": "norm1", "op": "batch_norm", "inputs": ["conv1"]},
  {"name": "relu1", "op": "relu", "inputs": ["norm1"]},
  {"name": "conv2", "op": "convolution", "inputs": ["relu1"], "attributes": {"channels": 8, "kernel": 3, "causal": true, "dilation": 4, "bias": false}},
  {"name": "norm2", "op": "batch_norm", "inputs": ["conv2"]},
  {"name": "relu2", "op": "relu", "inputs": ["norm2"]},
  {"name": "flatten", "op": "flatten", "inputs": ["relu2"]},
  {"name": "classifier", "op": "linear", "inputs": ["flatten"], "attributes": {"channels": 3, "classifier": true}},
  {"name": "loss", "op": "softmax_cross_entropy", "inputs": ["classifier", "labels"]}],
 "outputs": ["classifier"], "losses": ["loss"]}
JSON
cat >"$folder/unet.json" <<'JSON'
{"format": "mantissa network 1", "name": "unet",
 "nodes": [
  {"name": "pixels", "op": "input", "type": "uint8", "shape": [16, 16, 1]},
  {"name": "labels", "op": "input", "type": "int32", "shape": [16, 16]},
  {"name": "input", "op": "normalise_input", "inputs": ["pixels"]},
  {"name": "down1", "op": "convolution", "inputs": ["input"], "attributes": {"channels": 8, "padding": 1}},
  {"name": "relu1", "op": "relu", "inputs": ["down1"]},
  {"name": "down2", "op": "convolution", "inputs": ["relu1"], "attributes": {"channels": 16, "padding": 1, "stride": 2}},
  {"name": "relu2", "op": "relu", "inputs": ["down2"]},
  {"name": "up", "op": "transposed_convolution", "inputs": ["relu2"], "attributes": {"channels": 8}},
  {"name": "joined", "op": "concat", "inputs": ["relu1", "up"]},
  {"name": "last", "op": "convolution", "inputs": ["joined"], "attributes": {"channels": 8, "padding": 1}},
  {"name": "relu3", "op": "relu", "inputs": ["last"]},
  {"name": "logits", "op": "convolution", "inputs": ["relu3"], "attributes": {"channels": 3, "kernel": 1}},
  {"name": "loss", "op": "softmax_cross_entropy", "inputs": ["logits", "labels"]}],
 "outputs": ["logits"], "losses": ["loss"]}
JSON


settings=(--epochs 6 --batch-size 16 --threads 1 --seed 1 --quiet)
for axes in first last; do
  run train --model "$folder/tcn.json" --data "$folder/$axes.npz" "${settings[@]}" \
    --out "$folder/$axes"
  holds "a network over one axis trains on arrays with the channels $axes" eval '((status == 0))'
  holds "and learns" above "$(json "$folder/$axes/summary.json" test_accuracy)" 0.9
done
holds "the order of the axes changes no weight" \
  test "$(json "$folder/first/summary.json" weights_sha256)" = \
  "$(json "$folder/last/summary.json" weights_sha256)"
run eval --checkpoint "$folder/first" --data "$folder/first.npz" --out "$folder/eval.json"
holds "eval takes the arrays" above "$(json "$folder/eval.json" accuracy)" 0.9
run predict --checkpoint "$folder/first" --data "$folder/first.npz" --index 0-7
holds "predict, too" eval '((status == 0))'
refuses "the other axis" 2 'channels names the other' \
  train --model "$folder/tcn.json" --data "$folder/first.npz" --channels last \
  --out "$folder/no"

run train --model "$folder/unet.json" --data "$folder/shapes.npz" "${settings[@]}" --epochs 40 \
  --out "$folder/unet"
holds "a network that labels pixels trains" eval '((status == 0))'
run eval --checkpoint "$folder/unet" --data "$folder/shapes.npz" --out "$folder/eval.json"
holds "eval says the mean intersection over union" grep -q 'mean IoU' "$folder/stdout"
holds "and it is high" above "$(json "$folder/eval.json" mean_iou)" 0.75
holds "there is one for each class" grep -q class_iou "$folder/eval.json"
run predict --checkpoint "$folder/unet" --data "$folder/shapes.npz" --index 0-3 \
  --raw "$folder/raw.npz"
holds "predict writes the logits of pixels" grep -q 'mantissas.npy' "$folder/raw.npz"
# Dice's loss, alone and with the cross-entropy.
for form in dice sum; do
  attributes='"attributes": {"smooth": 0.5}, '
  [[ $form == dice ]] || attributes='"attributes": {"cross_entropy": 1.0}, '
  sed "s/\"op\": \"softmax_cross_entropy\",/\"op\": \"dice_loss\", $attributes/" \
    "$folder/unet.json" >"$folder/$form.json"
  run train --model "$folder/$form.json" --data "$folder/shapes.npz" "${settings[@]}" --epochs 40 \
    --out "$folder/$form"
  holds "$form learns the pixels" eval '((status == 0))'
  run eval --checkpoint "$folder/$form" --data "$folder/shapes.npz" --out "$folder/eval.json"
  holds "the mean IoU is high" above "$(json "$folder/eval.json" mean_iou)" 0.75
  holds "it resumes" go_on_from_the_checkpoint_before "$folder/$form"
done
run train --model "$folder/dice.json" --data "$folder/shapes.npz" "${settings[@]}" --epochs 2 \
  --format fp32 --out "$folder/float"
holds "in fp32, too" eval '((status == 0))'
run train --model "$folder/dice.json" --data "$folder/shapes.npz" "${settings[@]}" --epochs 2 \
  --threads 3 --out "$folder/three"
run train --model "$folder/dice.json" --data "$folder/shapes.npz" "${settings[@]}" --epochs 2 \
  --out "$folder/one"
holds "two runs train" eval '((status == 0))'
holds "the same bits on three threads" \
  test "$(json "$folder/three/summary.json" state_sha256)" = \
  "$(json "$folder/one/summary.json" state_sha256)"
refuses "a class for an example" 2 'is softmax_cross_entropy' \
  train --model mlp --loss dice --data "$data" --out "$folder/no"
refuses "CTC" 2 "loss: 'ctc' has the most labels.*ctc_loss" \
  train --model mlp --loss ctc --data "$data" --out "$folder/no"
refuses "a contrast" 2 "'contrastive' is for vectors.*contrastive_loss" \
  train --model mlp --loss contrastive --data "$data" --out "$folder/no"
refuses "triplets" 2 "'triplet' is for vectors.*triplet_loss" \
  train --model mlp --loss triplet --data "$data" --out "$folder/no"
refuses "one label for a picture" 2 'gives a class to each of the places' \
  train --model "$folder/unet.json" --data "$folder/whole.npz" --out "$folder/no"
finish
