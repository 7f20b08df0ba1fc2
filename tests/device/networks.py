"""Networks that fit small machines, as JSON on the standard output: for 8x8 pictures of ten classes.

  networks.py perceptron      a hidden layer of 8
  networks.py convolutions    a convolution, a depthwise one, batch norms, a shortcut, a pool
"""

import json
import sys


def node(name, op, *inputs, **attributes):
    return {"name": name, "op": op, "inputs": list(inputs), "attributes": attributes}


def ends(last, channels):
    return [node("classifier", "linear", last, channels=10, classifier=True),
            {"name": "labels", "op": "input", "type": "int32", "shape": []},
            node("loss", "softmax_cross_entropy", "classifier", "labels")]


BEGIN = [{"name": "pixels", "op": "input", "type": "uint8", "shape": [8, 8, 1]},
         node("normalise", "normalise_input", "pixels")]
NETWORKS = {
    "perceptron": [*BEGIN, node("flatten", "flatten", "normalise"),
                   node("hidden", "linear", "flatten", channels=8),
                   node("relu", "relu", "hidden"), *ends("relu", 8)],
    "convolutions": [
        *BEGIN, node("stem", "convolution", "normalise", channels=8, padding=1, bias=False),
        node("stem_norm", "batch_norm", "stem"), node("stem_relu", "relu", "stem_norm"),
        node("deep", "convolution", "stem_relu", channels=8, padding=1, groups=8, bias=False),
        node("deep_norm", "batch_norm", "deep"), node("deep_relu", "relu", "deep_norm"),
        node("point", "convolution", "deep_relu", channels=8, kernel=1),
        node("sum", "add", "point", "stem_relu"), node("pool", "max_pool", "sum", window=2),
        node("average", "global_average_pool", "pool"), *ends("average", 8)]}

if __name__ == "__main__":
    name = sys.argv[1]
    print(json.dumps({"format": "mantissa network 1", "name": name, "nodes": NETWORKS[name],
                      "outputs": ["classifier"], "losses": ["loss"]}, indent=1))
