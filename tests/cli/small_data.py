"""Data sets and networks of a test, in the folder that the script's first argument names."""

import json
import random
import sys

from npz import write_npz

folder = sys.argv[1]
random.seed(1)


def npz(name, **arrays):
    """NAME.npz with arrays by name, each (shape, code, numbers)."""
    write_npz(f"{folder}/{name}.npz", **arrays)


def network(name, shape, nodes, labels, first="", loss="softmax_cross_entropy", **attributes):
    """NAME.json: nodes (name, operator, inputs, attributes) from "in" to "out". Numbers of one
    channel are pixels."""
    is_pixels = shape[-1] == 1
    kind = {"type": "uint8"} if is_pixels else {"type": "int16", "exponent": -12}
    first = first or ("pixels" if is_pixels else "numbers")

    def node(name, op, *inputs, **own):
        return {"name": name, "op": op, "inputs": list(inputs), "attributes": own}

    nodes = [{"name": first, "op": "input", "shape": shape, **kind},
             {"name": "labels", "op": "input", "type": "int32", "shape": labels},
             node("in", "normalise_input" if is_pixels else "quantise_input", first),
             *[node(n[0], n[1], *n[2], **n[3]) for n in nodes],
             node("loss", loss, "out", "labels", **attributes)]
    with open(f"{folder}/{name}.json", "w") as file:
        json.dump({"format": "mantissa network 1", "name": name, "nodes": nodes,
                   "outputs": ["out"], "losses": ["loss"]}, file)


conv = ("c", "convolution", ["in"], {"channels": 8, "padding": 1, "kernel": 3})
relu = ("r", "relu", ["c"], {})
