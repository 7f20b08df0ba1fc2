"""Writes a small decoder in Llama's layout: a folder with model.safetensors, config.json,
tokenizer.json and tokenizer_config.json. Layers of 32 channels (left out: two), a vocabulary of
bytes.

    make_decoder.py FOLDER [LAYERS]
"""
import json, math, pathlib, random, struct, sys

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
layers = int(sys.argv[2]) if len(sys.argv) > 2 else 2
channels, inner, heads, key_heads = 32, 64, 4, 2
keys = channels // heads * key_heads

shown = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
hidden = [b for b in range(256) if b not in shown]
alphabet = {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}
tokens = [alphabet[b] for b in range(256)] + ["<|im_start|>", "<|im_end|>", "ab", "unused"]
byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
(folder / "tokenizer.json").write_text(json.dumps({
    "version": "1.0", "truncation": None, "padding": None,
    "added_tokens": [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False,
                      "rstrip": False, "normalized": False, "special": True} for i in (256, 257)],
    "normalizer": None,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True}, byte_level]},
    "post_processor": None, "decoder": byte_level,
    "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": [["a", "b"]]}}))
(folder / "tokenizer_config.json").write_text(json.dumps({
    "eos_token": "<|im_end|>",
    "chat_template": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
                     "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
                     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"}))
(folder / "config.json").write_text(json.dumps({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "hidden_size": channels, "intermediate_size": inner, "num_hidden_layers": layers,
    "num_attention_heads": heads, "num_key_value_heads": key_heads, "vocab_size": len(tokens),
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "tie_word_embeddings": True}))

shapes = {"model.embed_tokens.weight": [len(tokens), channels], "model.norm.weight": [channels]}
for i in range(layers):
    for name, shape in {"input_layernorm": [channels], "self_attn.q_proj": [channels, channels],
                        "self_attn.k_proj": [keys, channels], "self_attn.v_proj": [keys, channels],
                        "self_attn.o_proj": [channels, channels],
                        "post_attention_layernorm": [channels], "mlp.gate_proj": [inner, channels],
                        "mlp.up_proj": [inner, channels], "mlp.down_proj": [channels, inner]}.items():
        shapes[f"model.layers.{i}.{name}.weight"] = shape

random.seed(1)
header, data = {}, b""
for name, shape in shapes.items():
    count, is_norm = math.prod(shape), "norm" in name
    piece = struct.pack(f"<{count}f", *(random.gauss(is_norm, .2) for _ in range(count)))
    header[name] = {"dtype": "F32", "shape": shape,
                    "data_offsets": [len(data), len(data) + len(piece)]}
    data += piece
text = json.dumps(header).encode()
(folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
