"""Compares each output of an exported network in ONNX Runtime with `mantissa predict --raw`.

    onnx_runtime_outputs.py make FOLDER             # NPZ files of data
    onnx_runtime_outputs.py FILE.onnx RAW.npz INPUTS.npz

At the default level of optimisation all numbers of all outputs are the same, bit for bit. Exit code
1 if some differ.
"""
import os
import sys

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import numpy  # noqa: E402
import onnxruntime  # noqa: E402


def make(folder):
    random = numpy.random.default_rng(1)
    vectors = random.normal(size=(600, 2)).astype(numpy.float32)
    pictures = random.integers(0, 255, (600, 8, 8), dtype=numpy.uint8)
    pictures[:, :, 4:] //= (1 + 4 * (numpy.arange(600) % 2)).astype(numpy.uint8)[:, None, None]
    kinds = 2 * (vectors[:, 0] > 0) + numpy.arange(600) % 2
    numpy.savez(f"{folder}/data.npz", picture=pictures, vector=vectors,
                kind=kinds.astype(numpy.uint8),
                age=(40 + 9 * vectors[:, 0] - 5 * vectors[:, 1]).astype(numpy.float32),
                tags=(vectors[:, [0, 1, 0]] > [0, 0, 1]).astype(numpy.uint8))
    numpy.savez(f"{folder}/inputs.npz", picture=pictures, vector=vectors)


def main(path, raw, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    raw, inputs = numpy.load(raw), numpy.load(inputs)
    names = [output.name for output in session.get_outputs()]
    assert names == ["kind", "age", "tags"], names
    found = session.run(None, {"picture": inputs["picture"][:, None], "vector": inputs["vector"]})
    failed = False
    for name, numbers in zip(names, found):
        wanted = raw[name + ".mantissas"] * 2.0 ** int(raw[name + ".exponent"])
        assert len(numpy.unique(wanted)) > 10, "numbers that are alike show nothing"
        different = int((numbers != wanted.reshape(numbers.shape)).sum())
        failed |= different > 0
        print(f"{os.path.basename(path)}, {name}: {different} of {wanted.size} numbers differ")
    return 1 if failed else 0


if sys.argv[1] == "make":
    make(sys.argv[2])
else:
    sys.exit(main(*sys.argv[1:4]))
