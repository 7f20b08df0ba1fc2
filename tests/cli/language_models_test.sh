#!/usr/bin/env bash
# Language models in GGUF files: what import says they are, what it refuses, and hostile files.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# make NAME [KEY=VALUE...]: a small model (language_model.py).
make() {
  python3 "$(dirname "${BASH_SOURCE[0]}")/language_model.py" "$folder/$1" "${@:2}"
}

# names NAME PATTERN ARGUMENTS...: import prints what the file is, exits with 2, says in one line
# that matches PATTERN what is not there, and writes nothing.
names() {
  run import "${@:3}" --out "$folder/out.safetensors"
  if ((status != 2)); then
    bad "$1" "exit code $status"
  elif (($(wc -l <"$folder/stderr") != 1)) || ! grep -qE -- "$2" "$folder/stderr"; then
    bad "$1" "the message does not match '$2'"
  elif [[ -e $folder/out.safetensors ]]; then
    bad "$1" "a file was written"
  elif ! grep -qE '^1 layers of 32 channels' "$folder/stdout"; then
    bad "$1" "the file is not described"
  else
    ok "$1"
  fi
}

echo "A text." >"$folder/text.txt"
make a.gguf
accepts "import" 'llama_lm: [0-9]+ layers, [0-9]+ parameters, written' \
  import "$folder/a.gguf" --out "$folder/a.safetensors"
holds "it says what the file is" grep -qx \
  '1 layers of 32 channels, 64 between gated layers; 4 heads of 8, 2 of keys and values; rotary base 10000, epsilon 1e-05; 64 positions' \
  "$folder/stdout"
holds "and its tensors" grep -qx \
  "11 tensors (11 F32) of 17,632 numbers; the classifier has the embedding's weights" "$folder/stdout"
holds "and its tokenizer" grep -qx \
  'tokenizer gpt2, smollm: 260 tokens, 2 of them special, 1 merges; texts begin with none, end token "<|im_end|>"; 1 bytes have no token: 04' \
  "$folder/stdout"
holds "and its chat template" grep -qx 'chat template: ChatML' "$folder/stdout"
holds "the file has them" eval \
  'grep -aq byte_bpe "$folder/a.safetensors" && grep -aq rotary "$folder/a.safetensors"'
run import "$folder/a.gguf" --json --out "$folder/b.safetensors"
holds "JSON says it, too" eval \
  'python3 -c "import json, sys; d = json.load(sys.stdin); assert len(d[\"description\"]) == 5" <"$folder/stdout"'
holds "the same file again" cmp "$folder/a.safetensors" "$folder/b.safetensors"
refuses "encoders are others" 2 'byte_bpe, and no WordPiece' \
  embed --from "$folder/a.safetensors" --data "$folder/text.txt" --out "$folder/v.npy"
run import "$folder/a.gguf"
holds "without --out it is described all the same" eval \
  '((status == 2)) && grep -q "1 layers of 32" "$folder/stdout" && grep -q "\-\-out" "$folder/stderr"'

# Where a file of the program is wanted, the message names import.
mkdir "$folder/hf"
echo '{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}' >"$folder/hf/config.json"
python3 -c 'import struct, sys
text = b"{}      "
sys.stdout.buffer.write(struct.pack("<Q", len(text)) + text)' >"$folder/hf/model.safetensors"
for model in a.gguf hf hf/model.safetensors; do
  named=$folder/${model%/*}
  says="$named is a model of another program; mantissa import $named --out FILE.safetensors"
  refuses "train --from $model" 2 "$says" \
    train --from "$folder/$model" --data "$folder/text.txt" --out "$folder/none"
  refuses "quantize --from $model" 2 "$says" \
    quantize --from "$folder/$model" --data "$folder/text.txt" --out "$folder/none"
  refuses "predict --checkpoint $model" 2 "$says" \
    predict --checkpoint "$folder/$model" --input "$folder/text.txt"
done
holds "nothing was written" test ! -e "$folder/none"

# It trains on, with its own tokens; what comes of it goes on with a text.
for _ in {1..30}; do echo "An able table, a stable cable; 3 cabs and 40 labs."; done >"$folder/book.txt"
run import "$folder/a.gguf" --sequence 16 --out "$folder/short.safetensors" --quiet
for format in fp32 bfp8 bfp:block=channel,blocks=token; do
  run train --from "$folder/short.safetensors" --data "$folder/book.txt" --format $format \
    --steps 4 --batch-size 2 --out "$folder/run-$format"
  holds "$format: it trains" eval '((status == 0))'
  accepts "$format: eval" 'bits per character' eval --checkpoint "$folder/run-$format"
  accepts "$format: generate" '^An able' \
    generate --checkpoint "$folder/run-$format" --prompt "An able" --length 5
done

# Smoothed by a text: the file says so, and fp32 has the same loss.
run import "$folder/a.gguf" --sequence 16 --smooth "$folder/book.txt" --out "$folder/smooth.safetensors"
holds "import --smooth" eval \
  '((status == 0)) && grep -q "smoothed by 1024 tokens of .*: powers of two that moved, norms" "$folder/stderr"'
holds "the file says it" grep -aq '"smoothed":"{..text.*..tokens..: 1024}' "$folder/smooth.safetensors"
holds "other weights" eval '! cmp -s "$folder/short.safetensors" "$folder/smooth.safetensors"'
for name in short smooth; do
  run train --from "$folder/$name.safetensors" --data "$folder/book.txt" --format fp32 --steps 1 \
    --learning-rate 1e-9 --batch-size 2 --out "$folder/run-$name"
  run eval --checkpoint "$folder/run-$name" --json
  grep -oE '"loss": ?[0-9.]{6}' "$folder/stdout" >"$folder/loss-$name"
done
holds "the same loss" eval '[[ -s $folder/loss-short ]] && cmp "$folder/loss-short" "$folder/loss-smooth"'
refuses "a text that is too short" 2 'too few' \
  import "$folder/a.gguf" --smooth "$folder/text.txt" --out "$folder/out.safetensors" --quiet
refuses "a text that is not there" 2 'none.txt' \
  import "$folder/a.gguf" --smooth "$folder/none.txt" --out "$folder/out.safetensors" --quiet
echo >"$folder/other.onnx"
refuses "other models" 2 'smooth: is for language models' \
  import "$folder/other.onnx" --smooth "$folder/book.txt" --out "$folder/out.safetensors"
refuses "a byte without a token" 2 'byte 0x04' \
  generate --checkpoint "$folder/run-fp32" --prompt $'\x04' --length 5
refuses "other tokens" 2 'knows byte-bpe, and keeps them' \
  train --from "$folder/a.safetensors" --data "$folder/book.txt" --tokens bytes --out "$folder/run-b"
refuses "byte-bpe without a model" 2 'come with a language model' \
  train --model transformer_lm --data "$folder/book.txt" --tokens byte-bpe --sequence 16 --out "$folder/run-b"

# Weights that stay in blocks.
make q.gguf type.token_embd.weight=8 type.blk.0.attn_v.weight=2 type.blk.0.ffn_down.weight=2 \
  $(printf 'type.blk.0.%s.weight=3 ' attn_q attn_k ffn_gate ffn_up)
run import "$folder/q.gguf" --weights blocks --sequence 16 --out "$folder/q.safetensors"
holds "weights in blocks" grep -q \
  'not trained: 2 of q4_0, 4 of q4_1, 1 of q8_0; 16512 weights in 13800 bytes' "$folder/stderr"
for format in fp32 bfp8; do
  few=(--from "$folder/q.safetensors" --data "$folder/book.txt" --format $format --steps 4
    --batch-size 2 --checkpoint-every 2 --out "$folder/blocks-$format")
  run train "${few[@]}"
  holds "blocks, $format: it trains" eval '((status == 0))'
  cp "$folder/blocks-$format"/checkpoint-00000004.safetensors "$folder/whole"
  rm "$folder/blocks-$format"/{checkpoint-00000004.safetensors,model.safetensors,summary.json}
  run train --resume "${few[@]}"
  holds "and goes on with the same bits" \
    cmp "$folder/whole" "$folder/blocks-$format"/checkpoint-00000004.safetensors
  accepts "blocks, $format: eval" 'bits per character' eval --checkpoint "$folder/blocks-$format"
  accepts "blocks, $format: generate" '^An able' \
    generate --checkpoint "$folder/blocks-$format" --prompt "An able" --length 5
  run train --from "$folder/blocks-$format" --data "$folder/book.txt" --format $format \
    --steps 1 --batch-size 2 --out "$folder/again"
  holds "blocks, $format: a run goes on from it" eval '((status == 0))'
  rm -rf "$folder/again"
done
refuses "a changed exponent" 2 'exponents of other weights' eval --checkpoint "$(
  python3 - "$folder/blocks-bfp8/model.safetensors" "$folder/changed.safetensors" <<'PYTHON'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + length])
header["__metadata__"].pop("sha256"), header["__metadata__"].pop("sha256_covers")
at = header["block1.query.weights.exponent"]["data_offsets"][0] + 8 + length
data[at] ^= 1
text = json.dumps(header).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + data[8 + length:])
print(sys.argv[2])
PYTHON
)"
refuses "blocks in dynamic fixed point" 2 'weight_blocks have an exponent for each row' \
  train --from "$folder/q.safetensors" --data "$folder/book.txt" --format dfp8 --steps 1 \
  --batch-size 2 --out "$folder/run-b"
refuses "blocks in ONNX files" 2 "'embedding.weights' is in blocks \(q8_0\)" \
  export --checkpoint "$folder/blocks-fp32" --out "$folder/b.onnx"
refuses "a file without blocks" 2 'no tensor of .* is of Q4_0, Q4_1 or Q8_0' \
  import "$folder/a.gguf" --weights blocks --out "$folder/out.safetensors" --quiet
refuses "other weights" 2 "'bytes' is none; choose float32 or blocks" \
  import "$folder/q.gguf" --weights bytes --out "$folder/out.safetensors" --quiet

# Straight from the file, without a run.
accepts "generate from a GGUF file" '^An able' \
  generate --checkpoint "$folder/a.gguf" --prompt "An able" --length 5 --seed 2
cp "$folder/stdout" "$folder/from-gguf"
accepts "generate from what import wrote" '^An able' \
  generate --checkpoint "$folder/short.safetensors" --prompt "An able" --length 5 --seed 2
holds "has the same text" cmp "$folder/stdout" "$folder/from-gguf"
# An exponent for each token needs no calibration.
accepts "in integers" '^An able' generate --checkpoint "$folder/a.gguf" --prompt "An able" \
  --length 5 --format bfp:block=channel,blocks=token
# Keys and values of 16 channels, of 16 and 8 bits, and their exponents.
run generate --checkpoint "$folder/a.gguf" --prompt "An able" --length 5 --json \
  --format bfp:block=channel,blocks=token
holds "the cache has the widths of the recipe" eval \
  '(($(json "$folder/stdout" cache_bytes) == 64 * (2 * 16 + 16 + 2 + 2)))'
refuses "over the budget" 3 'cache of 64 positions .*a shorter --sequence takes less' generate \
  --checkpoint "$folder/a.gguf" --prompt "An able" --format bfp:block=channel,blocks=token \
  --memory-budget 10KiB
refuses "a format that needs examples" 2 'would have to be calibrated' \
  generate --checkpoint "$folder/a.gguf" --prompt a --format bfp8
refuses "a format of a run" 2 'has its own, with which it was trained' \
  generate --checkpoint "$folder/run-fp32" --prompt a --format fp32
refuses "more positions than there are" 2 'has 64 positions' \
  generate --checkpoint "$folder/a.gguf" --prompt a --sequence 65
# Some seed ends the text early, and this is said.
ended=
for seed in {1..40}; do
  run generate --checkpoint "$folder/a.gguf" --prompt a --length 60 --seed "$seed" --json
  [[ $(json "$folder/stdout" finish) == end ]] && ended=$seed && break
done
holds "a text ends with the end token" eval '[[ -n $ended && $(json "$folder/stdout" tokens) -lt 60 ]]'
run generate --checkpoint "$folder/a.gguf" --prompt a --length 60 --seed "$ended"
holds "and this is said" grep -q 'the model ended its text after' "$folder/stderr"
accepts "eval from a file" 'bits per character, loss [0-9.]+ per token \([0-9.]+ bits, [0-9.]+ per byte\), perplexity' \
  eval --checkpoint "$folder/a.gguf" --data "$folder/book.txt" --sequence 16
run eval --checkpoint "$folder/short.safetensors" --data "$folder/book.txt" --json
holds "bits per byte of ASCII are those per character" python3 - "$folder/stdout" <<'PYTHON'
import json, math, sys
e = json.load(open(sys.argv[1]))
assert e["bits_per_byte"] > 0 and abs(e["loss"] / math.log(2) - e["bits_per_token"]) < 1e-9, e
assert abs(e["bits_per_byte"] * 18 / 17 - e["bits_per_token"]) < 2, e  # few merges
PYTHON
refuses "eval without a text" 2 '\-\-data: name a text' eval --checkpoint "$folder/a.gguf"

# Conversations.
printf 'What is 1?\n\nAnd 2?\n' >"$folder/questions"
chats() { run chat "$@" <"$folder/questions"; }
chats --checkpoint "$folder/a.gguf" --length 4 --temperature 0
holds "chat answers each line" eval '((status == 0)) && (($(wc -l <"$folder/stdout") >= 2))'
chats --checkpoint "$folder/a.gguf" --length 4 --json --seed 3
holds "chat in JSON" python3 - "$folder/stdout" <<'PYTHON'
import json, sys
answers = [json.loads(line) for line in open(sys.argv[1])]
assert len(answers) == 2 and all(a["role"] == "assistant" for a in answers), answers
assert all(a["finish"] in ("end", "length") and a["tokens"] <= 4 for a in answers), answers
PYTHON
cp "$folder/stdout" "$folder/chat"
chats --checkpoint "$folder/a.gguf" --length 4 --json --seed 3
holds "the same once more" cmp "$folder/stdout" "$folder/chat"
long=$(printf 'x%.0s' {1..20})
printf '%s\n%s\n%s\n' "$long" "$long" "$long" >"$folder/turns"
run chat --checkpoint "$folder/a.gguf" --length 4 --seed 3 <"$folder/turns"
holds "turns that do not fit are forgotten" grep -q 'turns are forgotten' "$folder/stderr"
printf '%s%s%s%s\n' "$long" "$long" "$long" "$long" >"$folder/turns"
run chat --checkpoint "$folder/a.gguf" <"$folder/turns"
holds "a turn that is too long is refused" eval '((status == 2)) && grep -q "the model reads 64" "$folder/stderr"'
make plain.gguf 'tokenizer.chat_template=None'
refuses "chat without a template" 2 'has no chat template' chat --checkpoint "$folder/plain.gguf"

python3 - "$folder/chats.jsonl" <<'PYTHON'
import json, sys
with open(sys.argv[1], "w") as file:
    for i in range(60):
        print(json.dumps({"messages": [{"role": "user", "content": f"q{i}"},
                                       {"role": "assistant", "content": "yes" if i % 2 else "no"}]}), file=file)
    print(json.dumps({"prompt": "x" * 90, "completion": "never", "id": 1}), file=file)
    print(json.dumps({"prompt": "last", "completion": "y" * 90}), file=file)
PYTHON
run import "$folder/a.gguf" --sequence 48 --out "$folder/m48.safetensors" --quiet
run train --from "$folder/m48.safetensors" --data "$folder/chats.jsonl" --format fp32 --epochs 6 \
  --batch-size 4 --learning-rate 0.01 --out "$folder/run-chat"
holds "it trains on conversations" eval '((status == 0))'
holds "what is cut is said" grep -q '1 of 62 conversations are cut' "$folder/stderr"
holds "what is left out is said" grep -q '1 of 62 conversations are left out' "$folder/stderr"
holds "what is not read is said" grep -q 'entries that are not read: "id"' "$folder/stderr"
run eval --checkpoint "$folder/run-chat" --json
# Three of 61 questions are for testing: "yes" or "no", and the end of each turn.
holds "eval counts tokens of answers alone" eval \
  '(($(json "$folder/stdout" tokens) >= 9 && $(json "$folder/stdout" tokens) <= 62))'
loss=$(json "$folder/stdout" loss)
run eval --checkpoint "$folder/m48.safetensors" --data "$folder/chats.jsonl" --json
holds "and they were learned" python3 -c "import sys; sys.exit(not $loss < $(json "$folder/stdout" loss) / 2)"
chats --checkpoint "$folder/run-chat" --temperature 0 --length 8
holds "it answers as it was taught" grep -qE '^(yes|no)$' "$folder/stdout"
accepts "conversations in integers" 'loss' train --from "$folder/m48.safetensors" --steps 3 \
  --data "$folder/chats.jsonl" --format bfp8 --batch-size 2 --out "$folder/chat-bfp8"
echo '{"prompt": "a"}' >"$folder/bad.jsonl"
refuses "a conversation without an answer" 2 'line 1: has no "completion"' \
  train --from "$folder/m48.safetensors" --data "$folder/bad.jsonl" --out "$folder/run-b"

# More tokens than 16 bits name.
make big.gguf tokens=70000
for _ in {1..60}; do echo -n "ababcab"; done >"$folder/ab.txt"
run import "$folder/big.gguf" --sequence 4 --out "$folder/big.safetensors" --quiet
run train --from "$folder/big.safetensors" --data "$folder/ab.txt" --format fp32 --steps 3 \
  --batch-size 2 --learning-rate 0.01 --out "$folder/big-fp32"
holds "70,000 tokens are trained" eval '((status == 0))'
accepts "and generate" '^abab' \
  generate --checkpoint "$folder/big-fp32" --prompt abab --length 3 --temperature 0
floats=$(json "$folder/big-fp32/summary.json" test_loss)
for number_format in bfp8 bfp:block=channel,blocks=token bfp:block=channel,blocks=token,g=8; do
  run train --from "$folder/big.safetensors" --data "$folder/ab.txt" --format "$number_format" \
    --steps 3 --batch-size 2 --learning-rate 0.01 --overwrite --out "$folder/big-integers"
  integers=$(json "$folder/big-integers/summary.json" test_loss)
  holds "so many in $number_format ($integers; fp32: $floats)" \
    python3 -c "import sys; sys.exit(not abs($integers / $floats - 1) < 0.05)"
done
make big-q8.gguf tokens=70000 type.token_embd.weight=8
run import "$folder/big-q8.gguf" --sequence 4 --weights blocks --out "$folder/big-q8.safetensors" --quiet
for base in big big-q8; do
  for number_format in fp32 bfp:block=channel,blocks=token; do
    run train --from "$folder/$base.safetensors" --data "$folder/ab.txt" --lora 2 --steps 3 \
      --format "$number_format" --batch-size 2 --learning-rate 0.01 --overwrite \
      --out "$folder/big-lora"
    floats=$integers
    integers=$(json "$folder/big-lora/summary.json" test_loss)
  done
  holds "adapters beside $base ($integers; fp32: $floats)" \
    python3 -c "import sys; sys.exit(not abs($integers / $floats - 1) < 0.05)"
done
accepts "so many generate in integers" '^abab' generate --checkpoint "$folder/big.safetensors" \
  --prompt abab --length 3 --format bfp:block=channel,blocks=token
# A network may know more tokens than its tokenizer.
make padded.gguf 'tensor.token_embd.weight=[32, 300]'
accepts "a padded vocabulary" '^ab' generate --checkpoint "$folder/padded.gguf" --prompt ab --length 5
run import "$folder/padded.gguf" --sequence 16 --out "$folder/padded.safetensors" --quiet
accepts "is trained" 'loss' train --from "$folder/padded.safetensors" --data "$folder/book.txt" \
  --format fp32 --steps 2 --batch-size 2 --out "$folder/run-padded"

# Other families: they train, with adapters too, and go out and back.
for family in qwen3 gpt2; do
  make $family.gguf family=$family
  accepts "$family" "${family}_lm: [0-9]+ layers" \
    import "$folder/$family.gguf" --sequence 16 --out "$folder/$family.safetensors"
  for format in fp32 bfp8 dfp8 bfp:block=channel,blocks=token; do
    for lora in "" "--lora 2"; do
      rm -rf "$folder/run-$family"
      # shellcheck disable=SC2086
      run train --from "$folder/$family.safetensors" --data "$folder/book.txt" --format $format \
        $lora --steps 2 --batch-size 2 --out "$folder/run-$family"
      holds "$family, $format $lora: it trains" eval '((status == 0))'
    done
    accepts "$family, $format: eval" 'bits per character' eval --checkpoint "$folder/run-$family"
    accepts "$family, $format: generate" '^An able' \
      generate --checkpoint "$folder/run-$family" --prompt "An able" --length 5
  done
  for target in gguf huggingface; do
    accepts "$family: --target $target" 'written to' \
      export --from "$folder/$family.safetensors" --target $target --out "$folder/out-$family.$target"
    run import "$folder/out-$family.$target" --sequence 16 --out "$folder/again.safetensors" --quiet
    holds "and back" eval '((status == 0)) &&
      cmp <(tail -c 20000 "$folder/$family.safetensors") <(tail -c 20000 "$folder/again.safetensors")'
    rm -f "$folder/again.safetensors"
  done
  accepts "$family: adapters" 'adapters of rank 2' \
    export --checkpoint "$folder/run-$family" --target peft --out "$folder/peft-$family"
done
refuses "another table of positions" 2 'a table of 64 positions' \
  export --from "$folder/gpt2.safetensors" --target gguf --positions 65 --out "$folder/no.gguf"
refuses "GPT-2 is not smoothed" 2 "smooth: is for networks in Llama's layout" \
  import "$folder/gpt2.gguf" --smooth "$folder/book.txt" --out "$folder/no.safetensors" --quiet
run import "$folder/qwen3.gguf" --sequence 16 --smooth "$folder/book.txt" --out "$folder/qwen3-s.safetensors"
holds "Qwen3 is" eval '((status == 0)) && grep -q "queries and keys" "$folder/stderr"'

# Between gated layers TinyLlama has 5,632 channels.
make wide.gguf llama.feed_forward_length=5632 'tensor.blk.0.ffn_down.weight=[5632, 32]' \
  'tensor.blk.0.ffn_gate.weight=[32, 5632]' 'tensor.blk.0.ffn_up.weight=[32, 5632]'
accepts "5,632 channels, an exponent for each token" 'bits per character' \
  eval --checkpoint "$folder/wide.gguf" --data "$folder/book.txt" --sequence 16 \
  --format bfp:block=channel,blocks=token
run import "$folder/wide.gguf" --sequence 16 --out "$folder/wide.safetensors" --quiet
accepts "and they train" 'loss' train --from "$folder/wide.safetensors" --data "$folder/book.txt" \
  --format bfp:block=channel,blocks=token --steps 2 --batch-size 2 --out "$folder/run-wide"

make linear.gguf 'llama.rope.scaling.type="linear"' 'llama.rope.scaling.factor=4.0'
run import "$folder/linear.gguf" --out "$folder/linear.safetensors"
holds "scaled positions are said" grep -q 'rotary base 10000, angles divided by 4,' "$folder/stdout"
make rope.gguf 'llama.rope.scaling.type="yarn"' 'llama.rope.scaling.factor=4.0'
names "other scaled positions" 'llama.rope.scaling.type = "yarn"' "$folder/rope.gguf"
holds "they are in the description" grep -q 'asks for what is not there: llama.rope.scaling.type' "$folder/stdout"
make window.gguf 'llama.attention.sliding_window=512'
names "sliding windows" 'sliding_window = 512' "$folder/window.gguf"
make bias.gguf 'tensor.blk.0.attn_output.bias=[32]'
names "other biases" 'attn_output.bias' "$folder/bias.gguf"
make arch.gguf 'general.architecture="mamba"' 'mamba.block_count=1' 'mamba.embedding_length=32' \
  'mamba.feed_forward_length=64' 'mamba.attention.head_count=4'
names "other architectures" '"mamba": llama, qwen2, qwen3 and gpt2 are those that are known' "$folder/arch.gguf"
make alien.gguf 'general.architecture="mamba"'
refuses "of which nothing more is known" 2 'architecture = "mamba": llama' \
  import "$folder/alien.gguf" --out "$folder/out.safetensors"
make pre.gguf 'tokenizer.ggml.pre="falcon"'
names "other pre-tokenizers" 'pre-tokenizer is "falcon"; gpt-2, smollm, llama-bpe and qwen2' "$folder/pre.gguf"
make chat.gguf 'tokenizer.chat_template="{{ messages }}"'
run import "$folder/chat.gguf" --sequence 48 --out "$folder/chat.safetensors"
holds "another chat template is a note" eval '((status == 0)) &&
  grep -q "its chat template is not taken over" "$folder/stderr" &&
  grep -q "no chat template that is known: tokenizer.chat_template: \"{{ messages }}\"" "$folder/stdout"'
for file in chat.gguf chat.safetensors; do
  refuses "$file: chat says why not" 2 'chat template is not known here.*tokenizer.chat_template: "{{ messages }}"' \
    chat --checkpoint "$folder/$file"
  accepts "$file: texts go on" '^An able' \
    generate --checkpoint "$folder/$file" --prompt "An able" --length 5
done
refuses "so does training on conversations" 2 'chat template is not known here' \
  train --from "$folder/chat.safetensors" --data "$folder/chats.jsonl" --out "$folder/run-b"
make few.gguf 'llama.block_count=1000000000'
refuses "a billion layers" 2 'block_count is 1000000000' import "$folder/few.gguf" --out "$folder/out.safetensors"
refuses "settings of ONNX models" 2 'is a language model' \
  import "$folder/a.gguf" --classes 3 --out "$folder/out.safetensors" --quiet

# Hostile files: one line, exit code 2, less than 256 MiB and five seconds.
python3 - "$folder" <<'PYTHON'
import struct, sys
folder = sys.argv[1]
text = lambda s: struct.pack("<Q", len(s)) + s.encode()
start = lambda tensors, keys: b"GGUF" + struct.pack("<IQQ", 3, tensors, keys)
array = lambda name, kind, n: text(name) + struct.pack("<IIQ", 9, kind, n)
tensor = lambda name, *dims: text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0, 0)
files = {
    "empty": b"", "magic": b"GGUF", "keys": start(0, 2**62), "tensors": start(2**62, 0),
    "text": start(0, 1) + text("a") + struct.pack("<IQ", 8, 2**63),
    "name": start(0, 1) + struct.pack("<Q", 2**40),
    "array": start(0, 1) + array("a", 4, 2**62),
    "texts": start(0, 1) + array("a", 8, 2**21) + bytes(2**24),
    "nested": start(0, 1) + array("a", 9, 4) + bytes(100),
    "dims": start(1, 0) + tensor("a", 2**62, 2**62), "zero": start(1, 0) + tensor("a", 0),
    "overlap": start(2, 0) + tensor("a", 8) + tensor("b", 8) + bytes(200),
    "many": start(0, 60000) + b"".join(text(f"k{i}") + struct.pack("<II", 4, i) for i in range(60000)),
    "tokens": start(0, 2) + text("general.architecture") + struct.pack("<I", 8) + text("llama")
              + array("tokenizer.ggml.tokens", 8, 2**21) + bytes(2**24),
    "header": start(0, 1) + text("a") + struct.pack("<IQ", 8, 2**25 + 2**20) + bytes(2**25 + 2**20)}
for name, data in files.items():
    open(f"{folder}/hostile-{name}.gguf", "wb").write(data)
PYTHON
for file in "$folder"/hostile-*.gguf; do
  name=$(basename "$file" .gguf)
  python3 - "$MANTISSA" "$file" "$folder/out.safetensors" >"$folder/peak" 2>"$folder/stderr" <<'PYTHON'
import resource, subprocess, sys, time
begin = time.time()
run = subprocess.run([sys.argv[1], "import", sys.argv[2], "--out", sys.argv[3]], capture_output=True,
                     text=True, timeout=60)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
assert run.returncode == 2 and run.stderr.count("\n") == 1 and not run.stdout, run
assert peak < 256 and time.time() - begin < 5, (peak, time.time() - begin)
PYTHON
  holds "$name is refused" eval "[[ ! -s \$folder/stderr ]]"
done
holds "nothing was written" eval '[[ ! -e $folder/out.safetensors ]]'
finish
