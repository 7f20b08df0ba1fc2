"""Runs an exported network in ONNX Runtime and compares its logits with those of predict --raw.

    onnx_export.py FILE.onnx RAW.npz IMAGES [--saturating | --web MODULES]

Exits with 1 if a logit differs, or if the optimised graph computes a layer in floating point.
--saturating stores all weights as int8: on a CPU that saturates some logits must differ then, or
the comparison proves nothing. --web takes the logits from onnxruntime-web, in MODULES/node_modules.
"""
import collections
import glob
import gzip
import os
import struct
import subprocess
import sys
import tempfile

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import numpy  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402

IMAGES = "/usr/share/**/t10k-images-idx3-ubyte*"
FLOAT = {"Conv", "Gemm", "MatMul", "Add", "Concat", "AveragePool", "GlobalAveragePool", "Relu"}


def images(count):
    path = sorted(glob.glob(IMAGES, recursive=True))[0]
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        data = file.read()
    all_images, height, width = struct.unpack(">3I", data[4:16])
    pixels = numpy.frombuffer(data, numpy.uint8, offset=16)
    return pixels.reshape(all_images, 1, height, width)[:count]


def as_int8(model):
    """Weights of uint8 with zero point 128 as int8 with zero point 0."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        weights = tensors.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        if weights is None or weights.data_type != onnx.TensorProto.UINT8:
            continue
        numbers = onnx.numpy_helper.to_array(weights).astype(numpy.int16) - 128
        zero = onnx.numpy_helper.to_array(tensors[node.input[2]])
        for name, array in ((node.input[0], numbers), (node.input[2] + "/int8", zero * 0)):
            tensor = onnx.numpy_helper.from_array(array.astype(numpy.int8), name)
            if name in tensors:
                tensors[name].CopyFrom(tensor)
            else:
                model.graph.initializer.append(tensor)
                tensors[name] = tensor
        node.input[2] += "/int8"
    return model


def expected_logits(raw, count):
    expected = numpy.load(raw)
    logits = expected["mantissas"][:count].astype(numpy.float64) * 2.0 ** int(expected["exponent"])
    assert len(numpy.unique(logits)) > 10, "logits that are all alike show nothing"
    return logits


def compare_web(path, raw, count, modules):
    expected = expected_logits(raw, count)
    pixels = images(count)
    with tempfile.TemporaryDirectory() as folder:
        files = os.path.join(folder, "pixels"), os.path.join(folder, "logits")
        pixels.tofile(files[0])
        size = "x".join(map(str, pixels.shape[1:]))
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx_web.mjs")
        subprocess.run(["node", script, modules, path, files[0], str(count), size, files[1]],
                       check=True)
        found = numpy.fromfile(files[1], numpy.float32).reshape(expected.shape)
    different = int((found != expected).sum())
    print(f"{os.path.basename(path)} in WebAssembly: {different} of {found.size} logits differ",
          flush=True)
    return 1 if different else 0


def main(path, raw, count, saturating):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    if saturating:
        model = as_int8(model)
    logits = expected_logits(raw, count)
    with tempfile.TemporaryDirectory() as folder:
        optimised = os.path.join(folder, "optimised.onnx")
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = optimised
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                               providers=["CPUExecutionProvider"])
        found = []
        for first in range(0, count, 50):
            found.append(session.run(None, {"pixels": images(count)[first:first + 50]})[0])
        operators = collections.Counter(n.op_type for n in onnx.load(optimised).graph.node
                                        if not n.output[0].endswith("/place"))  # in a table: int32
    found = numpy.concatenate(found)
    assert found.dtype == numpy.float32 and found.shape == logits.shape, found.shape
    different = int((found != logits).sum())
    in_float = sorted(FLOAT & set(operators))
    integer = {name: n for name, n in sorted(operators.items()) if name.startswith("Q")}
    print(f"{os.path.basename(path)}: {different} of {found.size} logits differ; "
          f"{integer}{', in floating point: ' + str(in_float) if in_float else ''}", flush=True)
    if saturating:
        return 0 if different else 1
    return 1 if different or in_float else 0


if "--web" in sys.argv:
    sys.exit(compare_web(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[5]))
sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), "--saturating" in sys.argv))
