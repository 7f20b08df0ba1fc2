"""Compares exported networks in ONNX Runtime with `mantissa predict --raw`, at each of its four
levels of optimisation.

    onnx_runtime.py FILE.onnx RAW.npz PIXELS.idx [--near]

At the levels "extended" and "all", the default, layers are computed in integers: all logits are the
same, bit for bit. At the lower two levels they are computed in float32, where a value may round to
its neighbour. There, and with --near (weights of 4 bits, which are computed in float at all
levels), logits may differ a little. Exit code 1 if they differ more.
"""
import os
import struct
import sys

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import numpy  # noqa: E402
import onnxruntime  # noqa: E402

LEVELS = onnxruntime.GraphOptimizationLevel
LEVELS = {"none": LEVELS.ORT_DISABLE_ALL, "basic": LEVELS.ORT_ENABLE_BASIC,
          "extended": LEVELS.ORT_ENABLE_EXTENDED, "all": LEVELS.ORT_ENABLE_ALL}
LITTLE = .05  # of the largest logit


def pixels_of(path):
    with open(path, "rb") as file:
        count, height, width = struct.unpack(">3I", file.read(16)[4:])
        return numpy.frombuffer(file.read(), numpy.uint8).reshape(count, 1, height, width)


def logits_of(path, level, pixels):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"pixels": pixels})[0]


def main(path, raw, pixels, near):
    raw = numpy.load(raw)
    wanted = raw["mantissas"].astype(numpy.float64) * 2.0 ** int(raw["exponent"])
    assert len(numpy.unique(wanted)) > 10 or "dead" in path, "logits that are alike show nothing"
    pixels, failed, counts = pixels_of(pixels)[:len(wanted)], False, []
    for name, level in LEVELS.items():
        found = logits_of(path, level, pixels)
        different = int((found != wanted).sum())
        distance = numpy.abs(found - wanted).max() / numpy.abs(wanted).max()
        if near or name in ("none", "basic"):
            failed |= not distance <= LITTLE
        else:
            failed |= different > 0
        counts.append(f"{name} {different}")
    print(f"{os.path.basename(path)}: of {wanted.size} logits differ: {', '.join(counts)}"
          f"{'  WRONG' if failed else ''}", flush=True)
    return 1 if failed else 0


sys.exit(main(*sys.argv[1:4], "--near" in sys.argv))
