#!/usr/bin/env bash
# What reads finished runs: `verify`, `report`, `statistics`, `info`; event files.
# shellcheck disable=SC2016,SC2013
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# change_hashes FILE: another digest of linear2.weights from step 10 on, in a chain that holds.
change_hashes() {
  python3 - "$1" <<'PYTHON'
import hashlib, json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
chain = ""
with open(sys.argv[1], "w") as file:
    for line in lines:
        if line["step"] >= 10:
            line["digests"][lines[0]["tensors"].index("linear2.weights")] = "0123456789abcdef"
        del line["chain"]
        text = json.dumps(line, separators=(",", ":"))
        chain = line["chain"] = hashlib.sha256((chain + text).encode()).hexdigest()
        file.write(json.dumps(line, separators=(",", ":")) + "\n")
PYTHON
}

check_verify() {
  local train=(train --data "$data" --model mlp --batch-size 32 --steps 20 --hash-every 5 --quiet)
  run "${train[@]}" --threads 2 --out "$folder/v1"
  run "${train[@]}" --threads 1 --isa scalar --out "$folder/v2"
  accepts "verify: the same" "^same: .* 5 steps, the last of them 20" \
    verify "$folder/v1" "$folder/v2"
  prints_json "verify --json" verify "$folder/v1" "$folder/v2/hashes.jsonl" --json
  run "${train[@]}" --hash-every 4 --out "$folder/v3"
  accepts "verify: common steps only" "only common ones" verify "$folder/v1" "$folder/v3"
  run "${train[@]}" --seed 2 --out "$folder/v3" --overwrite
  refuses "verify: other settings are named" 2 "different runs: seed 1 / 2" \
    verify "$folder/v1" "$folder/v3"
  refuses "verify of one run" 2 "wants 2" verify "$folder/v1"
  refuses "verify of three runs" 2 "wants 2 .*not 3" verify "$folder/v1" "$folder/v2" "$folder/v3"
  refuses "verify of nothing" 2 "none" verify "$folder/v1" "$folder/none"
  refuses "verify of runs without hashes" 2 "hash-every" verify "$folder/v1" "$data"
  change_hashes "$folder/v2/hashes.jsonl"
  run verify "$folder/v1" "$folder/v2"
  holds "verify: different, exit code 1" eval '((status == 1)) && [[ ! -s $folder/stderr ]]'
  holds "verify: first differing step and tensor" \
    eval 'grep -q "first at step 10, same at step 5" "$folder/stdout" &&
      grep -q "1 of 50 tensors: linear2.weights$" "$folder/stdout"'
  flip "$folder/v1/hashes.jsonl" 0.5
  refuses "verify of a changed file" 2 "v1/hashes\.jsonl, line [0-9]" verify "$folder/v1" "$folder/v2"
}

# A log that lost lines, as by a loss of power, proves nothing about them.
check_gaps() {
  local whole=$folder/whole run=$folder/gap
  run train --data "$data" --model mlp --batch-size 32 --steps 20 --hash-every 5 --quiet --out "$whole"
  cp -r "$whole" "$run"
  rm "$run/summary.json" "$run/checkpoint-00000020.safetensors"
  sed -i 2,4d "$run/hashes.jsonl"
  run train --out "$run" --resume
  holds "resuming says that hashes are missing" \
    grep -q "hashes\.jsonl has no lines between step 0 and step 16" "$folder/stderr"
  run verify "$whole" "$run"
  holds "verify: missing hashes, exit code 2" eval '((status == 2)) && [[ ! -s $folder/stderr ]]'
  holds "verify: missing hashes are not called the same" \
    eval '! grep -q "^same" "$folder/stdout" &&
      grep -q "^note: .*gap/hashes\.jsonl has no hashes between step 0 and step 20$" "$folder/stdout"'
  run verify "$whole" "$run" --json
  holds "verify --json: missing hashes are not the same" grep -q '"same": null' "$folder/stdout"
}

check_report() {
  accepts "report" "^written to .*r.html" report "$folder/v1" "$folder/v2" --out "$folder/r.html"
  prints_json "report --json" report "$folder/v1" --out "$folder/r.html" --json
  refuses "report of nothing" 2 "at least 1|wants" report
  refuses "report of no run" 2 "nothing of a run" report "$data" --out "$folder/r.html"
  refuses "report into no folder" 2 "no folder" report "$folder/v1" --out "$folder/none/r.html"
  local seven=("$folder"/v{1,1,1,1,1,1,1})
  refuses "report of seven runs" 2 "at most 6" report "${seven[@]}" --out "$folder/r.html"
}

check_statistics() {
  local train=(train --data "$data" --model mlp --batch-size 32 --quiet)
  run "${train[@]}" --steps 60 --statistics --out "$folder/st1"
  accepts "statistics" "^linear1 +7 " statistics "$folder/st1"
  holds "statistics: no line is longer than 80 columns" \
    eval '! LC_ALL=C.UTF-8 grep -qE "^.{81}" "$folder/stdout"'
  accepts "statistics --kind" "^Gradients of values" statistics "$folder/st1" --kind gradient
  holds "statistics --kind shows no other" eval '! grep -q "^Parameters" "$folder/stdout"'
  prints_json "statistics --json" statistics "$folder/st1" --json
  holds "statistics --json: counts of all mantissas" \
    python3 -c 'import json, sys
tensors = json.load(open(sys.argv[1]))["tensors"]
counted = sum(sum(t["bit_counts"]) for t in tensors if t["kind"] == "parameter")
assert counted == json.load(open(sys.argv[2]))["parameters"]' \
    "$folder/stdout" "$folder/st1/summary.json"
  run "${train[@]}" --steps 60 --out "$folder/st2"
  holds "--statistics changes no weight" same_entry state_sha256 "$folder/st1" "$folder/st2"
  accepts "statistics without histograms" "Train with --statistics" statistics "$folder/st2"
  refuses "statistics of an unknown kind" 2 "choose value, gradient" \
    statistics "$folder/st1" --kind weights
  accepts "statistics --quiet" "steps observed, up to 60; .* worth a look$" \
    statistics "$folder/st1" --quiet
  echo "{]" >>"$folder/st2/tensors.jsonl"
  run statistics "$folder/st2"
  holds "statistics of a damaged run: warns" \
    eval '((status == 0)) && grep -q "warning: tensors.jsonl, line 4" "$folder/stderr"'
  refuses "--statistics in fp32" 2 "no mantissas" "${train[@]}" --steps 1 --format fp32 \
    --statistics --out "$folder/st3"
  refuses "statistics of nothing" 2 "wants 1" statistics
  refuses "statistics of no run" 2 "nothing of a run" statistics "$data"
}

# events FOLDER: steps and losses of the event files in it, by the framing and protobuf's rules.
events() {
  python3 - "$1" <<'PYTHON'
import glob, struct, sys

def fields(data):
    at = 0
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]; at += 1
            value |= (byte & 127) << shift; shift += 7
            if byte < 128: return value
    while at < len(data):
        key = varint()
        if key & 7 == 0: yield key >> 3, varint(); continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, data[at:at + size]; at += size

for path in sorted(glob.glob(sys.argv[1] + "/**/*tfevents*", recursive=True)):
    data, at = open(path, "rb").read(), 0
    while at < len(data):
        size, = struct.unpack_from("<Q", data, at)
        event = dict(fields(data[at + 12:at + 12 + size])); at += 16 + size
        for _, value in fields(event.get(5, b"")):
            value = dict(fields(value))
            if value[1] == b"train/loss":
                print(event[2], "%.5f" % struct.unpack("<f", value[2]))
PYTHON
}

losses() { python3 -c 'import json, sys
for line in open(sys.argv[1]): row = json.loads(line); print(row["step"], "%.5f" % row["loss"])' "$1"; }

check_tensorboard() {
  local train=(train --data "$data" --model mlp --batch-size 32 --quiet --tensorboard "$folder/tb")
  run "${train[@]}" --steps 120 --out "$folder/t1"
  holds "--tensorboard: what metrics.jsonl says" \
    eval '((status == 0)) && diff <(events "$folder/tb") <(losses "$folder/t1/metrics.jsonl")'
  rm "$folder/t1/summary.json"
  run "${train[@]}" --steps 120 --out "$folder/t1" --resume
  rm "$folder/t1/checkpoint-00000120.safetensors" "$folder/t1/summary.json"
  run "${train[@]}" --steps 120 --out "$folder/t1" --resume
  holds "--tensorboard: the same after --resume" \
    eval '((status == 0)) && diff <(events "$folder/tb") <(losses "$folder/t1/metrics.jsonl")'
  accepts "report --tensorboard" "^written" \
    report "$folder/t1" --tensorboard "$folder/tb2" --out "$folder/r.html"
  holds "report --tensorboard: the same" diff <(events "$folder/tb") <(events "$folder/tb2/t1")
  refuses "--tensorboard into a file" 2 "tensorboard.*folder" "${train[@]}" --steps 1 \
    --out "$folder/t2" --tensorboard "$data/picture.png"
}

check_info() {
  run train --data "$data" --model mlp --batch-size 32 --steps 10 --quiet --out "$folder/i1"
  accepts "info of a run" "^run .*i1" info "$folder/i1"
  accepts "info of a run: results" "test_accuracy +[0-9.]+" info "$folder/i1"
  accepts "info of a checkpoint" "^checkpoint " info "$folder/i1/checkpoint-00000010.safetensors"
  accepts "info of a frozen network: tensors" "^linear1.weights +I8 +\[200,784\] +156800 +-[0-9]+ +7" \
    info "$folder/i1/model.safetensors" --tensors
  prints_json "info of a run as JSON" info "$folder/i1" --json
  holds "info of a run: its identity" eval '[[ $(json "$folder/stdout" summary) == \
    *"$(json "$folder/i1/summary.json" run_identity)"* ]]'
  prints_json "info of a checkpoint as JSON" info "$folder/i1/checkpoint-00000010.safetensors" --json
  holds "info of a checkpoint: its step" \
    eval '[[ $(json "$folder/stdout" metadata) == *"'"'step': '10'"'"* ]]'
  refuses "info of no run" 2 "nothing of a run" info "$data"
  refuses "info of something else" 2 "picture\.png" info "$data/picture.png"
  refuses "info of nothing" 2 "none" info "$folder/none"
  # A file of the run that is none.
  local name
  for name in evaluation.json summary.json; do
    mv "$folder/i1/$name" "$folder/kept"
    mkfifo "$folder/i1/$name"
    accepts "info of a run whose $name is a pipe" "$name +is no regular file" info "$folder/i1"
    rm "$folder/i1/$name"
    mkdir "$folder/i1/$name"
    accepts "info of a run whose $name is a folder" "$name +is no regular file" info "$folder/i1"
    rmdir "$folder/i1/$name"
    mv "$folder/kept" "$folder/i1/$name"
  done
  flip "$folder/i1/model.safetensors" 0.5
  refuses "info of a damaged file" 2 "model\.safetensors" info "$folder/i1/model.safetensors"
}

check_verify
check_gaps
check_report
check_statistics
check_tensorboard
check_info
finish
