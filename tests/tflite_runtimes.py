"""Computes a TensorFlow Lite file in four runtimes, and compares their logits with predict --raw.

    tflite_runtimes.py FILE RAW.npz IMAGES [--ties]

IMAGES: an IDX file of pictures, the first of which RAW has the logits of; or an NPY file. With
--ties the file is changed first, so that sums lie on ties: runtimes then differ, which shows that
the comparison finds such differences. Prints "N of M pictures differ" for each runtime; exits with 1
if any does (with --ties: if none does).
"""
import gzip
import struct
import sys

import numpy
import tflite
from ai_edge_litert import interpreter as litert
from tflite_micro.python.tflite_micro import runtime as micro


def images_of(path, count):
    if path.endswith(".npy"):
        return numpy.load(path)[:count]
    opened = gzip.open if open(path, "rb").read(2) == b"\x1f\x8b" else open
    with opened(path, "rb") as file:
        _, _, height, width = struct.unpack(">4I", file.read(16))
        pixels = numpy.frombuffer(file.read(count * height * width), numpy.uint8)
    return pixels.reshape(count, height, width, 1)


def on_ties(content):
    """Even biases, and scales that are powers of two: sums lie on ties."""
    changed = bytearray(content)
    model = tflite.Model.GetRootAs(changed)
    graph = model.Subgraphs(0)
    for i in range(graph.TensorsLength()):
        tensor = graph.Tensors(i)
        buffer = model.Buffers(tensor.Buffer())
        if not tensor.Name().endswith(b".bias") or buffer.DataLength() == 0:
            continue
        data = buffer.DataAsNumpy()
        data.setflags(write=True)
        numbers = data.view(numpy.int32)
        numbers &= ~1
    return bytes(changed)


def by_litert(content, pictures, **options):
    network = litert.Interpreter(model_content=content, num_threads=1, **options)
    network.allocate_tensors()
    source, result = network.get_input_details()[0]["index"], network.get_output_details()[0]["index"]
    for picture in pictures:
        network.set_tensor(source, picture[None])
        network.invoke()
        yield network.get_tensor(result)[0].copy()


def by_micro(content, pictures):
    network = micro.Interpreter.from_bytes(content, arena_size=16 << 20)
    for picture in pictures:
        network.set_input(picture[None], 0)
        network.invoke()
        yield network.get_output(0)[0].copy()


kinds = litert.OpResolverType
RUNTIMES = {
    "LiteRT, XNNPACK": lambda c, p: by_litert(c, p),
    "LiteRT, optimised": lambda c, p: by_litert(
        c, p, experimental_op_resolver_type=kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES),
    "LiteRT, reference": lambda c, p: by_litert(
        c, p, experimental_op_resolver_type=kinds.BUILTIN_REF),
    "TFLM": by_micro,
}


def main():
    path, raw, images = sys.argv[1:4]
    ties = "--ties" in sys.argv
    expected = numpy.load(raw)["mantissas"]
    assert len(numpy.unique(expected)) > 10, "logits that are alike show nothing"
    pictures = images_of(images, len(expected))
    content = open(path, "rb").read()
    if ties:
        content = on_ties(content)
    reference, any_differs = None, False
    for name, compute in RUNTIMES.items():
        logits = numpy.stack(list(compute(content, pictures)))
        if reference is None:
            reference = logits if ties else expected
        differing = int((logits != reference).any(axis=1).sum())
        any_differs = any_differs or differing > 0
        print(f"{name}: {differing} of {len(pictures)} pictures differ")
    return int(any_differs != ties)


if __name__ == "__main__":
    sys.exit(main())
