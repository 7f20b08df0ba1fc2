"""Data for tests/cli/export_c_test.sh, and comparisons of numbers.

  data FOLDER [SIDE]               writes a small data set as IDX files
  logits FOLDER EXAMPLE RAW.NPZ    the example's logits of the test pictures are those of the file
  states FOLDER OTHER              two runs' checkpoints have the same tensors
  batches FOLDER STEPS BATCH [SEED]   writes the batches of a run (seed 3) to the standard output
  table FOLDER                     writes a small table whose last column is a number to predict
  rows FOLDER STEPS BATCH          the batches of a run on it, by `mantissa data --json` on standard input
"""

import gzip
import io
import json
import pathlib
import struct
import subprocess
import sys
import zipfile

SIDE, TRAIN, TEST, CLASSES, SEED = 28, 320, 64, 10, 3


def philox(counter, key):
    for _ in range(10):
        p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(p1 >> 32) ^ counter[1] ^ key[0], p1 & 0xFFFFFFFF,
                   (p0 >> 32) ^ counter[3] ^ key[1], p0 & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def epoch_order(epoch, count, seed=SEED):
    """src/data/batches/epoch_order.cpp: Fisher-Yates by counter-based random numbers."""
    order = list(range(count))
    for i in range(count, 1, -1):
        words = philox([i - 1, 0, epoch, 2], [seed, 0])
        other = ((words[1] << 32 | words[0]) * i) >> 64
        order[i - 1], order[other] = order[other], order[i - 1]
    return order


def pictures(count, first, side):
    """A bright square whose place depends on the class, on noise."""
    images, labels, state = bytearray(), bytearray(), 12345 + first
    for n in range(count):
        label = n % CLASSES
        labels.append(label)
        for y in range(side):
            for x in range(side):
                state = (state * 1103515245 + 12345) & 0x7FFFFFFF
                inside = 0 <= y * 28 // side - label * 2 < 8 and 0 <= x * 28 // side - label < 9
                images.append(min(255, (state >> 16) % 90 + (150 if inside else 0)))
    return bytes(images), bytes(labels)


def write_data(folder, side=SIDE):
    folder.mkdir()
    for name, count, first in (("train", TRAIN, 0), ("t10k", TEST, 7)):
        images, labels = pictures(count, first, side)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(
            struct.pack(">4I", 2051, count, side, side) + images)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, count) + labels)


def read_file(path):
    if path.exists():
        return path.read_bytes()
    return gzip.open(path.with_name(path.name + ".gz")).read()


def read_idx(folder, name):
    """All pictures, their labels, and the bytes of a picture."""
    images = read_file(folder / f"{name}-images-idx3-ubyte")
    _, _, height, width = struct.unpack(">4I", images[:16])
    return images[16:], read_file(folder / f"{name}-labels-idx1-ubyte")[8:], height * width


def read_mantissas(path):
    with zipfile.ZipFile(path) as archive:
        data = io.BytesIO(archive.read("mantissas.npy"))
    header = data.read(10)
    data.read(struct.unpack("<H", header[8:10])[0])
    rest = data.read()
    return struct.unpack(f"<{len(rest) // 4}i", rest)


def compare_logits(folder, example, raw):
    images, _, _ = read_idx(folder, "t10k")
    printed = subprocess.run([example], input=images, capture_output=True, check=True).stdout
    found = [int(word) for word in printed.split()]
    wanted = read_mantissas(raw)
    differ = sum(a != b for a, b in zip(found, wanted, strict=True))
    print(f"{len(wanted)} logits, {differ} differ")
    return 1 if differ or len(set(wanted)) < 10 else 0


def read_tensors(folder):
    """All tensors of a run's only checkpoint: their description, and their bytes."""
    (path,) = folder.glob("checkpoint-*.safetensors")
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8: 8 + length])
    header.pop("__metadata__")
    return header, data[8 + length:]


def compare_states(folder, other):
    one, two = read_tensors(folder), read_tensors(pathlib.Path(other))
    print(f"{len(one[0])} tensors, {len(one[1])} bytes")
    return 0 if one == two and any(one[1]) else 1


def write_batches(folder, steps, batch, seed=SEED):
    images, labels, size = read_idx(folder, "train")
    per_epoch, order = len(labels) // batch, []
    for epoch in range(-(-steps // per_epoch)):
        order += epoch_order(epoch, len(labels), seed)[: per_epoch * batch]
    for step in range(steps):
        chosen = order[step * batch: (step + 1) * batch]
        sys.stdout.buffer.write(b"".join(images[i * size: (i + 1) * size] for i in chosen))
        sys.stdout.buffer.write(struct.pack(f"={batch}i", *(labels[i] for i in chosen)))


def write_table(folder):
    folder.mkdir()
    for name, count, first in (("train", TRAIN, 0), ("test", TEST, 7)):
        lines, state = ["a,b,c,y"], 777 + first
        for _ in range(count):
            numbers = []
            for _ in range(4):
                state = (state * 1103515245 + 12345) & 0x7FFFFFFF
                numbers.append((state >> 16) % 201 - 100)
            a, b, c, noise = numbers
            lines.append(f"{a},{b / 8},{c},{2 * a - 5 * b + c / 4 + noise / 4}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def write_rows(folder, steps, batch):
    """Standardised numbers at the exponent -12, then targets at -10, to nearest."""
    table = json.load(sys.stdin)["table"]
    columns = [*table["columns"], table["target"]]
    rows = [[float(word) for word in line.split(",")]
            for line in (folder / "train.csv").read_text().split("\n")[1:-1]]
    units = [1 << 12] * (len(columns) - 1) + [1 << 10]
    rows = [[round((x - column["mean"]) / column["deviation"] * unit)
             for x, column, unit in zip(row, columns, units)] for row in rows]
    per_epoch, order = len(rows) // batch, []
    for epoch in range(-(-steps // per_epoch)):
        order += epoch_order(epoch, len(rows))[: per_epoch * batch]
    for step in range(steps):
        chosen = [rows[i] for i in order[step * batch: (step + 1) * batch]]
        for row in chosen:
            sys.stdout.buffer.write(struct.pack(f"={len(row) - 1}h", *row[:-1]))
        sys.stdout.buffer.write(struct.pack(f"={batch}h", *(row[-1] for row in chosen)))


def main(command, folder, *rest):
    folder = pathlib.Path(folder)
    if command == "data":
        write_data(folder, *(int(word) for word in rest))
    elif command == "logits":
        return compare_logits(folder, *rest)
    elif command == "states":
        return compare_states(folder, *rest)
    elif command == "table":
        write_table(folder)
    elif command == "rows":
        write_rows(folder, *(int(word) for word in rest))
    else:
        write_batches(folder, *(int(word) for word in rest))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
