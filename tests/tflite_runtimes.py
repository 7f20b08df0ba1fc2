"""Computes a TensorFlow Lite file in four runtimes, and compares their logits with predict --raw.

    tflite_runtimes.py FILE RAW.npz IMAGES [--ties] [--row NAME]

IMAGES: an IDX file of pictures, the first of which RAW has the logits of. With --ties the file's
biases become even first, so that sums lie on ties: runtimes then differ, which shows that the
comparison finds such differences. Prints how many pictures differ in each runtime, with --row as a
row of a table. Exits with 1 if any does (with --ties: if none does).
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
    ties = "--ties" in sys.argv
    expected = numpy.load(raw)["mantissas"]
    assert len(numpy.unique(expected)) > 10, "logits that are alike show nothing"
    pictures = images_of(images, len(expected))
    with open(path, "rb") as file:
        content = file.read()
    if ties:
        content, expected = on_ties(content), None
    counts = []
    for compute in RUNTIMES.values():
        logits = numpy.stack(list(compute(content, pictures)))
        if expected is None:
            expected = logits  # with ties: of the first runtime
        counts.append(int((logits != expected).any(axis=1).sum()))
    if "--row" in sys.argv:
        name = sys.argv[sys.argv.index("--row") + 1]
        print(f"| {name} | {' | '.join(map(str, counts))} |", flush=True)
    else:
        for name, count in zip(RUNTIMES, counts):
            print(f"{name}: {count} of {len(pictures)} pictures differ")
    return int(any(counts) != ties)


if __name__ == "__main__":
    sys.exit(main())
