#!/usr/bin/env bash
# Language models in GGUF files: what import says they are, what it refuses, and hostile files.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# make NAME [KEY=VALUE...]: a small model. Values are Python's: a text, a number, a list; None leaves
# the key out. tensor.NAME=[dims] adds a tensor; type.NAME=2, 3 or 8 makes blocks of Q4_0, Q4_1 or
# Q8_0 of it.
make() {
  python3 - "$folder/$1" "${@:2}" <<'PYTHON'
import ast, math, struct, sys

def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data

def value(v):
    if isinstance(v, bool): return struct.pack("<I?", 7, v)
    if isinstance(v, int): return struct.pack("<Ii", 5, v)
    if isinstance(v, float): return struct.pack("<If", 6, v)
    if isinstance(v, str): return struct.pack("<I", 8) + text(v)
    parts = [value(x) for x in v]
    return struct.pack("<I", 9) + parts[0][:4] + struct.pack("<Q", len(v)) + b"".join(p[4:] for p in parts)

shown = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
hidden = [b for b in range(256) if b not in shown]
alphabet = {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}
tokens = ["no byte 4" if b == 4 else alphabet[b] for b in range(256)] + ["<|im_start|>", "<|im_end|>", "ab", "unused"]
keys = {"general.architecture": "llama", "llama.block_count": 1, "llama.context_length": 64,
        "llama.embedding_length": 32, "llama.feed_forward_length": 64,
        "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
        "llama.rope.freq_base": 10000.0, "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if t.startswith("<|") else 1 for t in tokens],
        "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.eos_token_id": 257,
        "tokenizer.chat_template": "{% for message in messages %}{{'<|im_start|>' + message['role'] + "
            "'\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt "
            "%}{{ '<|im_start|>assistant\n' }}{% endif %}"}
shapes = {"token_embd.weight": [32, 260], "output_norm.weight": [32]}
for part, dims in {"attn_norm": [32], "attn_q": [32, 32], "attn_k": [32, 16], "attn_v": [32, 16],
                   "attn_output": [32, 32], "ffn_norm": [32], "ffn_gate": [32, 64],
                   "ffn_up": [32, 64], "ffn_down": [64, 32]}.items():
    shapes[f"blk.0.{part}.weight"] = dims
types = {}
for change in sys.argv[2:]:
    key, _, new = change.partition("=")
    if key.startswith("type."):
        types[key[5:]] = int(new)
    elif key.startswith("tensor."):
        shapes[key[7:]] = ast.literal_eval(new)
    elif new == "None":
        del keys[key]
    else:
        keys[key] = ast.literal_eval(new)
head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys))
head += b"".join(text(k) + value(v) for k, v in keys.items())
data = b""
for name, dims in shapes.items():
    data += bytes(-len(data) % 32)
    kind, n = types.get(name, 0), math.prod(dims)
    head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
    for block in range(n // 32 if kind else 0):
        data += struct.pack("<e", (block % 7 + 1) / 1024 if kind == 8 else (block % 7 + 1) / 64)
        data += struct.pack("<e", -(block % 5 + 1) / 16) if kind == 3 else b""
        data += bytes((block * 31 + i * 77) % 256 for i in range(32 if kind == 8 else 16))
    data += b"" if kind else struct.pack(f"<{n}f", *((i * 7919 % 1000) / 1000 - .5 for i in range(n)))
open(sys.argv[1], "wb").write(head + bytes(-len(head) % 32) + data)
PYTHON
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
accepts "weights in blocks" \
  'weights in blocks, not trained: 2 of q4_0, 4 of q4_1, 1 of q8_0; 16,?512 weights in 13,?696 bytes' \
  import "$folder/q.gguf" --weights blocks --sequence 16 --out "$folder/q.safetensors"
accepts "info shows them" '"weight_blocks": "q4_1"' info "$folder/q.safetensors" --graph
for format in fp32 bfp8; do
  run train --from "$folder/q.safetensors" --data "$folder/book.txt" --format $format \
    --steps 4 --batch-size 2 --checkpoint-every 2 --out "$folder/blocks-$format"
  holds "blocks, $format: it trains" eval '((status == 0))'
  cp "$folder/blocks-$format"/checkpoint-00000004.safetensors "$folder/whole"
  rm "$folder/blocks-$format"/checkpoint-00000004.safetensors
  run train --resume "$folder/blocks-$format"
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

make rope.gguf 'llama.rope.scaling.type="yarn"' 'llama.rope.scaling.factor=4.0'
names "scaled positions" 'llama.rope.scaling.type = "yarn"; llama.rope.scaling.factor = 4' "$folder/rope.gguf"
holds "they are in the description" grep -q 'asks for what is not there: llama.rope.scaling.type' "$folder/stdout"
make window.gguf 'llama.attention.sliding_window=512'
names "sliding windows" 'sliding_window = 512' "$folder/window.gguf"
make bias.gguf 'tensor.blk.0.attn_output.bias=[32]'
names "other biases" 'attn_output.bias' "$folder/bias.gguf"
make arch.gguf 'general.architecture="mamba"' 'mamba.block_count=1' 'mamba.embedding_length=32' \
  'mamba.feed_forward_length=64' 'mamba.attention.head_count=4'
names "other architectures" '"mamba": llama and qwen2 are those that are known' "$folder/arch.gguf"
make pre.gguf 'tokenizer.ggml.pre="falcon"'
names "other pre-tokenizers" 'pre-tokenizer is "falcon"; gpt-2, smollm, llama-bpe and qwen2' "$folder/pre.gguf"
make chat.gguf 'tokenizer.chat_template="{{ messages }}"'
names "other chat templates" 'chat_template: .*is another chat template' "$folder/chat.gguf"
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
