"""Writes a small encoder in BERT's layout: a folder with model.safetensors, config.json, vocab.txt.

    make_encoder.py FOLDER [KEY=JSON ...]     # changes to config.json

"half" as a key writes F16, "front" puts a text before the names, "without" leaves a parameter out.
"""
import json, pathlib, random, struct, sys

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
config = {"model_type": "bert", "hidden_act": "gelu", "hidden_size": 16, "num_hidden_layers": 2,
          "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 64,
          "type_vocab_size": 2, "vocab_size": 40, "layer_norm_eps": 1e-12}
changes = dict(item.split("=", 1) for item in sys.argv[2:])
half, front = changes.pop("half", None), changes.pop("front", "")
without = changes.pop("without", None)
config.update({key: json.loads(value) for key, value in changes.items()})
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "cat", "dog", "sat", "on", "mat",
         "##s", "runs", "and", "."]
(folder / "vocab.txt").write_text("\n".join(words) + "\n")
(folder / "config.json").write_text(json.dumps(config))

c, inner = 16, 32
shapes = {"embeddings.word_embeddings.weight": [40, c], "embeddings.position_embeddings.weight": [64, c],
          "embeddings.token_type_embeddings.weight": [2, c], "pooler.dense.weight": [c, c]}


def norm(name):
    shapes.update({name + ".weight": [c], name + ".bias": [c]})


def linear(name, rows, columns):
    shapes.update({name + ".weight": [rows, columns], name + ".bias": [rows]})


norm("embeddings.LayerNorm")
for i in range(2):
    at = f"encoder.layer.{i}."
    for name in ("query", "key", "value"):
        linear(at + "attention.self." + name, c, c)
    linear(at + "attention.output.dense", c, c)
    norm(at + "attention.output.LayerNorm")
    linear(at + "intermediate.dense", inner, c)
    linear(at + "output.dense", c, inner)
    norm(at + "output.LayerNorm")
shapes.pop(without, None)

random.seed(1)
header, data = {}, b""
for name, shape in shapes.items():
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    centre = 1 if name.endswith("LayerNorm.weight") else 0
    numbers = [random.gauss(centre, .3) for _ in range(count)]
    piece = struct.pack(f"<{count}{'e' if half else 'f'}", *numbers)
    header[front + name] = {"dtype": "F16" if half else "F32", "shape": shape,
                            "data_offsets": [len(data), len(data) + len(piece)]}
    data += piece
text = json.dumps(header).encode()
(folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
