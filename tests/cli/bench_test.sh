#!/usr/bin/env bash
# `bench`: its tables, its JSON, comparisons, and where it may write.
# shellcheck disable=SC2016,SC2013
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# missing_entries FILE: prints what bench's JSON lacks; fails if its times do not add up.
missing_entries() {
  python3 - "$1" <<'PYTHON'
import json, sys
bench = json.load(open(sys.argv[1]))
wanted = {"machine": "cpu isa threads", "run": "model format batch_size data parameters",
          "peaks": "integer_instructions measured", "step": "median_us p10_us p90_us overhead_us"}
print(*[f"{name}.{key}" for name, keys in wanted.items() for key in keys.split()
        if key not in bench[name]])
rows = bench["instructions"]
assert rows and all(row["median_us"] > 0 for row in rows), "rows without a time"
total = sum(row["median_us"] for row in rows)
for table in "by_op", "by_phase":
    assert abs(sum(row["median_us"] for row in bench[table]) - total) < 1e-6 * total, table
PYTHON
}

# nested_bench FILE: FILE as `bench --out` wrote it, with a model that is nested ever deeper.
nested_bench() {
  python3 - "$1" <<'PYTHON'
import json, sys
bench = json.load(open(sys.argv[1]))
bench["run"]["model"] = "here"
print(json.dumps(bench).replace('"here"', "[" * 100000 + "]" * 100000))
PYTHON
}

check_bench() {
  local bench=(bench --model mlp --batch-size 16 --threads 2 --steps 3 --warmup 1) file
  accepts "bench" "^  median +[0-9.]+ us" "${bench[@]}"
  holds "bench: every instruction has its row" \
    eval '(($(grep -cE "^(forward|grad_in|grad_w|update) " "$folder/stdout") >= 27))'
  holds "bench: at most 100 columns" eval '! grep -qE ".{101}" "$folder/stdout"'
  accepts "bench --sort time" "^grad_w +linear1" "${bench[@]}" --sort time
  accepts "bench of a data set" "^  data wait +[0-9.]+ us" "${bench[@]}" --data "$data"
  accepts "bench --isa scalar" "plain integer" "${bench[@]}" --isa scalar
  accepts "bench of larger pictures" "16x32x32x3" "${bench[@]}" --input-size 32x32x3 --classes 4
  mkdir -p "$folder/bench"
  file=$folder/bench/bench.json
  prints_json "bench --json" "${bench[@]}" --json --quiet --out "$folder/bench"
  holds "bench --out writes what --json prints" cmp -s "$folder/stdout" "$file"
  holds "bench --json has all entries" eval 'missing=$(missing_entries "$file") && [[ -z $missing ]]'
  accepts "bench --compare" "speedup [0-9.]+x" "${bench[@]}" --compare "$folder/bench"
  holds "bench --compare: at most 100 columns" eval '! grep -qE ".{101}" "$folder/stdout"'
  holds "bench --compare: the same conditions, no warning" eval '! grep -q warning "$folder/stdout"'
  accepts "bench --compare warns" "warning: batch_size differs: now 8, before 16" \
    "${bench[@]}" --compare "$file" --batch-size 8
  run "${bench[@]}" --compare "$file" --optimizer sgd --quiet
  holds "bench --quiet: a line, and warnings aside" eval '((status == 0)) &&
    (($(wc -l <"$folder/stdout") == 1)) && grep -q "warning: optimizer differs" "$folder/stderr"'
  refuses "bench --compare with nothing" 2 "none\.json" "${bench[@]}" --compare "$folder/none.json"
  nested_bench "$file" >"$folder/nested.json"
  refuses "bench --compare with values nested without end" 2 "nested\.json: .*deeper than" \
    "${bench[@]}" --compare "$folder/nested.json"
  truncate -s 200 "$file"
  refuses "bench --compare with half a file" 2 "bench\.json: is no JSON" \
    "${bench[@]}" --compare "$folder/bench"
  echo '{"steps": 8}' >"$folder/other.json"
  refuses "bench --compare with another JSON" 2 "not written by mantissa bench" \
    "${bench[@]}" --compare "$folder/other.json"
  refuses "bench --out into no folder" 2 "no folder" "${bench[@]}" --out "$folder/none/bench.json"
  check_bench_targets "${bench[@]}"
  refuses "bench --sort by size" 2 "sort.*size.*time" "${bench[@]}" --sort size
  refuses "bench of a flat picture" 2 "input-size.*28x28" "${bench[@]}" --input-size 28x28
  refuses "bench of huge pictures" 2 "1 GiB" "${bench[@]}" --input-size 4096x4096x3 --batch-size 64
  refuses "bench: classes of a data set" 2 "classes" "${bench[@]}" --data "$data" --classes 5
  refuses "bench: one class" 2 "classes: '1'.*2.*65536" "${bench[@]}" --classes 1
  refuses "bench: augmented noise" 2 "augment" "${bench[@]}" --augment flip
  accepts "bench --augment none" "^  median" "${bench[@]}" --augment none
}

# Steps of language models, on synthetic tokens.
check_texts() {
  local bench=(bench --batch-size 2 --sequence 16 --classes 50 --threads 2 --steps 2 --warmup 1)
  local model
  for model in transformer_lm gru_lm bert_tiny transformer_nmt; do
    accepts "bench of $model" "^  median +[0-9.]+ us" "${bench[@]}" --model "$model" --sort time
  done
  accepts "bench of a language model in fp32" "^forward +attention " "${bench[@]}" --format fp32 \
    --model transformer_lm
  prints_json "bench of a language model --json" "${bench[@]}" --model bert_tiny --json --quiet \
    --out "$folder/text.json"
  holds "bench --json has the sequence" grep -q '"sequence": 16' "$folder/text.json"
  refuses "bench of a text with the size of pictures" 2 "input-size.*--sequence" "${bench[@]}" \
    --model bert_tiny --input-size 28x28x1
  refuses "bench of a text that is given" 2 "leave out --data" bench --model bert_tiny --data "$data"
  refuses "bench of pictures with a sequence" 2 "sequence" "${bench[@]}" --model mlp
}

# Predictions of a trained network, of a run or an exported file.
check_predictions() {
  local bench=(bench --batch-size 4 --threads 2 --steps 3 --warmup 1)
  run train --model lenet5 --data "$data" --steps 2 --batch-size 16 --out "$folder/run"
  run export --checkpoint "$folder/run" --out "$folder/a.onnx"
  accepts "bench of predictions" "^forward +conv1" "${bench[@]}" --checkpoint "$folder/run"
  holds "nothing is trained" eval '! grep -qE "^(grad_in|grad_w|update|stats) " "$folder/stdout"'
  prints_json "bench of an exported file" "${bench[@]}" --checkpoint "$folder/a.onnx" --json \
    --quiet --out "$folder/predictions.json"
  holds "bench of predictions: all entries" eval \
    'missing=$(missing_entries "$folder/predictions.json") && [[ -z $missing ]]'
  accepts "bench of predictions --compare" "speedup" "${bench[@]}" --checkpoint "$folder/a.onnx" \
    --compare "$folder/predictions.json"
  refuses "a network twice" 2 "--model is not for --checkpoint" "${bench[@]}" \
    --checkpoint "$folder/run" --model mlp
  refuses "no such checkpoint" 2 "none" "${bench[@]}" --checkpoint "$folder/none"
}

# check_bench_targets BENCH...: where --out cannot write, or must not.
check_bench_targets() {
  ln -s target "$folder/link"
  mkfifo "$folder/pipe"
  refuses "bench --out over a link" 2 "link is no regular file" "$@" --out "$folder/link"
  refuses "bench --out over a pipe" 2 "pipe is no regular file" "$@" --out "$folder/pipe"
  holds "bench --out leaves links and pipes" eval '[[ -L $folder/link && -p $folder/pipe ]]'
  # Not even root can create a file there.
  run "$@" --out /proc/bench.json
  holds "bench --out that cannot be written: exit code 1" eval '((status == 1))'
  holds "bench --out that cannot be written: prints the report" \
    grep -qE "^  median +[0-9.]+ us" "$folder/stdout"
  holds "bench --out that cannot be written: names it last" \
    eval 'tail -1 "$folder/stderr" | grep -q "^mantissa bench: .*/proc/bench.json"'
  run "$@" --out /proc/bench.json --json --quiet
  holds "bench --out that cannot be written: prints the JSON" \
    eval '((status == 1)) && python3 -m json.tool "$folder/stdout" >/dev/null'
}

# A language model of another program, with its weights and adapters.
check_start() {
  local few=(bench --batch-size 2 --threads 2 --steps 2 --warmup 1 --format bfp:block=channel,blocks=token)
  python3 "$(dirname "${BASH_SOURCE[0]}")/../make_decoder.py" "$folder/base"
  run import "$folder/base" --sequence 16 --out "$folder/base.safetensors" --quiet
  few+=(--from "$folder/base.safetensors")
  accepts "bench --from" "^  peak memory +[0-9.]+ MiB measured; a run: [0-9.]+ MiB planned" "${few[@]}"
  holds "bench --from: the weights are taken" grep -qE 'taken: 20 of 20 parameters' "$folder/stderr"
  holds "bench --from: all of them are updated" \
    eval '(($(grep -cE "^update " "$folder/stdout") >= 20))'
  prints_json "bench --lora" "${few[@]}" --lora 4 --json --quiet --out "$folder/lora.json"
  holds "bench --lora: adapters alone are updated" python3 - "$folder/lora.json" <<'PYTHON'
import json, sys
bench = json.load(open(sys.argv[1]))
assert bench["run"]["lora"] == 4 and bench["run"]["classes"] == 260 and "from" in bench["run"]
updates = [row["name"] for row in bench["instructions"] if row["phase"] == "update"]
assert updates and all("lora_" in name for name in updates), updates
assert 0 < bench["state_bytes"] < bench["measured_peak_bytes"]
PYTHON
  refuses "bench --from with other tokens" 2 "classes: the tokens of .* are known" "${few[@]}" --classes 50
}

check_bench
check_texts
check_start
check_predictions
finish
