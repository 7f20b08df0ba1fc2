"""Exported translators of bytes: inputs from sentences and their translations, and whether the file
says the same ones.

    onnx_translation.py put SENTENCES TRANSLATIONS FOLDER  # FOLDER/pairs.npz
    onnx_translation.py agrees TRANSLATIONS SEQUENCE FOLDER LEAST
        # of FOLDER/pairs.out.npz: the likeliest token is the next one of the translation, by
        # `mantissa translate --beam 1`, at so large a part of all positions; translations that have
        all tokens of a sequence were cut, and do not end
"""
import pathlib, sys
sys.dont_write_bytecode = True
from onnx_files import array, get_npz, put_npz

END, BYTES = ord("\n"), 256  # begins and ends the target, and fills what is left


def lines(path):
    return [list(line) for line in pathlib.Path(path).read_bytes().split(b"\n")[:-1]]


def put(sentences, translations, folder):
    sources, targets = lines(sentences), [[END, *row] for row in lines(translations)]
    assert len(sources) == len(targets) > 0

    def padded(rows, padding):
        longest = max(map(len, rows))
        numbers = [x for row in rows for x in row + [padding] * (longest - len(row))]
        return array((len(rows), longest), numbers, "<i8")

    put_npz(f"{folder}/pairs.npz", {
        "input_ids": padded(sources, END),
        "attention_mask": padded([[1] * len(row) for row in sources], 0),
        "decoder_input_ids": padded(targets, END)})


def agrees(translations, sequence, folder, least):
    numbers, _ = get_npz(f"{folder}/pairs.out.npz", "logits")
    targets = lines(translations)
    steps = 1 + max(map(len, targets))
    assert len(numbers) == len(targets) * steps * BYTES
    hits, count = 0, 0
    for i, row in enumerate(targets):
        for t, token in enumerate(row + [END] * (len(row) < int(sequence))):
            at = (i * steps + t) * BYTES
            logits = numbers[at:at + BYTES]
            hits += logits.index(max(logits)) == token
            count += 1
    print(f"{hits} of {count} tokens, {len(set(map(tuple, targets)))} translations")
    assert hits >= float(least) * count


{"put": put, "agrees": agrees}[sys.argv[1]](*sys.argv[2:])
