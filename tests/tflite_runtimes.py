"""Computes a TensorFlow Lite file in four runtimes, and compares their logits with predict --raw.

    tflite_runtimes.py FILE RAW.npz IMAGES [--ties] [--row NAME]
    tflite_runtimes.py FILE --random COUNT [--row NAME]

IMAGES: an IDX file of pictures, the first of which RAW has the logits of. With --ties the file's
biases become even first, so that sums lie on ties: runtimes then differ, which shows that the
comparison finds such differences. Prints how many pictures differ in each runtime, with --row as a
row of a table. Exits with 1 if any does (with --ties: if none does).

With --random, on random bytes: how many results differ from the first runtime's.
"""
import gzip
import struct
import sys

import numpy
import tflite
from ai_edge_litert import interpreter as litert
from tflite_micro.python.tflite_micro import runtime as micro


def images_of(path, count):
    with open(path, "rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    with (gzip.open if is_packed else open)(path, "rb") as file:
        _, _, height, width = struct.unpack(">4I", file.read(16))
        pixels = numpy.frombuffer(file.read(count * height * width), numpy.uint8)
    return pixels.reshape(count, height, width, 1)


def inputs_of(content, count, data):
    """Bytes as inputs of a model."""
    graph = tflite.Model.GetRootAs(content).Subgraphs(0)
    tensor = graph.Tensors(graph.Inputs(0))
    kind = {tflite.TensorType.INT8: numpy.int8, tflite.TensorType.UINT8: numpy.uint8}[tensor.Type()]
    size = (count, *tensor.ShapeAsNumpy()[1:])
    return numpy.frombuffer(data, kind, int(numpy.prod(size))).reshape(size)


def on_ties(content):
    changed = bytearray(content)
    model = tflite.Model.GetRootAs(changed)
    graph = model.Subgraphs(0)
    for i in range(graph.TensorsLength()):
        tensor = graph.Tensors(i)
        if not tensor.Name().endswith(b".bias"):
            continue
        data = model.Buffers(tensor.Buffer()).DataAsNumpy()
        data.setflags(write=True)
        numbers = data.view(numpy.int32)
        numbers &= ~1
    return bytes(changed)


def by_litert(resolver):
    def compute(content, pictures):
        network = litert.Interpreter(model_content=content, num_threads=1,
                                     experimental_op_resolver_type=resolver)
        network.allocate_tensors()
        source = network.get_input_details()[0]["index"]
        result = network.get_output_details()[0]["index"]
        for picture in pictures:
            network.set_tensor(source, picture[None])
            network.invoke()
            yield network.get_tensor(result)[0].copy()
    return compute


def by_micro(content, pictures):
    network = micro.Interpreter.from_bytes(content, arena_size=32 << 20)
    for picture in pictures:
        network.set_input(picture[None], 0)
        network.invoke()
        yield network.get_output(0)[0].copy()


RUNTIMES = {
    "LiteRT, XNNPACK": by_litert(litert.OpResolverType.AUTO),
    "LiteRT, optimised": by_litert(litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES),
    "LiteRT, reference": by_litert(litert.OpResolverType.BUILTIN_REF),
    "TFLM": by_micro,
}


def main():
    path, raw, images = sys.argv[1:4]
    ties, is_random = "--ties" in sys.argv, raw == "--random"
    with open(path, "rb") as file:
        content = file.read()
    if is_random:
        numbers = numpy.random.default_rng(1).bytes(int(images) << 17)
        expected, pictures = None, inputs_of(content, int(images), numbers)
    else:
        expected = numpy.load(raw)["mantissas"]
        assert len(numpy.unique(expected)) > 10, "logits that are alike show nothing"
        pictures = images_of(images, len(expected))
    if ties:
        content, expected = on_ties(content), None
    counts = []
    for compute in RUNTIMES.values():
        logits = numpy.stack(list(compute(content, pictures)))
        if expected is None:
            expected = logits  # of the first runtime
        counts.append(int((logits != expected).any(axis=1).sum()))
    if "--row" in sys.argv:
        name = sys.argv[sys.argv.index("--row") + 1]
        print(f"| {name} | {' | '.join(map(str, counts))} |", flush=True)
    else:
        for name, count in zip(RUNTIMES, counts):
            print(f"{name}: {count} of {len(pictures)} pictures differ")
    return int(any(counts) != ties and not is_random)


if __name__ == "__main__":
    sys.exit(main())
