#!/usr/bin/env bash
# Tables and texts as other programs write them: what is guessed, left out or cut is said, by train
# as by data.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python3 - "$folder" <<'PYTHON'
import pathlib, random, sys
out = pathlib.Path(sys.argv[1])
r = random.Random(1)
rows = [([r.gauss(0, 1) + 2 * (i % 3) for _ in range(4)], "abc"[i % 3]) for i in range(300)]

def put(name, header, lines, bom=False):
    text = "\n".join(([header] if header is not None else []) + lines) + "\n"
    (out / name).write_bytes((b"\xef\xbb\xbf" if bom else b"") + text.encode())

def plain(sep=","):
    return [sep.join([f"{v:.4f}" for v in x] + [y]) for x, y in rows]

put("names.csv", "0,1,2,3,label", plain())
put("index.csv", ",0,1,2,3,label", [f"{i},{line}" for i, line in enumerate(plain())])
put("years.csv", "country,1990,1991,1992,label", [f"land{i}," + line.split(",", 1)[1] for i, line in enumerate(plain())])
for i, marker in enumerate(("#N/A", "<NA>", "NaT", "#DIV/0!", r"\N", "-", ".", "n.a.")):
    put(f"missing{i}.csv", "a,b,c,d,label",
        [marker + "," + line.split(",", 1)[1] if j % 20 == 0 else line for j, line in enumerate(plain())])
put("none.csv", "a,b,c,d,severity",
    [line[:-1] + {"a": "none", "b": "mild", "c": "NA"}[line[-1]] for line in plain()])
put("sep.csv", "sep=;\na;b;c;d;label", plain(";"))
put("trailing.csv", "a,b,c,d,kind,", [line + "," for line in plain()])
put("thousands.csv", "a,price", [f'{x[0]:.3f},"{1000 + 900 * x[1]:,.2f}"' for x, _ in rows])
put("book.txt", None, ["The quick brown fox jumps over the lazy dog."] * 200, bom=True)
put("german.csv", "a;size;label", [f"{x[0]:.1f}".replace(".", ",") + f";{n // 1000}.{n % 1000:03}"
    .replace(";0.", ";") + f";{y}" for (x, y), n in zip(rows, range(842, 6000, 13))])
put("doubt.csv", "b,a,label", [f"{i % 7},{'1.642' if i % 2 else '842'},{'xy'[i % 2]}" for i in range(90)])
put("stray.csv", "a,b,c,d,label", [("x" + line if i == 11 else line) for i, line in enumerate(plain())])
put("dates.csv", "id,date,size,label", [f"{i},2024-0{i % 9 + 1}-1{i % 9},{'1e7' if i == 40 else x[0]},{y}"
    + ("" if i else "") for i, (x, y) in enumerate(rows)])
put("unique.csv", "date,size,label", [f"2024-01-01T{i:05},{x[0]},{y}" for i, (x, y) in enumerate(rows)])
put("constant.csv", "a,b,label", [f"{0.1 + 0.2 if i % 2 else 0.3!r},{x[1] + 2**40!r},{y}" for i, (x, y) in enumerate(rows)])
put("formula.csv", "a,label", [f"{x[0]},{'=cmd|x' if y == 'a' else y}" for x, y in rows])
(out / "pointer.csv").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 123456\n")
PYTHON
train=(train --model mlp --hidden 8 --batch-size 16 --steps 4 --quiet)

# trains NAME PATTERN TABLE SETTINGS...: train exits with 0 and says PATTERN.
trains() {
  local pattern=$2
  rm -rf "$folder/run"
  run "${train[@]}" --data "$folder/$3" --out "$folder/run" "${@:4}"
  holds "train: $1" eval '((status == 0)) && grep -qE -- "$pattern" "$folder/stderr"'
  run data "$folder/$3" "${@:4}"
  holds "data: $1" eval '((status == 0)) && grep -qE -- "$pattern" "$folder/stdout"'
}

trains "names that are numbers" "guessed: line 1 .*taken for the columns' names.*--header no" names.csv
holds "no class of a name" eval '[[ $(class_names "$folder/run") == "['"'a', 'b', 'c'"']" ]]'
trains "an index, and names that are numbers" "guessed: line 1" index.csv
holds "no class of a name there" eval '[[ $(class_names "$folder/run") == "['"'a', 'b', 'c'"']" ]]'
trains "years" "guessed: line 1" years.csv
trains "told: no names" "there are no test rows" names.csv --header no
holds "told: nothing is guessed" eval '! grep -q guessed "$folder/stdout"'
holds "and so a class" eval '[[ $(class_names "$folder/run") == *label* ]]'
refuses "header of another word" 2 "none of yes, no and auto" data "$folder/names.csv" --header maybe
for i in 0 1 2 3 4 5 6 7; do
  trains "missing, marker $i" "column 'a' lacks [0-9]+ values, of which [0-9]+ are '" "missing$i.csv"
done
trains "none and NA as classes" "." none.csv --target severity
holds "three classes" eval '[[ $(class_names "$folder/run") == "['"'NA', 'mild', 'none'"']" ]]'
refuses "told: none is missing" 2 "line .*: has no value of the target" data "$folder/none.csv" --missing none NA
trains "a separator line" "one row in five" sep.csv
trains "trailing commas" "column 6 has no name" trailing.csv
holds "three kinds" eval '[[ $(class_names "$folder/run") == "['"'a', 'b', 'c'"']" ]]'
trains "thousands" "the target 'price' is taken for numbers" thousands.csv
trains "German thousands" "." german.csv
holds "are thousands" python3 -c '
import json, struct, sys
with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
size = json.loads(json.loads(header["__metadata__"]["description"])["table"])["columns"][1]
sys.exit(not size["mean"] > 1000)' "$folder/run/model.safetensors"
trains "numbers of two readings" "guessed: column 'a': '1.642' is read as 1642.*--decimal point" doubt.csv
refuses "a stray text" 2 "stray.csv', line 13: column 'a' is of numbers, and has 'x.*--missing 'x" \
  "${train[@]}" --data "$folder/stray.csv" --out "$folder/none"
trains "a column of dates" "column 'date' is left out: " unique.csv
trains "numbers of rows" "column 'id' has whole numbers that grow from row to row" dates.csv
trains "clipped numbers" "rows: column 'size': 1 numbers lie 8 deviations or more" dates.csv
trains "rounding" "column 'a' is the same in all training rows but for rounding" constant.csv

run "${train[@]}" --data "$folder/formula.csv" --out "$folder/formula"
run predict --checkpoint "$folder/formula" --input "$folder/formula.csv" --csv "$folder/out.csv"
holds "classes that are formulas have an apostrophe" eval \
  'grep -q "'"'"'=cmd" "$folder/out.csv" && ! grep -qE "(^|,)=" "$folder/out.csv"'
for what in data train; do
  arguments=(data "$folder/pointer.csv")
  [[ $what == data ]] || arguments=("${train[@]}" --data "$folder/pointer.csv" --out "$folder/none")
  refuses "$what: a pointer of Git LFS" 2 "is a pointer of Git LFS.*git lfs pull" "${arguments[@]}"
done

run train --model transformer_lm --width 0.25 --data "$folder/book.txt" --sequence 16 --batch-size 4 --steps 2 \
  --out "$folder/lm" --quiet
holds "a byte order mark is no token" eval '((status == 0)) && [[ $(class_names "$folder/lm") != *"\ufeff"* && $(class_names "$folder/lm") != *$'"'\xef\xbb\xbf'"'* ]]'
printf 'The qu\xc3\xb6ck brown fox jumps over the lazy dog.\n%.0s' {1..200} >"$folder/other.txt"
run eval --checkpoint "$folder/lm" --data "$folder/other.txt"
holds "unknown characters are left out of a text" eval '((status == 0)) && grep -q "200 characters (.ö.) are left out" "$folder/stderr"'
finish
