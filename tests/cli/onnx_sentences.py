"""Sentences as inputs of an exported encoder, and its outputs as sentence vectors.

    onnx_sentences.py put VOCAB TEXT FOLDER    # FOLDER/all.npz, padded, and FOLDER/N.npz for each one
    onnx_sentences.py compare FOLDER VECTORS LEAST
        # of FOLDER/*.out.npz: a sentence has the same vector alone and among others, and a cosine
        # of at least LEAST to the vector of VECTORS (NPY)
    onnx_sentences.py classes FOLDER RAW MOST
        # logits differ by at most MOST of the largest from those of RAW (NPZ of predict --raw)
"""
import math, pathlib, re, struct, sys, zipfile
sys.dont_write_bytecode = True
from onnx_files import array, get_npz, put_npz

NAMES = ("input_ids", "attention_mask", "token_type_ids")


def pieces(word, vocabulary):
    """The longest pieces first, as WordPiece has them."""
    found, at = [], 0
    while at < len(word):
        ends = [e for e in range(len(word), at, -1)
                if ("##" if at else "") + word[at:e] in vocabulary]
        if not ends:
            return [vocabulary["[UNK]"]]
        found.append(vocabulary[("##" if at else "") + word[at:ends[0]]])
        at = ends[0]
    return found


def write(path, rows, width):
    """`rows` of tokens, padded to `width`; padding has tokens that would show if they were read."""
    padded = [row + [7] * (width - len(row)) for row in rows]
    masks = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
    dims = (len(rows), width)
    numbers = padded, masks, [[0] * width for _ in rows]
    put_npz(path, {name: array(dims, [n for row in table for n in row], "<i8")
                   for name, table in zip(NAMES, numbers)})


def put(vocabulary_file, text_file, folder):
    vocabulary = {piece: i for i, piece in
                  enumerate(pathlib.Path(vocabulary_file).read_text().split("\n"))}
    rows = []
    for line in pathlib.Path(text_file).read_text().splitlines():
        words = re.findall(r"\w+|[^\w\s]", line.lower())
        inner = [piece for word in words for piece in pieces(word, vocabulary)]
        rows.append([vocabulary["[CLS]"], *inner, vocabulary["[SEP]"]])
    for i, row in enumerate(rows):
        write(f"{folder}/{i}.npz", [row], len(row))
    write(f"{folder}/all.npz", rows, 3 + max(map(len, rows)))
    print(len(rows))


def members(path, name, code):
    """The numbers of an array, whose bytes follow a header."""
    data = zipfile.ZipFile(path).read(name + ".npy")
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return [number for number, in struct.iter_unpack(code, data[start:])]


def vectors_of(folder, name):
    """Means of the rows that are no padding, of length 1."""
    states, header = get_npz(f"{folder}/{name}.out.npz", "last_hidden_state")
    batch, width, channels = map(int, re.search(r"\((\d+), (\d+), (\d+)\)", header).groups())
    mask = members(f"{folder}/{name}.npz", "attention_mask", "<q")
    vectors = []
    for n in range(batch):
        rows = [t for t in range(width) if mask[n * width + t]]
        at = [(n * width + t) * channels for t in rows]
        sums = [sum(states[a + c] for a in at) for c in range(channels)]
        norm = math.sqrt(sum(s * s for s in sums))
        vectors.append([s / norm for s in sums])
    return vectors


def compare(folder, vectors_file, least):
    data = pathlib.Path(vectors_file).read_bytes()
    wanted = [x for x, in struct.iter_unpack("<f", data[10 + struct.unpack("<H", data[8:10])[0]:])]
    together = vectors_of(folder, "all")
    channels = len(together[0])
    assert len(wanted) == channels * len(together) and len(together) > 1
    for i, vector in enumerate(together):
        alone = vectors_of(folder, str(i))[0]
        distance = max(abs(a - b) for a, b in zip(vector, alone))
        assert distance < 1e-5, f"sentence {i} alone differs by {distance}"
        cosine = sum(a * b for a, b in zip(vector, wanted[i * channels:(i + 1) * channels]))
        assert cosine >= float(least), f"sentence {i} has a cosine of {cosine}"
        print(f"{cosine:.6f}")


def classes(folder, raw, most):
    exponent, = members(raw, "exponent", "<i")
    wanted = [m * 2.0 ** exponent for m in members(raw, "mantissas", "<i")]
    together = members(f"{folder}/all.out.npz", "logits", "<f")
    count = len(list(pathlib.Path(folder).glob("[0-9]*.out.npz")))
    alone = [x for i in range(count) for x in members(f"{folder}/{i}.out.npz", "logits", "<f")]
    largest = max(map(abs, wanted))
    assert len(wanted) == len(together) == len(alone) and len(set(wanted)) > count
    for a, b, c in zip(together, alone, wanted):
        assert abs(a - b) < 1e-5 * largest, f"alone {b}, among others {a}"
        assert abs(a - c) <= float(most) * largest, f"{a} in place of {c}"
    print(max(abs(a - c) for a, c in zip(together, wanted)) / largest)


{"put": put, "compare": compare, "classes": classes}[sys.argv[1]](*sys.argv[2:])
