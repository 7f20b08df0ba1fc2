#!/usr/bin/env bash
# Networks from ONNX: import, train --model and train --from. tests/fixtures/small.onnx is PyTorch's
# export of two convolutions and a linear layer for 28x28 pictures and 7 classes.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

model=$folder/small.onnx
cp "$(dirname "${BASH_SOURCE[0]}")/../fixtures/small.onnx" "$model"
short=(--data "$data" --steps 4 --batch-size 16)

run import "$model" --out "$folder/small.safetensors"
holds "import writes the network" eval '((status == 0)) && [[ -s $folder/small.safetensors ]]'
holds "and says what it assumed" grep -q "mean 0 and std 1: assumed" "$folder/stderr"
run import "$model" --input-mean 0.5 --input-std 0.25 --out "$folder/small.safetensors" --json
holds "the mean can be said" grep -q "mean 0.5 and std 0.25\"" "$folder/stdout"
refuses "a mean that is none" 2 "input-mean" import "$model" --input-mean many --out "$folder/x"
refuses "no file to write" 2 "--out: name" import "$model"
refuses "another output" 2 "no output 'nothing'" import "$model" --output nothing --out "$folder/x"
refuses "means without a model" 2 "is for ONNX models" \
  train --model mlp --input-mean 0.5 --out "$folder/x"

# Its two convolutions have biases and no batch norm.
hint='2 convolutions have a bias.*--insert-batch-norm'
run import "$model" --out "$folder/small.safetensors"
holds "import names --insert-batch-norm" grep -q -e "$hint" "$folder/stderr"
for from in "$model" "$folder/small.safetensors"; do
  run train --from "$from" "${short[@]}" --out "$folder/run" --overwrite
  holds "trains from ${from##*.}" eval '((status == 0))'
  holds "and tells what it took" grep -q "taken: [46] of 6 parameters" "$folder/stderr"
  holds "and names --insert-batch-norm" grep -q -e "$hint" "$folder/stderr"
done
# The data have 10 classes, the model 7.
run import "$model" --classes 10 --out "$folder/ten.safetensors" --json
holds "import replaces the last layer" grep -q '7.weights is left out' "$folder/stdout"
run train --from "$folder/ten.safetensors" "${short[@]}" --out "$folder/run" --overwrite
holds "a run draws its weights" grep -q "taken: 4 of 6 .*initial: 7.weights \[10" "$folder/stderr"
run train --from "$model" --classifier 7 "${short[@]}" --out "$folder/run" --overwrite
holds "the layer can be named" grep -q "initial: 7.weights \[10" "$folder/stderr"
refuses "another layer makes other outputs" 2 "by '3': the output has 7" \
  train --from "$model" --classifier 3 "${short[@]}" --out "$folder/x"
refuses "no layer" 2 "'nothing' is no layer .* it has '0/Conv', '3', '7'" \
  import "$model" --classes 10 --classifier nothing --out "$folder/x"
refuses "nothing to replace it for" 2 "goes with --classes" \
  import "$model" --classifier 7 --out "$folder/x"
refuses "as many classes as there are" 2 "has 10 outputs already" \
  train --from "$folder/ten.safetensors" --classifier 7 "${short[@]}" --out "$folder/x"
refuses "a built-in network" 2 "classifier: is for networks that --from brings" \
  train --model mlp --classifier 7 "${short[@]}" --out "$folder/x"

# Batch norms behind its convolutions, set from the data.
norms=(--insert-batch-norm --data "$data")
run import "$model" "${norms[@]}" --out "$folder/norms.safetensors" --json
holds "puts batch norms in" grep -q "put behind 2 convolutions, 0/Conv to 3" "$folder/stdout"
run train --from "$folder/norms.safetensors" "${short[@]}" --out "$folder/normed"
holds "a run takes them" grep -q "taken: 10 of 12 .*initial: 7.weights" "$folder/stderr"
run train --from "$model" --insert-batch-norm "${short[@]}" --out "$folder/norms"
holds "so does a run from the model" eval '((status == 0))'
holds "with the same weights" same_entry weights_sha256 "$folder/normed" "$folder/norms"
run train --config "$folder/norms/config.toml" --out "$folder/norms-again"
holds "its configuration repeats it" same_entry state_sha256 "$folder/norms" "$folder/norms-again"
rm "$folder"/norms/{summary,evaluation}.json "$folder"/norms/model.safetensors
run train --resume --out "$folder/norms"
holds "and it resumes" same_entry state_sha256 "$folder/norms" "$folder/norms-again"
refuses "a run that is there" 2 "norms.*already|--overwrite" \
  train --from "$model" --insert-batch-norm "${short[@]}" --out "$folder/norms"
refuses "no layer to replace" 2 "'nothing' is no layer" train --from "$model" \
  --insert-batch-norm --classifier nothing "${short[@]}" --out "$folder/none"
refuses "data that are not there" 2 "nowhere" train --from "$model" --insert-batch-norm \
  "${short[@]}" --data "$folder/nowhere" --out "$folder/none"
holds "a refused run leaves no folder" eval '[[ ! -e $folder/none ]]'
refuses "no data" 2 "insert-batch-norm and --data go together" \
  import "$model" --insert-batch-norm --out "$folder/x"
refuses "a network of one's own" 2 "is for an ONNX model" \
  train --model mlp --insert-batch-norm "${short[@]}" --out "$folder/x"
refuses "what plans and quantises" 2 "is done by train and by import" \
  plan --from "$model" --insert-batch-norm --data "$data"

run train --model "$model" "${short[@]}" --out "$folder/fresh"
holds "trains the architecture alone" eval '((status == 0)) && [[ ! -e $folder/fresh/start.safetensors ]]'
run train --from "$model" "${short[@]}" --out "$folder/kept"
rm "$model"
run train --config "$folder/kept/config.toml" --out "$folder/again"
run verify "$folder/kept" "$folder/again"
holds "the run needs the model no more" eval '((status == 0))'

# Small files as other tools write them.
foreign=$(dirname "${BASH_SOURCE[0]}")/../fixtures/foreign
for name in bn_eps0 bn_eps1e8_var1e6 convhead_flatten convhead_reshape gmp keras_nhwc \
  local_function mish opset24 prelu_c11 prelu_one qdq; do
  run train --from "$foreign/$name.onnx" "${short[@]}" --out "$folder/foreign" --overwrite
  holds "trains $name" eval '((status == 0))'
done
refuses "pairs of 8 bits are not exported" 2 "has a grid of 8 bits without a sign" \
  export --checkpoint "$folder/foreign" --out "$folder/qdq.onnx"
run quantize --from "$foreign/convhead_flatten.onnx" --data "$data" --weights 4 --activations 4 \
  --out "$folder/four"
holds "a head that is a convolution is quantised" eval '((status == 0))'

finish
