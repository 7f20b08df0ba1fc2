# What the tests of the command line share: exit codes, one-line errors and JSON as a contract.
#
#   MANTISSA=build/dev/mantissa tests/cli/train_test.sh
#
# To be sourced. Makes a tiny data set in $data. Each check prints a line; `finish` prints
# "N passed, N failed". `holds NAME eval CONDITION` expands the condition; words are options.
# shellcheck shell=bash
set -uo pipefail

: "${MANTISSA:?names the binary to test}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0
# Scripts in Python find the modules beside this file.
cli_tests=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
export PYTHONPATH=$cli_tests PYTHONDONTWRITEBYTECODE=1
export XDG_CACHE_HOME=$folder/cache  # where profiles are kept

ok() {
  passed=$((passed + 1))
  echo "ok: $1"
}

bad() {
  failed=$((failed + 1))
  echo "FAILED: $1: $2"
  sed 's/^/    | /' "$folder/stderr" | head -5
}

# run ARGUMENTS...: leaves $status, $folder/stdout and $folder/stderr.
run() {
  status=0
  timeout --kill-after=5 120 "$MANTISSA" "$@" >"$folder/stdout" 2>"$folder/stderr" || status=$?
}

# refuses NAME CODE PATTERN ARGUMENTS...: exits with CODE, says it in one line that matches PATTERN
# (extended, case ignored) and prints no result.
refuses() {
  local name=$1 code=$2 pattern=$3
  run "${@:4}"
  if ((status != code)); then
    bad "$name" "exit code $status instead of $code"
  elif (($(wc -l <"$folder/stderr") != 1)); then
    bad "$name" "$(wc -l <"$folder/stderr") lines on standard error instead of one"
  elif ! grep -qiE -- "$pattern" "$folder/stderr"; then
    bad "$name" "the message does not match '$pattern'"
  elif [[ -s $folder/stdout ]]; then
    bad "$name" "prints something on standard output"
  else
    ok "$name"
  fi
}

# accepts NAME PATTERN ARGUMENTS...: exits with 0, and standard output matches PATTERN.
accepts() {
  run "${@:3}"
  if ((status != 0)); then
    bad "$1" "exit code $status"
  elif ! grep -qE -- "$2" "$folder/stdout"; then
    bad "$1" "standard output does not match '$2'"
  else
    ok "$1"
  fi
}

# prints_json NAME ARGUMENTS...: exits with 0 and prints JSON and nothing else.
prints_json() {
  run "${@:2}"
  if ((status != 0)); then
    bad "$1" "exit code $status"
  elif ! python3 -m json.tool "$folder/stdout" >/dev/null 2>&1; then
    bad "$1" "not JSON"
  else
    ok "$1"
  fi
}

# holds NAME COMMAND...: the command succeeds.
holds() {
  if "${@:2}"; then ok "$1"; else bad "$1" "does not hold"; fi
}

# json FILE NAME: an entry of a JSON file.
json() {
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"
}

# above NUMBER NUMBER: the first is above the second.
above() {
  python3 -c 'import sys; sys.exit(not float(sys.argv[1]) > float(sys.argv[2]))' "$@"
}

# same_entry NAME RUN RUN: both summaries have the same entry.
same_entry() {
  local first second
  first=$(json "$2/summary.json" "$1") && second=$(json "$3/summary.json" "$1") &&
    [[ $first == "$second" ]]
}

# flip FILE PLACE: a copy of FILE over itself with one bit flipped, PLACE (0 to 1) of the way in.
flip() {
  python3 - "$1" "$2" <<'PYTHON'
import sys
path, place = sys.argv[1], float(sys.argv[2])
data = bytearray(open(path, "rb").read())
data[min(len(data) - 1, int(place * len(data)))] ^= 1
open(path, "wb").write(data)
PYTHON
}

# go_on_from_the_checkpoint_before RUN SETTINGS...: as if RUN had been killed after its last
# checkpoint but one, resumes it in a copy; the results must be the same.
go_on_from_the_checkpoint_before() {
  local copy=$1-resumed
  cp -r "$1" "$copy"
  rm "$copy/summary.json" "$(printf '%s\n' "$copy"/checkpoint-*.safetensors | tail -1)"
  run train --out "$copy" --resume "${@:2}"
  ((status == 0)) && grep -q "resuming at step" "$folder/stderr" &&
    same_entry state_sha256 "$1" "$copy" && same_entry test_loss "$1" "$copy" &&
    same_entry steps "$1" "$copy"
}

# Pictures of ten classes that are easy to tell apart, and a picture as a file.
make_data() {
  python3 - "$1" <<'PYTHON'
import os, random, struct, sys, zlib
folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
random.seed(1)

def picture(label):
    return bytes(min(255, random.randrange(60) + (190 if (x + y * label) % 10 == label else 0))
                 for y in range(28) for x in range(28))

for name, count in ("train", 256), ("t10k", 64):
    labels = bytes(i % 10 for i in range(count))
    with open(f"{folder}/{name}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 0x801, count) + labels)
    with open(f"{folder}/{name}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, count, 28, 28) + b"".join(map(picture, labels)))

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

def put_png(path, rows):
    raw = b"".join(b"\0" + rows[y * 28:(y + 1) * 28] for y in range(28))
    header = struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
                   + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))

put_png(f"{folder}/picture.png", picture(3))
for i in range(40):
    put_png(f"{folder}/pictures/class {i % 4}/{i}.png", picture(i % 4))
PYTHON
}

# class_names RUN: the names of classes, or of tokens, that its network knows.
class_names() { python3 -c '
import json, struct, sys
with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
print(json.loads(header["__metadata__"]["description"])["class_names"])' "$1/model.safetensors"; }

# finish: says how many checks passed, and fails if one did not.
finish() {
  echo "$passed passed, $failed failed"
  ((failed == 0))
}

data=$folder/data
make_data "$data"
