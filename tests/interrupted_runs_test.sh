#!/usr/bin/env bash
# Runs that an earlier version of the program began, and that were interrupted. They go on, and end
# with the same bits as in that version.
#
#   MANTISSA=build/dev/mantissa tests/interrupted_runs_test.sh
#   MANTISSA=... tests/interrupted_runs_test.sh --make    makes tests/fixtures/interrupted_runs anew
#
# Making them anew is right only if a change of the bits is meant; tests/training/golden.inc changes then, too.
# shellcheck disable=SC2016
set -uo pipefail

: "${MANTISSA:?names the binary to test}"
fixtures=$(realpath "$(dirname "${BASH_SOURCE[0]}")")/fixtures/interrupted_runs
MANTISSA=$(realpath "$MANTISSA")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1  # the folder of the data stands in config.toml
passed=0 failed=0

# Pictures of five classes, 12 x 12, from a generator of this file: they must never change.
make_data() {
  python3 - <<'PYTHON'
import os, struct
state = 1

def random(below):
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return (state >> 33) % below

def picture(label):
    return bytes(random(90) + (150 if (x + y * label) % 5 == label else 0)
                 for y in range(12) for x in range(12))

os.makedirs("data")
for name, count in ("train", 240), ("t10k", 50):
    labels = bytes(random(5) for _ in range(count))
    with open(f"data/{name}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 0x801, count) + labels)
    with open(f"data/{name}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, count, 12, 12) + b"".join(map(picture, labels)))
PYTHON
}

# Settings of each run. The first has batch norm, micro-batches, augmentation and a validation
# split; the second repeats steps in its warm-up and looks at its training loss.
declare -A settings=(
  [bfp8]="--model resnet8 --width 0.125 --batch-size 16 --micro-batch-size 8 --augment shift=1,flip
          --validation 40 --early-stop 3 --epochs 20 --hash-every 40"
  [dfp8]="--model lenet5 --width 0.25 --format dfp8 --batch-size 20 --lr-schedule plateau
          --learning-rate 0.01 --early-stop 3 --epochs 20 --hash-every 40"
)

# train NAME MORE...: the run of that name, in a folder of that name.
train() {
  # shellcheck disable=SC2086
  timeout 120 "$MANTISSA" train --data data ${settings[$1]} --out "$@" --threads 2 2>>"$folder/log"
}

# The last lines of a run's files, without entries that depend on time.
results() {
  python3 - "$1" <<'PYTHON'
import json, sys
summary = json.load(open(sys.argv[1] + "/summary.json"))
names = ("weights_sha256", "state_sha256", "run_identity", "steps", "best_step", "test_loss",
         "test_accuracy", "re_executions", "saturation_rate")
for name in names:
    print(name, summary.get(name))
print("chain", json.loads(open(sys.argv[1] + "/hashes.jsonl").readlines()[-1])["chain"])
for line in open(sys.argv[1] + "/metrics.jsonl"):
    line = json.loads(line)
    print("metrics", *(line[name] for name in line if name != "examples_per_second"))
PYTHON
}

# Interrupts a run after its first 50 steps, before its last step, and in the middle of an epoch,
# which has 12 steps. Fails if it missed that moment.
interrupt() {
  local name=$1 pid newest
  rm -rf "$name"
  : >"$folder/log"
  # shellcheck disable=SC2086
  "$MANTISSA" train --data data ${settings[$name]} --out "$name" --threads 2 \
    >/dev/null 2>"$folder/log" &
  pid=$!
  until grep -q '"step":50' "$name/metrics.jsonl" 2>/dev/null; do :; done
  kill -TERM "$pid"
  wait "$pid"
  newest=$(printf '%s\n' "$name"/checkpoint-*.safetensors | tail -1)
  [[ ! -e $name/summary.json && $newest =~ -0*([0-9]+)\.safetensors ]] &&
    ((BASH_REMATCH[1] % 12 > 1))
}

make_fixture() {
  local name=$1
  train "$name" >/dev/null || return 1
  results "$name" >"$name.expected"
  until interrupt "$name"; do echo "$name: not the moment wanted, once more"; done
  rm -rf "${fixtures:?}/$name"
  mkdir -p "$fixtures/$name"
  cp "$(printf '%s\n' "$name"/checkpoint-*.safetensors | tail -1)" "$name"/{best.safetensors,*.jsonl,*.toml} \
    "$fixtures/$name"
  mv "$name.expected" "$fixtures/$name/expected.txt"
  ls -l "$fixtures/$name"
}

check() {
  if "${@:2}"; then
    passed=$((passed + 1))
    echo "ok: $1"
  else
    failed=$((failed + 1))
    echo "FAILED: $1"
    tail -5 "$folder/log"
  fi
}

go_on() { train "$1" --resume >/dev/null; }

check_fixture() {
  local name=$1
  cp -r "$fixtures/$name" .
  mv "$name/expected.txt" "$name.expected"
  check "$name: goes on" go_on "$name"
  check "$name: from its checkpoint" grep -q "resuming at step [1-9]" "$folder/log"
  results "$name" >"$name.found"
  check "$name: ends with the same bits" diff "$name.expected" "$name.found"
  : >"$folder/log"
}

make_data
for name in bfp8 dfp8; do
  if [[ ${1:-} == --make ]]; then
    make_fixture "$name" || exit 1
  else
    check_fixture "$name"
  fi
done
[[ ${1:-} == --make ]] && exit 0
echo "$passed passed, $failed failed"
((failed == 0))
