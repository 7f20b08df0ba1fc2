#!/usr/bin/env bash
# Files that are made to take the stack, the memory or the time of whoever reads them.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python3 - "$folder" <<'PYTHON'
import json, os, struct, sys
folder = sys.argv[1]

def put(name, text):
    path = f"{folder}/{name}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)

def put_safetensors(name, header, data_bytes):
    text = json.dumps(header, separators=(",", ":")).encode()
    with open(f"{folder}/{name}.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + bytes(data_bytes))

deep = 100_000
lists = "[" * deep + "]" * deep
objects = '{"a":' * deep + "1" + "}" * deep
for name, text in (("lists", lists), ("objects", objects),
                   ("chain", '{"step":1,"chain":' + lists + ',"digests":[]}'),
                   ("keys", "{" + ",".join(f'"k{i}":1' for i in range(100_000)) + "}")):
    put(f"{name}.jsonl", text + "\n")
    for file in ("metrics.jsonl", "tensors.jsonl", "hashes.jsonl", "summary.json",
                 "evaluation.json"):
        put(f"run-{name}/{file}", text + "\n")
    put(f"run-{name}/config.toml", "seed = 1\n")
dots = ".a" * 50_000
for name, text in (("dots", f"a{dots} = 1\n"), ("table", f"[a{dots}]\n"),
                   ("tables", f"[[a{dots}]]\n"), ("inline", f"a = {{ a{dots} = 1 }}\n"),
                   ("nested", "a = " + "[" * 50_000 + "]" * 50_000 + "\n"),
                   ("most", "a" + ".a" * 4_000 + " = 1\n"),  # within the limit: no crash either
                   ("settings", "".join(f"a{i} = 1\n" for i in range(90_000))),
                   ("name", "a" * 1_000_000 + " = []\n")):
    put(f"{name}.toml", text)
    put(f"run-{name}/config.toml", text)
tensor = {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}
put_safetensors("many", {f"t{i:06}": {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]}
                         for i in range(100_000)}, 100_000)
put_safetensors("long-name", {"x" * 50_000_000: tensor}, 1)
put_safetensors("metadata", {"__metadata__": {f"k{i}": "" for i in range(100_000)}, "x": tensor}, 1)
put_safetensors("description", {"__metadata__": {"kind": "mantissa frozen network 1",
                                                 "description": lists}, "x": tensor}, 1)
PYTHON

# A refusal must come soon, on a busy machine too.
run() {
  status=0
  timeout --kill-after=5 20 "$MANTISSA" "$@" >"$folder/stdout" 2>"$folder/stderr" || status=$?
  # One line is one that a person can read.
  (($(wc -L <"$folder/stderr") < 1000)) || bad "$*" "a very long line on standard error"
}

check_json() {
  local name
  for name in lists objects chain keys; do
    refuses "verify: $name" 2 "$name\.jsonl, line 1: is no line of hashes" \
      verify "$folder/$name.jsonl" "$folder/$name.jsonl"
    accepts "info of a run: $name" "^warning: .*damaged" info "$folder/run-$name"
    run report "$folder/run-$name" --out "$folder/report.html"
    holds "report: $name" grep -q "warning: .*metrics.jsonl, line 1: damaged" "$folder/stderr"
    refuses "statistics: $name" 2 "tensors.jsonl, line 1: damaged" statistics "$folder/run-$name"
    refuses "bench --compare: $name" 2 "summary\.json" \
      bench --model mlp --compare "$folder/run-$name/summary.json"
  done
}

check_toml() {
  local name plan=(plan --data "$data" --model mlp)
  for name in dots table tables inline nested; do
    refuses "--config: $name" 2 "$name\.toml: has more than 4096 dots and brackets" \
      plan --config "$folder/$name.toml"
    refuses "--profile: $name" 2 "$name\.toml: has more than 4096 dots and brackets" \
      "${plan[@]}" --profile "$folder/$name.toml"
    refuses "--resume: $name" 2 "config\.toml: has more than 4096 dots and brackets" \
      train --resume --out "$folder/run-$name"
    accepts "info of a run: $name" "^warning: .*more than 4096 dots" info "$folder/run-$name"
  done
  refuses "--config: most" 2 "most\.toml: 'a' is neither text" plan --config "$folder/most.toml"
  refuses "--config: settings" 2 "90000 settings" plan --config "$folder/settings.toml"
  refuses "--config: name" 2 "name has 1000000 bytes" plan --config "$folder/name.toml"
}

check_safetensors() {
  accepts "info of 100,000 tensors" "^100,000 tensors" info "$folder/many.safetensors"
  refuses "eval of 100,000 tensors" 2 "is not a frozen network" \
    eval --checkpoint "$folder/many.safetensors" --data "$data"
  refuses "info of a long name" 2 "text of more than 16 MiB" info "$folder/long-name.safetensors"
  refuses "info of much metadata" 2 "too many" info "$folder/metadata.safetensors"
  accepts "info of a deep description" "frozen network" info "$folder/description.safetensors"
  refuses "eval of a deep description" 2 "its description is damaged" \
    eval --checkpoint "$folder/description.safetensors" --data "$data"
}

# Memory is bounded by a row, and by what columns may have.
check_tables() {
  python3 - "$folder" <<'PYTHON'
import sys
folder = sys.argv[1]
def put(name, *parts):
    with open(f"{folder}/{name}.csv", "w") as file:
        for part in parts:
            file.write(part)
put("line", "a,b\n1,", "x" * 40_000_000, "\n")
put("quote", "a,b\n1,\"", "x\n" * 20_000_000)
put("columns", ",".join(f"c{i}" for i in range(70_000)), "\n")
put("fields", "a,b\n", "," * 1_000_000, "\n")
put("classes", "a,b\n", *(f"{i},text {i}\n" for i in range(70_000)))
put("texts", "name,b\n", *(f"{'n' * 200}{i},{'ab'[i % 2]}\n" for i in range(100_000)))
put("wide", ",".join(f"c{i}" for i in range(400)), "\n",
    *(",".join(f"t{i % 200}" for _ in range(400)) + "\n" for i in range(1000)))
put("escapes", "a\x1b[2J,b\n1,\x1b[31mred\n", "2,blue\n")
PYTHON
  local train=(train --model mlp --batch-size 1 --out "$folder/none" --data)
  refuses "a line of 40 MB" 2 "line 2: is longer than 16.0 MiB" "${train[@]}" "$folder/line.csv"
  refuses "a quote without end" 2 "begins here is longer.*is a quote missing" \
    "${train[@]}" "$folder/quote.csv"
  refuses "70,000 columns" 2 "line 1: has more than 65536 fields" "${train[@]}" "$folder/columns.csv"
  refuses "a million fields" 2 "line 2: has more than 65536 fields" "${train[@]}" "$folder/fields.csv"
  refuses "texts that are no classes" 2 "(is no class|at most|no column is left)" \
    "${train[@]}" "$folder/classes.csv"
  refuses "a column of names alone" 2 "no column is left" "${train[@]}" "$folder/texts.csv"
  refuses "80,000 categories" 2 "79800 numbers of each row; at most 65536" \
    "${train[@]}" "$folder/wide.csv"
  run data "$folder/escapes.csv"
  holds "no escape sequences are printed" \
    eval '! grep -q $'"'"'\x1b\[2J'"'"' "$folder/stdout" "$folder/stderr"'
}

# Small files that unpack to much: their headers say how much there is to be, and no more is taken.
check_bombs() {
  python3 "${BASH_SOURCE[0]%/*}/../file_bombs.py" "$folder"
  # limited ARGUMENTS...: with 2 GB of address space.
  limited() {
    status=0
    (ulimit -v 2000000 && timeout --kill-after=5 20 "$MANTISSA" "$@") \
      >"$folder/stdout" 2>"$folder/stderr" || status=$?
  }
  limited train --model transformer_nmt --data "$folder/shared.mo" --out "$folder/none"
  holds "a catalogue of shared texts" eval '((status == 2)) && grep -q "many point at the same text" "$folder/stderr"'
  limited train --model mlp --batch-size 1 --data "$folder/pixels" --out "$folder/none"
  holds "pixels of 512 MB in 64" eval '((status == 2)) && grep -q "more data follow its pixels" "$folder/stderr"'
  limited data "$folder/comments"
  holds "comments of 2 GB" eval '((status == 0))'
  limited data "$folder/entry.npz"
  holds "an entry larger than its array" eval '((status == 2)) && grep -q "follow its header, not 8" "$folder/stderr"'
}

check_bombs
check_json
check_toml
check_safetensors
check_tables
finish
