"""A small language model as a GGUF file.

    tests/cli/language_model.py FILE [KEY=VALUE...]

Values are Python's: a text, a number, a list; None leaves the key out. tensor.NAME=[dims] adds a
tensor; type.NAME=2, 3 or 8 makes blocks of Q4_0, Q4_1 or Q8_0 of it. tokens=N gives it so many
tokens, of which "ab" is the last. family=qwen3 or gpt2, which comes first, makes another network.
"""
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

def become(family):
    """Another network with the same tokens."""
    for key in [k for k in keys if k.startswith("llama.")]:
        keys[key.replace("llama", family)] = keys.pop(key)
    keys["general.architecture"] = family
    keys["tokenizer.ggml.pre"] = {"qwen3": "qwen2", "gpt2": "gpt-2"}[family]
    if family == "qwen3":
        shapes.update({"blk.0.attn_q_norm.weight": [8], "blk.0.attn_k_norm.weight": [8]})
        return
    del keys["gpt2.attention.head_count_kv"], keys["gpt2.rope.freq_base"]
    for part in ("attn_q", "attn_k", "attn_v", "ffn_gate"):
        del shapes[f"blk.0.{part}.weight"]
    shapes.update({"blk.0.attn_qkv.weight": [32, 96], "position_embd.weight": [32, 64]})
    for name in [n for n in shapes if "_embd" not in n]:
        shapes[name.replace("weight", "bias")] = shapes[name][-1:]

for change in sys.argv[2:]:
    key, _, new = change.partition("=")
    if key == "family":
        become(new)
    elif key == "tokens":
        tokens[258] = "other"
        tokens += [f"filler {i}" for i in range(int(new) - len(tokens) - 1)] + ["ab"]
        keys["tokenizer.ggml.token_type"] = [3 if t.startswith("<|") else 1 for t in tokens]
        shapes["token_embd.weight"] = [32, int(new)]
    elif key.startswith("type."):
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
