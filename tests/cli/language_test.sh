#!/usr/bin/env bash
# Language models on the command line: train, resume, eval, generate, and what they refuse.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

text=$folder/text.txt
for i in $(seq 400); do
  printf 'The %d. line says: one and one are two, été.\n' $((i % 7))
done >"$text"
json() { python3 -c "import json, sys; print(json.load(open(sys.argv[1]))$1)" "$2"; }
small=(--model transformer_lm --data "$text" --sequence 32 --width 0.5 --batch-size 8)

run train "${small[@]}" --steps 60 --threads 2 --out "$folder/a"
holds "train" eval '((status == 0))'
holds "train prints bits per token" grep -q 'bits per token' "$folder/stdout"
holds "train advises generate" grep -q 'mantissa generate' "$folder/stdout"
bits=$(json '["test_bits_per_token"]' "$folder/a/summary.json")
holds "it learns: $bits bits" python3 -c "import sys; sys.exit(not float('$bits') < 3)"
holds "its optimizer is Adam" grep -q 'optimizer = "adam"' "$folder/a/config.toml"

run train "${small[@]}" --steps 60 --threads 1 --isa scalar --out "$folder/b"
for name in state_sha256 run_identity test_bits_per_token; do
  holds "another instruction set, the same $name" eval \
    '[[ $(json "[\"$name\"]" "$folder/a/summary.json") == $(json "[\"$name\"]" "$folder/b/summary.json") ]]'
done

run eval --checkpoint "$folder/a"
holds "eval" grep -q 'bits per character, loss' "$folder/stdout"
run eval --checkpoint "$folder/a" --json
cp "$folder/stdout" "$folder/eval.json"
holds "eval finds what train found" eval '[[ $(json "[\"bits_per_token\"]" "$folder/eval.json") == "$bits" ]]'

generate() { run generate --checkpoint "$folder/a" --prompt 'The ' --length 40 "$@"; cat "$folder/stdout"; }
first=$(generate --seed 3)
holds "generate" eval '[[ $first == "The "* ]]'
holds "the same seed, the same text" eval '[[ $(generate --seed 3 --threads 1 --isa scalar) == "$first" ]]'
holds "another seed, another text" eval '[[ $(generate --seed 4) != "$first" ]]'
likeliest=$(generate --temperature 0)
holds "top-k 1 is temperature 0" eval '[[ $(generate --top-k 1 --seed 9) == "$likeliest" ]]'
holds "and so is the least top-p" eval '[[ $(generate --top-p 0.00002 --seed 9) == "$likeliest" ]]'
holds "a top-p between draws another text" eval '[[ $(generate --top-p 0.9 --seed 3) != "$likeliest" ]]'
# A network that reads ahead has no cache. The arena of its whole sequence counts all the same.
python3 - "$folder/a/model.safetensors" >"$folder/ahead.json" <<'PYTHON'
import json, struct, sys
with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
network = header["__metadata__"]["network"]
assert '"causal": true' in network
print(network.replace('"causal": true', '"causal": false'))
PYTHON
run train --model "$folder/ahead.json" --data "$text" --batch-size 8 --steps 1 --out "$folder/ahead"
run generate --checkpoint "$folder/ahead" --prompt 'The ' --length 2 --json
weights=$(json '["weights_bytes"]' "$folder/stdout") arena=$(json '["arena_bytes"]' "$folder/stdout")
holds "without a cache the arena is known" eval '((arena > 0))'
refuses "over the budget without a cache" 3 'arena' generate --checkpoint "$folder/ahead" \
  --prompt 'The ' --memory-budget "$((weights + arena - 1))B"
accepts "within it" '^The ' generate --checkpoint "$folder/ahead" --prompt 'The ' --length 2 \
  --memory-budget "$((weights + arena))B"
refuses "a top-p of nothing" 2 'top-p' generate --checkpoint "$folder/a" --prompt T --top-p 0
refuses "a prompt with an unknown character" 2 "does not know 'X'" \
  generate --checkpoint "$folder/a" --prompt X
refuses "no prompt" 2 'prompt' generate --checkpoint "$folder/a"
refuses "a temperature below 0" 2 'temperature' \
  generate --checkpoint "$folder/a" --prompt T --temperature -1

# fp32, dynamic fixed point, an exponent for each token, tied weights, bytes.
for choice in '--format fp32' '--format dfp8' '--format bfp:block=channel,blocks=token' '--tied' '--tokens bytes' \
  '--tokens sentencepiece --vocabulary 64'; do
  # shellcheck disable=SC2086
  run train "${small[@]}" --steps 3 $choice --out "$folder/c" --overwrite
  holds "train $choice" eval '((status == 0))'
  run generate --checkpoint "$folder/c" --prompt 'one' --length 5
  holds "generate $choice" eval '((status == 0))'
done

# Another text goes on with the vocabulary of the network that it starts from.
other=$folder/other.txt
for i in $(seq 400); do printf 'The two lines say: %d and one are not one.\n' $((i % 7)); done >"$other"
go_on=(--data "$other" --sequence 32 --batch-size 8 --steps 4)
run train --from "$folder/c" "${go_on[@]}" --checkpoint-every 2 --out "$folder/other"
holds "train --from, another text" eval '((status == 0))'
holds "its pieces are those of the first text" eval '[[ $(class_names "$folder/other") == "$(class_names "$folder/c")" ]]'
run train "${small[@]}" "${go_on[@]}" --tokens sentencepiece --vocabulary 70 --out "$folder/anew"
holds "that are not its own" eval '[[ $(class_names "$folder/other") != "$(class_names "$folder/anew")" ]]'
state=$(json '["state_sha256"]' "$folder/other/summary.json")
rm "$folder"/other/{model.safetensors,summary.json,evaluation.json,checkpoint-00000004.safetensors}
rm -r "$folder/c"
run train --resume --out "$folder/other"
holds "and it resumes" eval '[[ $(json "[\"state_sha256\"]" "$folder/other/summary.json") == "$state" ]]'
run quantize --from "$folder/other" --batch-size 8 --out "$folder/other-w4a4"
holds "quantize keeps them" eval '[[ $(class_names "$folder/other-w4a4") == "$(class_names "$folder/other")" ]]'
printf 'The 1. line\nX' >"$folder/unknown.txt"
refuses "a text with characters that the network does not know" 2 "line 2, byte 12: .* not know 'X'" \
  train --from "$folder/a" --sequence 32 --data "$folder/unknown.txt" --out "$folder/x"
refuses "other tokens than the network's" 2 "knows characters, and keeps them" \
  train --from "$folder/a" --tokens bytes --data "$other" --out "$folder/x"
refuses "fewer pieces than the network's" 2 "has 70 pieces, and keeps them" \
  train --from "$folder/anew" --vocabulary 64 --data "$text" --out "$folder/x"

# Recurrent layers: the same bits by stages and other instruction sets, and after a resume.
for model in lstm_lm gru_lm; do
  recurrent=(train --model "$model" --data "$text" --sequence 32 --width 0.25 --batch-size 8
    --learning-rate 0.01)
  state() { json '["state_sha256"]' "$folder/$model-$1/summary.json"; }
  run "${recurrent[@]}" --steps 100 --out "$folder/$model-long"
  bits=$(json '["test_bits_per_token"]' "$folder/$model-long/summary.json")
  holds "$model learns: $bits bits" python3 -c "import sys; sys.exit(not float('$bits') < 3.5)"
  run "${recurrent[@]}" --steps 20 --out "$folder/$model-whole" --checkpoint-every 10
  run "${recurrent[@]}" --steps 20 --out "$folder/$model-scalar" --threads 1 --isa scalar
  holds "$model: another instruction set" eval '[[ $(state whole) == $(state scalar) ]]'
  run "${recurrent[@]}" --steps 20 --out "$folder/$model-stages" --stages 2 --threads 2
  holds "$model: two stages" eval '[[ $(state whole) == $(state stages) ]]'
  for way in resumed repeated; do
    mkdir "$folder/$model-$way"
    holds "$model has a checkpoint before its end" cp \
      "$folder/$model-whole/"{config.toml,checkpoint-00000010.safetensors} "$folder/$model-$way/"
  done
  run train --out "$folder/$model-resumed" --resume
  holds "$model resumes" eval '[[ $(state whole) == $(state resumed) ]]'
  run "${recurrent[@]}" --steps 20 --checkpoint-every 10 --out "$folder/$model-repeated" --resume
  holds "$model resumes by the same words" eval '[[ $(state whole) == $(state repeated) ]]'
  run generate --checkpoint "$folder/$model-long" --prompt 'The ' --length 20
  holds "$model generates" eval '((status == 0)) && grep -q "^The " "$folder/stdout"'
done


# A network as a file is the same network.
run info --model transformer_lm --data "$text" --sequence 32 --width 0.5 --graph
cp "$folder/stdout" "$folder/net.json"
run train --model "$folder/net.json" --data "$text" --batch-size 8 --steps 60 --out "$folder/d"
holds "a network from a file trains to the same state" eval \
  '[[ $(json "[\"state_sha256\"]" "$folder/d/summary.json") == $(json "[\"state_sha256\"]" "$folder/a/summary.json") ]]'

wide=$folder/wide.txt
python3 -c "print(''.join(chr(c) for c in range(256, 356)) * 40)" >"$wide"
# evaluates_alike NAME RUN: eval, whose JSON is kept in eval.json, finds the run's own bits per token.
evaluates_alike() {
  local bits
  bits=$(json '["test_bits_per_token"]' "$2/summary.json")
  run eval --checkpoint "$2" --json
  cp "$folder/stdout" "$folder/eval.json"
  holds "$1" eval '[[ $(json "[\"bits_per_token\"]" "$folder/eval.json") == "$bits" ]]'
}

# WordPiece, learned or from a file, goes with the frozen network.
words=(--sequence 32 --width 0.5 --batch-size 8 --tokens wordpiece --data "$text")
cat "$text" docs/language.md >"$folder/prose.txt" # which has words enough
run train --model transformer_lm "${words[@]}" --data "$folder/prose.txt" --vocabulary 300 --steps 40 --out "$folder/w"
holds "train on WordPiece" eval '((status == 0))'
evaluates_alike "eval of WordPiece" "$folder/w"
run eval --checkpoint "$folder/w"
holds "eval prints bits per character of words" grep -q 'bits per character, loss' "$folder/stdout"
accepts "generate words" '^The line' generate --checkpoint "$folder/w" --prompt 'The line' --length 9
holds "no special token is drawn" eval '! grep -q "\[[A-Z]*\]" "$folder/stdout"'
refuses "a prompt with a word that is unknown" 2 "does not know 'xyz!'" \
  generate --checkpoint "$folder/w" --prompt 'The xyz!'
accepts "export of WordPiece" '' export --checkpoint "$folder/w" --out "$folder/w.onnx"
holds "the tokenizer goes with the export" grep -qa 'mantissa.tokenizer' "$folder/w.onnx"
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' the line says one and are two '##s' . >"$folder/vocab.txt"
run train --model bert_tiny "${words[@]}" --vocabulary "$folder/vocab.txt" --steps 20 --out "$folder/wm"
holds "WordPiece of a file" eval '((status == 0))'
holds "what the file lacks is said" grep -q 'tokens are \[UNK\]' "$folder/stderr"
evaluates_alike "eval of WordPiece with masks" "$folder/wm"
accepts "fill-mask of words" "^'[a-z.#]*' [0-9.]* %, '" \
  fill-mask --checkpoint "$folder/wm" --text 'The [MASK] says' --top 3
run train --model bert_tiny "${words[@]}" --vocabulary "$folder/vocab.txt" --steps 20 --out "$folder/wm" --resume
holds "a run of WordPiece resumes by the same words" eval '((status == 0))'
refuses "more pieces than the text gives" 2 'gives [0-9]* pieces.*choose --vocabulary' \
  train --model bert_tiny "${words[@]}" --vocabulary 5000 --out "$folder/x"
refuses "fewer pieces than there are" 2 '64 to 65536' \
  train --model bert_tiny "${words[@]}" --vocabulary 5 --out "$folder/x"
refuses "a vocabulary that is not there" 2 'none.txt' \
  train --model bert_tiny "${words[@]}" --vocabulary "$folder/none.txt" --out "$folder/x"
refuses "a vocabulary that is a text" 2 'twice' \
  train --model bert_tiny "${words[@]}" --vocabulary "$text" --out "$folder/x"
refuses "the file of a tokenizer for characters" 2 'is for --tokens wordpiece' \
  train --model bert_tiny --data "$text" --vocabulary "$folder/vocab.txt" --out "$folder/x"
refuses "WordPiece for translation" 2 'sentencepiece' train --model transformer_nmt --data "$text" \
  --tokens wordpiece --out "$folder/x"

# A masked language model.
masked=(--model bert_tiny --data "$text" --sequence 32 --width 0.5 --batch-size 8)
run train "${masked[@]}" --steps 40 --threads 2 --out "$folder/m"
holds "train bert_tiny" eval '((status == 0))'
holds "train advises fill-mask" grep -q 'mantissa fill-mask' "$folder/stdout"
run train "${masked[@]}" --steps 40 --threads 1 --isa scalar --out "$folder/n"
for name in state_sha256 run_identity test_bits_per_token; do
  holds "bert_tiny: another instruction set, the same $name" eval \
    '[[ $(json "[\"$name\"]" "$folder/m/summary.json") == $(json "[\"$name\"]" "$folder/n/summary.json") ]]'
done
evaluates_alike "eval finds what train found, with the same masks" "$folder/m"
holds "eval counts masked tokens" python3 -c "
import json, sys
e = json.load(open('$folder/eval.json'))
sys.exit(not 0.1 < e['tokens'] / (16000 * .05) < 0.25)"
accepts "fill-mask" "^'.' [0-9.]* %, '" \
  fill-mask --checkpoint "$folder/m" --text 'The [MASK]. line s[MASK]ys' --top 3
holds "a line for each mask" eval '[[ $(wc -l <"$folder/stdout") == 2 ]]'
refuses "fill-mask without a mask" 2 'no \[MASK\]' fill-mask --checkpoint "$folder/m" --text 'The'
refuses "fill-mask of a long text" 2 'has 33 tokens; the network reads 32' \
  fill-mask --checkpoint "$folder/m" --text "[MASK]$(printf 'a%.0s' {1..32})"
refuses "fill-mask by another network" 2 'no masked language model' \
  fill-mask --checkpoint "$folder/a" --text '[MASK]'
refuses "generate by a masked model" 2 'masked language model' \
  generate --checkpoint "$folder/m" --prompt 'The'
# Values with an exponent for each token: the same bits, and all that a masked model is for.
rows=(train "${masked[@]}" --format bfp:block=channel,blocks=token --steps 12 --quiet)
run "${rows[@]}" --threads 2 --out "$folder/rows"
holds "bert_tiny with blocks=token" eval '((status == 0))'
run "${rows[@]}" --threads 1 --isa scalar --out "$folder/rows-scalar"
run "${rows[@]}" --stages 2 --threads 2 --out "$folder/rows-stages"
for other in scalar stages; do
  holds "bert_tiny with blocks=token: $other" eval \
    '[[ $(json "[\"state_sha256\"]" "$folder/rows/summary.json") == $(json "[\"state_sha256\"]" "$folder/rows-$other/summary.json") ]]'
done
evaluates_alike "blocks=token: eval finds what train found" "$folder/rows"
accepts "blocks=token: fill-mask" "^'.' [0-9.]* %, '" \
  fill-mask --checkpoint "$folder/rows" --text 'The [MASK]. line s[MASK]ys' --top 3
refuses "blocks=token with 32-bit gradients" 2 'gw=16, or blocks=tensor' \
  train "${masked[@]}" --format bfp:gw=32,blocks=token --out "$folder/e"

refuses "masks among bytes" 2 'characters and pieces, not bytes' \
  train "${masked[@]}" --tokens bytes --out "$folder/e"

# Few bits: the data and the sequence are those of the run.
accepts "quantize" 'bits per token' quantize --from "$folder/a" --batch-size 8 --steps 10 \
  --learning-rate 0.001 --out "$folder/w4a4"
holds "its layers have rescales" grep -q '"block2.query.rescale", "op": "rescale"' \
  "$folder/w4a4/network.json"
run quantize --from "$folder/a" --batch-size 8 --steps 10 --learning-rate 0.001 --threads 1 \
  --isa scalar --out "$folder/w4a4-scalar"
holds "quantize: another instruction set, the same weights" eval \
  '[[ $(json "[\"weights_sha256\"]" "$folder/w4a4/summary.json") == $(json "[\"weights_sha256\"]" "$folder/w4a4-scalar/summary.json") ]]'
evaluates_alike "quantize: eval finds what train found" "$folder/w4a4"
accepts "what was quantised generates" 'The ' \
  generate --checkpoint "$folder/w4a4" --prompt 'The ' --length 10 --temperature 0
run quantize --from "$folder/a" --weights 2 --activations 2 --ends 0 --out "$folder/w2a2"
holds "every layer" grep -q '"classifier.input", "op": "quantise"' "$folder/w2a2/network.json"
accepts "the cost of each layer" 'block1.project' quantize --from "$folder/a" --sensitivity
run quantize --from "$folder/m" --out "$folder/masked-w4a4"
holds "quantize a masked model" eval '((status == 0))'
refuses "few bits and an exponent for each token" 2 'blocks=token' \
  quantize --from "$folder/a" --format bfp:blocks=token --out "$folder/e"

printf 'abc\xff' >"$folder/broken.txt"
: >"$folder/empty.txt"
printf 'abcabc' >"$folder/short.txt"
head -c 4000 /dev/zero >"$folder/zeros.txt"
for case in 'broken.txt:not UTF-8' 'empty.txt:is empty' 'short.txt:too few' 'zeros.txt:NUL' \
  'missing.txt:no file'; do
  refuses "text: $case" 2 "${case#*:}" \
    train --model transformer_lm --data "$folder/${case%%:*}" --out "$folder/e"
done
refuses "pieces of too few" 2 'larger --vocabulary' train --model transformer_lm \
  --data "$wide" --tokens sentencepiece --vocabulary 64 --out "$folder/e"
refuses "a vocabulary of characters" 2 'is for --tokens sentencepiece' \
  train "${small[@]}" --vocabulary 100 --out "$folder/e"
refuses "a sequence for pictures" 2 'sequence: is for language models' \
  train --model mlp --sequence 32 --out "$folder/e"
refuses "a language model of pictures" 2 'text' \
  train --model transformer_lm --data "$data" --out "$folder/e"
refuses "predict is for pictures" 2 'pictures' predict --checkpoint "$folder/a" --index 0
finish
