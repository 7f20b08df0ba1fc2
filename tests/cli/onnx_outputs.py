"""Models with several outputs, and their numbers beside those of `mantissa predict --raw`.

    onnx_outputs.py make FOLDER            # heads.onnx, rows.onnx, places.onnx
    onnx_outputs.py same OUTPUTS RAW NAME... # each output NAME has the bits of NAME.mantissas
    onnx_outputs.py losses NETWORK.json    # "targets operator penalty" of each loss
"""
import json, random, struct, sys
sys.dont_write_bytecode = True
from onnx_files import get_npz, integer, model, node, part, random_tensor, value
from onnx_tables import whole_numbers


def gemm(name, source, inputs, outputs):
    most = (3 / inputs) ** .5
    return (node("Gemm", [source, name + ".weight", name + ".bias"], [name], name) +
            random_tensor(name + ".weight", (inputs, outputs), most) +
            random_tensor(name + ".bias", (outputs,), .1))


def heads(source, channels):
    return (gemm("kinds", source, channels, 4) + node("Softmax", ["kinds"], ["kind"]) +
            gemm("age", source, channels, 1) +
            gemm("marks", source, channels, 3) + node("Sigmoid", ["marks"], ["tags"]))


def make(folder):
    random.seed(3)
    outputs = value(12, "kind", ("N", 4)) + value(12, "age", ("N", 1)) + value(12, "tags", ("N", 3))
    joined = (value(11, "picture", ("N", 1, 8, 8)) + value(11, "vector", ("N", 2)) +
              node("Flatten", ["picture"], ["flat"]) + gemm("seen", "flat", 64, 16) +
              node("Relu", ["seen"], ["relu1"]) + gemm("read", "vector", 2, 16) +
              node("Relu", ["read"], ["relu2"]) +
              node("Concat", ["relu1", "relu2"], ["joined"], "", integer("axis", 1)) +
              gemm("trunk", "joined", 32, 24) + node("Relu", ["trunk"], ["relu3"]))
    rows = (value(11, "x", ("N", 3)) + gemm("hidden", "x", 3, 32) +
            node("Relu", ["hidden"], ["relu"]))
    places = (value(11, "picture", ("N", 1, 8, 8)) +
              node("Conv", ["picture", "w"], ["place"]) + random_tensor("w", (2, 1, 1, 1), 1) +
              node("Flatten", ["picture"], ["flat"]) + gemm("kind", "flat", 64, 4) +
              value(12, "kind", ("N", 4)) + value(12, "place", ("N", 2, 8, 8)))
    for name, graph in (("heads", joined + heads("relu3", 24) + outputs),
                        ("rows", rows + heads("relu", 32) + outputs), ("places", places)):
        with open(f"{folder}/{name}.onnx", "wb") as file:
            file.write(model(graph + part(2, name)))


def same(outputs, raw, *names):
    wrong = 0
    for name in names:
        found, _ = get_npz(outputs, name)
        mantissas, (exponent,) = (whole_numbers(raw, f"{name}.{part}")
                                  for part in ("mantissas", "exponent"))
        assert len(found) == len(mantissas) > 0 and len(set(found)) > 10, (name, len(found))
        different = sum(x != m * 2.0 ** exponent for x, m in zip(found, mantissas))
        print(f"{name}: {different} of {len(found)} logits differ")
        wrong += different
    sys.exit(wrong > 0)


def losses(path):
    with open(path) as file:
        network = json.load(file)
    nodes = {one["name"]: one for one in network["nodes"]}
    for name in network["losses"]:
        loss = nodes[name]
        print(loss["inputs"][1], loss["op"], loss.get("attributes", {}).get("penalty", "-"))


if __name__ == "__main__":
    {"make": make, "same": same, "losses": losses}[sys.argv[1]](*sys.argv[2:])
