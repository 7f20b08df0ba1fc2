"""Models with several outputs, and their numbers beside those of `mantissa predict --raw`.

    onnx_outputs.py make FOLDER            # heads.onnx, rows.onnx, places.onnx, signal.onnx, words.onnx
    onnx_outputs.py same OUTPUTS RAW NAME... # each output NAME has the bits of NAME.mantissas
    onnx_outputs.py near OUTPUTS RAW MOST NAME...
        # each output differs by at most MOST of the largest logit from NAME.logits, or NAME.mantissas
    onnx_outputs.py feed RUN INPUTS FED    # inputs of the run's exported file: standardised, or tokens
    onnx_outputs.py losses NETWORK.json    # "targets operator penalty" of each loss
"""
import json, random, struct, sys, zipfile
sys.dont_write_bytecode = True
from onnx_files import array, get_npz, integer, model, node, number, part, put_npz, random_tensor, value
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
    averaged = (node("Relu", ["each"], ["active"]) +
                node("ReduceMean", ["active"], ["mean"], "",
                     part(5, part(1, "axes") + number(8, 1) + number(20, 7)) +
                     integer("keepdims", 0)))
    signal = (value(11, "signal", ("N", 12, 3)) + node("MatMul", ["signal", "read.weight"], ["each"]) +
              random_tensor("read.weight", (3, 24), 1) + averaged)
    words = (value(11, "words", ("N", 12), 7) + node("Gather", ["table", "words"], ["looked"]) +
             random_tensor("table", (20, 16), 1) +
             node("MatMul", ["looked", "read.weight"], ["each"]) +
             random_tensor("read.weight", (16, 24), .5) + averaged)
    for name, graph in (("signal", signal + heads("mean", 24) + outputs),
                        ("words", words + heads("mean", 24) + outputs), ("heads", joined + heads("relu3", 24) + outputs),
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


def feed(run, inputs, fed):
    """`numbers` [N, T, C] as whole multiples of 1/4096 of their channels' deviations; `tokens`."""
    with zipfile.ZipFile(inputs) as file:
        name = file.namelist()[0].removesuffix(".npy")
    if name == "tokens":
        tokens = whole_numbers(inputs, name)
        put_npz(fed, {"input_ids": array((len(tokens) // 12, 12), tokens, "<i8")})
        return
    with open(f"{run}/model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    table = json.loads(json.loads(header["__metadata__"]["description"])["table"])
    columns = table["inputs"][0]["columns"]
    values, _ = get_npz(inputs, name)
    for i, x in enumerate(values):
        column = columns[i % len(columns)]
        values[i] = round((x - column["mean"]) / column["deviation"] * 4096) / 4096
    put_npz(fed, {name: array((len(values) // 36, 12, 3), values)})


def near(outputs, raw, most, *names):
    for name in names:
        found, _ = get_npz(outputs, name)
        try:
            wanted = get_npz(raw, f"{name}.logits")[0]
        except KeyError:
            mantissas, (exponent,) = (whole_numbers(raw, f"{name}.{part}")
                                      for part in ("mantissas", "exponent"))
            wanted = [m * 2.0 ** exponent for m in mantissas]
        assert len(found) == len(wanted) > 0 and len(set(found)) > 10, (name, len(found))
        largest = max(abs(x) for x in wanted)
        worst = max(abs(x - y) for x, y in zip(found, wanted)) / largest
        assert worst < float(most), (name, worst)
        print(f"{name}: {worst:.2g} of the largest logit")


def losses(path):
    with open(path) as file:
        network = json.load(file)
    nodes = {one["name"]: one for one in network["nodes"]}
    for name in network["losses"]:
        loss = nodes[name]
        own = loss.get("attributes", {})
        rest = [f"{key}={own[key]}" for key in ("focal", "loss_weight", "positive_weights")
                if key in own]
        print(loss["inputs"][1], loss["op"], own.get("penalty", "-"), *rest)


if __name__ == "__main__":
    {"make": make, "same": same, "near": near, "feed": feed, "losses": losses}[sys.argv[1]](*sys.argv[2:])
