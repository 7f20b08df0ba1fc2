#!/usr/bin/env python3
"""A small task for a language model: answer a question about one sentence as JSON.

  answers.py write FOLDER          train.jsonl (200 chats), held-out.jsonl (40 of other people)
  answers.py check FOLDER COMMAND...
                                   runs COMMAND for each question held out, with the question on
                                   its standard input, and counts the answers that are exactly right

The answer to "Mara is 31, bakes bread and lives in Lyon. Where does Mara live?" is
{"answer": "Lyon"}, and nothing else.
"""

import json
import pathlib
import random
import subprocess
import sys

SEED, TRAINED, HELD_OUT = 7, 200, 40
NAMES = """Ada Ben Cleo Dan Ella Finn Greta Hugo Ines Jack Kira Leo Mara Nils Olga Paul Rosa Sam Tara
Uri Vera Will Yara Zoe""".split()
OTHER_NAMES = "Amir Bella Carl Dora Emil Frida Gus Hana Ivo Julia".split()
PLACES = "Lyon Oslo Porto Bergen Turin Ghent Malaga Graz Lodz Cork Bern Riga Split Nice Leeds".split()
WORK = ["bakes bread", "drives a bus", "paints houses", "sells books", "repairs clocks", "keeps bees",
        "teaches music", "grows apples", "builds boats", "writes songs"]


def example(rng, names):
    """A chat of a question and its answer."""
    name, place, work, age = (rng.choice(names), rng.choice(PLACES), rng.choice(WORK),
                              rng.randrange(19, 80))
    question, answer = rng.choice([(f"Where does {name} live?", place),
                                   (f"How old is {name}?", str(age)),
                                   (f"Who {work}?", name)])
    text = f"{name} is {age}, {work} and lives in {place}. {question}"
    return {"messages": [{"role": "user", "content": text},
                         {"role": "assistant", "content": json.dumps({"answer": answer})}]}


def write(folder):
    rng = random.Random(SEED)
    folder.mkdir(parents=True, exist_ok=True)
    for file, names, count in (("train", NAMES, TRAINED), ("held-out", OTHER_NAMES, HELD_OUT)):
        lines = [json.dumps(example(rng, names)) for _ in range(count)]
        (folder / f"{file}.jsonl").write_text("\n".join(lines) + "\n")


def check(folder, command):
    """Prints each wrong answer, and how many are right."""
    chats = [json.loads(line)["messages"] for line in (folder / "held-out.jsonl").open()]
    right = 0
    for question, answer in chats:
        done = subprocess.run(command, input=question["content"] + "\n", text=True, check=True,
                              stdout=subprocess.PIPE)
        given = done.stdout.strip()
        right += given == answer["content"]
        if given != answer["content"]:
            print(f"{answer['content']} expected, not {given[:80]!r}")
    print(f"{right} of {len(chats)} answers are right")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "write":
        write(pathlib.Path(sys.argv[2]))
    elif len(sys.argv) > 3 and sys.argv[1] == "check":
        check(pathlib.Path(sys.argv[2]), sys.argv[3:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
