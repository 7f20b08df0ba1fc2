"""Exported language models: their inputs from a text of characters, and what their logits say.

    onnx_language.py put TEXT SEQUENCE FOLDER      # the test examples of TEXT, FOLDER/test.npz, and
                                                   # FOLDER/changed.npz with another last token
    onnx_language.py loss TEXT SEQUENCE FOLDER EVALUATION
        # of FOLDER/test.out.npz: the loss and accuracy of `mantissa eval --json`, nearly; and no
        # position of changed.out.npz but the last has other logits
    onnx_language.py put-masks TEXT PROMPT FOLDER  # FOLDER/masks.npz
    onnx_language.py guesses TEXT PROMPT FOLDER GUESSES
        # of FOLDER/masks.out.npz: the probabilities of `mantissa fill-mask --json`, nearly
"""
import json, math, pathlib, sys
sys.dont_write_bytecode = True
from onnx_files import array, get_npz, put_npz

LOSS, ACCURACY, PROBABILITY = .01, .02, .01  # distances; the loss's is a part of it


class Text:
    def __init__(self, path):
        self.text = pathlib.Path(path).read_text(encoding="utf-8")
        self.names = sorted(set(self.text))  # by code point
        self.ids = {name: i for i, name in enumerate(self.names)}

    def examples(self, sequence):
        """The last 5 of 100 tokens, and for each the one that follows it."""
        tokens = [self.ids[c] for c in self.text]
        part = tokens[len(tokens) * 95 // 100:]
        starts = range(0, (len(part) - 1) // sequence * sequence, sequence)
        return ([part[i:i + sequence] for i in starts],
                [part[i + 1:i + sequence + 1] for i in starts])

    def masked(self, prompt):
        before, after = prompt.split("[MASK]")
        return [*(self.ids[c] for c in before), len(self.names), *(self.ids[c] for c in after)]


def write(path, rows, **others):
    dims = len(rows), len(rows[0])
    numbers = {"input_ids": rows, **others}
    put_npz(path, {name: array(dims, [x for row in table for x in row], "<i8")
                   for name, table in numbers.items()})


def logits_of(folder, name, classes):
    numbers, _ = get_npz(f"{folder}/{name}.out.npz", "logits")
    return [numbers[i:i + classes] for i in range(0, len(numbers), classes)]


def put(text, sequence, folder):
    rows, _ = Text(text).examples(int(sequence))
    write(f"{folder}/test.npz", rows)
    write(f"{folder}/changed.npz", [[*row[:-1], (row[-1] + 1) % 2] for row in rows])


def loss(text, sequence, folder, evaluation):
    known = Text(text)
    classes, wanted = len(known.names), json.loads(pathlib.Path(evaluation).read_text())
    labels = [label for row in known.examples(int(sequence))[1] for label in row]
    logits = logits_of(folder, "test", classes)
    assert len(logits) == len(labels) == wanted["tokens"], (len(logits), len(labels))
    losses = [max(row) + math.log(sum(math.exp(x - max(row)) for x in row)) - row[label]
              for row, label in zip(logits, labels)]
    mean = sum(losses) / len(losses)
    hits = sum(row.index(max(row)) == label for row, label in zip(logits, labels)) / len(labels)
    print(f"loss {mean} ({wanted['loss']}), accuracy {hits} ({wanted['accuracy']})")
    assert abs(mean - wanted["loss"]) < LOSS * wanted["loss"]
    assert abs(hits - wanted["accuracy"]) < ACCURACY
    for i, (a, b) in enumerate(zip(logits, logits_of(folder, "changed", classes))):
        is_last = i % int(sequence) == int(sequence) - 1
        same = max(abs(x - y) for x, y in zip(a, b)) < 1e-5
        assert is_last or same, f"position {i} sees a later one"


def put_masks(text, prompt, folder):
    row = Text(text).masked(prompt)
    write(f"{folder}/masks.npz", [row], attention_mask=[[1] * len(row)],
          token_type_ids=[[0] * len(row)])


def guesses(text, prompt, folder, guesses_file):
    known = Text(text)
    row = logits_of(folder, "masks", len(known.names) + 1)[prompt.index("[MASK]")]
    powers = [math.exp(x - max(row)) for x in row]
    found = json.loads(pathlib.Path(guesses_file).read_text())["masks"][0]
    assert len(found) == 5
    for guess in found:
        probability = powers[known.ids[guess["token"]]] / sum(powers)
        print(guess, probability)
        assert abs(probability - guess["probability"]) < PROBABILITY, (guess, probability)


{"put": put, "loss": loss, "put-masks": put_masks, "guesses": guesses}[sys.argv[1]](*sys.argv[2:])
