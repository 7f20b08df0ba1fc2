"""Networks that fit small machines, as JSON on the standard output: for 8x8 pictures of ten classes.

  networks.py perceptron      a hidden layer of 8
  networks.py convolutions    a convolution, a depthwise one, batch norms, a shortcut, a pool
  networks.py functions       every point-wise function, over many elements and over few
  networks.py bends           ELU, softplus and mish
  networks.py windows         pools whose windows overlap or leave the image, a concatenation
  networks.py slopes          PReLU
  networks.py gates           products with gates and with values, batch norms behind no layer
  networks.py uneven          convolutions in groups, dilated, of odd numbers of channels
  networks.py rows, shares, distances, upwards      what C lacks yet: rows by places, a softmax,
                              attention with a bias, a transposed convolution in groups
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
FUNCTIONS = ["relu6", "leaky_relu", "sigmoid", "tanh", "hard_sigmoid", "hard_swish", "gelu", "silu",
             "gelu_tanh"]


def functions(last, prefix):
    """All functions of one value, side by side."""
    names = [prefix + name for name in FUNCTIONS]
    return [*(node(prefix + name, name, last) for name in FUNCTIONS),
            node(prefix + "all", "concat", *names)]


def without_c(*nodes):
    """A layer of 4x4 pixels, as 16 rows too, and nodes that C lacks."""
    return [*BEGIN, node("stem", "convolution", "normalise", channels=4, stride=2, padding=1),
            node("rows", "reshape", "stem", width=16, channels=4), *nodes,
            node("flatten", "flatten", "missing"), *ends("flatten", 0)]


NETWORKS = {
    "rows": without_c(node("missing", "gather_rows", "rows", rows=[3, 0, 0])),
    "shares": without_c(node("missing", "softmax", "stem", over="positions")),
    "distances": without_c(node("missing", "attention", "rows", "rows", "rows", bias_height=4,
                                bias_width=4)),
    "upwards": without_c(node("missing", "transposed_convolution", "stem", channels=6, groups=2)),
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
        node("average", "global_average_pool", "pool"), *ends("average", 8)],
    "functions": [
        *BEGIN, node("stem", "convolution", "normalise", channels=4, padding=1),
        *functions("stem", "many_"), node("pool", "max_pool", "many_all", window=2),
        node("flatten", "flatten", "pool"), node("hidden", "linear", "flatten", channels=8),
        *functions("hidden", "few_"), *ends("few_all", 64)],
    "bends": [
        *BEGIN, node("stem", "convolution", "normalise", channels=4, padding=1),
        node("elu", "elu", "stem", alpha=0.75), node("softplus", "softplus", "stem"),
        node("mish", "mish", "stem"), node("beside", "concat", "elu", "softplus", "mish"),
        node("pool", "max_pool", "beside", window=4), node("flatten", "flatten", "pool"),
        node("hidden", "linear", "flatten", channels=8), node("last", "elu", "hidden"),
        *ends("last", 8)],
    "slopes": [
        *BEGIN, node("stem", "convolution", "normalise", channels=4, padding=1),
        node("bent", "prelu", "stem"), node("flatten", "flatten", "bent"), *ends("flatten", 8)],
    "windows": [
        *BEGIN, node("stem", "convolution", "normalise", channels=6, padding=1),
        node("relu", "relu", "stem"),
        node("maxima", "overlapping_max_pool", "relu", window=3, stride=1, padding=1),
        node("means", "average_pool", "relu", window=3, stride=1, padding=1),
        node("inner", "average_pool", "stem", window=3, stride=1, padding=1, count_padding=False),
        node("beside", "concat", "maxima", "means", "inner", "relu"),
        node("mix", "convolution", "beside", channels=8, kernel=1, stride=2),
        node("last_maxima", "overlapping_max_pool", "mix", window=3, stride=2, ceil=True,
             window_width=2, stride_width=1),
        node("last_means", "average_pool", "mix", window=3, stride=2, ceil=True,
             window_width=2, stride_width=1),
        node("both", "concat", "last_maxima", "last_means"), node("flatten", "flatten", "both"),
        *ends("flatten", 16)],
    "gates": [
        *BEGIN, node("stem", "convolution", "normalise", channels=8, padding=1),
        node("pool", "max_pool", "stem", window=2), node("norm", "batch_norm", "pool"),
        node("relu", "relu", "norm"), node("squeeze", "global_average_pool", "relu"),
        node("reduce", "linear", "squeeze", channels=4), node("reduce_relu", "relu", "reduce"),
        node("expand", "linear", "reduce_relu", channels=8),
        node("gate", "hard_sigmoid", "expand"), node("gated", "multiply", "relu", "gate"),
        node("side", "convolution", "relu", channels=8, padding=1),
        node("product", "multiply", "gated", "side"), node("sum", "add", "product", "gated"),
        node("last_norm", "batch_norm", "sum"), node("average", "global_average_pool", "last_norm"),
        *ends("average", 8)],
    "uneven": [
        *BEGIN, node("stem", "convolution", "normalise", channels=6, padding=1),
        node("stem_relu", "relu", "stem"),
        node("deep", "convolution", "stem_relu", channels=6, padding=1, groups=6),
        node("groups", "convolution", "deep", channels=10, padding=1, groups=2, stride=2),
        node("dilated", "convolution", "groups", channels=5, padding=2, dilation=2),
        node("wide", "convolution", "dilated", channels=32, kernel=1),
        node("point", "convolution", "wide", channels=7, kernel=1),
        node("flatten", "flatten", "point"), *ends("flatten", 7)]}

if __name__ == "__main__":
    name = sys.argv[1]
    print(json.dumps({"format": "mantissa network 1", "name": name, "nodes": NETWORKS[name],
                      "outputs": ["classifier"], "losses": ["loss"]}, indent=1))
