"""Writes data.h for tests/device/program.c: pictures and labels as constants.

  make_data.py FOLDER PICTURES                 the first test pictures
  make_data.py FOLDER STEPS BATCH SEED         the batches of a run's first steps

FOLDER has IDX files of a data set. The batches are in the order of `mantissa train --seed SEED`.
"""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from export_c import epoch_order, read_idx  # noqa: E402


def array(kind, name, numbers):
    words = [str(n) for n in numbers]
    lines = [", ".join(words[i: i + 24]) for i in range(0, len(words), 24)]
    return f"static const {kind} {name}[] = {{\n" + ",\n".join(lines) + "};\n"


def main(folder, count, batch=None, seed=None):
    folder, count = pathlib.Path(folder), int(count)
    print("#pragma once\n\n#include <stdint.h>\n")
    if batch is None:
        images, _, size = read_idx(folder, "t10k")
        print(f"enum {{ PICTURES = {count} }};")
        print(array("uint8_t", "pictures", images[: count * size]))
        return
    batch = int(batch)
    images, labels, size = read_idx(folder, "train")
    per_epoch, order = len(labels) // batch, []
    for epoch in range(-(-count // per_epoch)):
        order += epoch_order(epoch, len(labels), int(seed))[: per_epoch * batch]
    chosen = order[: count * batch]
    print(f"enum {{ STEPS = {count}, BATCH_BYTES = {batch * size} }};")
    print(array("uint8_t", "pictures", b"".join(images[i * size: (i + 1) * size] for i in chosen)))
    print(array("int32_t", "labels", [labels[i] for i in chosen]))


if __name__ == "__main__":
    main(*sys.argv[1:])
