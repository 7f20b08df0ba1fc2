#!/usr/bin/env bash
# Packed conversations (train --pack): padding that they save, runs that go on, stages and replicas.
# And batches of conversations of similar length (--buckets).
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python3 "$(dirname "${BASH_SOURCE[0]}")/../make_decoder.py" "$folder/base"
run import "$folder/base" --sequence 64 --out "$folder/base.safetensors" --quiet
python3 - "$folder" <<'PYTHON'
import json, sys
with open(sys.argv[1] + "/chats.jsonl", "w") as chats, open(sys.argv[1] + "/prompts.jsonl", "w") as prompts:
    for i in range(60):
        answer = "yes" if i % 2 else "no"
        prompts.write(json.dumps({"prompt": f"q{i}", "completion": answer}) + "\n")
        chats.write(json.dumps({"messages": [{"role": "user", "content": f"q{i}"},
                                             {"role": "assistant", "content": answer}]}) + "\n")
PYTHON
few=(--from "$folder/base.safetensors" --data "$folder/chats.jsonl" --batch-size 4 --pack)

# last RUN: its newest checkpoint.
last() {
  printf '%s\n' "$1"/checkpoint-*.safetensors | tail -1
}

for format in fp32 bfp8 bfp:block=channel,blocks=token; do
  name=${format//[:=,]/-}
  run train "${few[@]}" --format "$format" --steps 4 --checkpoint-every 2 --out "$folder/$name"
  holds "$format: it trains" eval '((status == 0))'
  holds "$format: it says what is saved" grep -qE \
    'packed: 54 conversations of [0-9]+ tokens in [0-9]+ sequences of 64; padding: [0-9]+ tokens in place of [0-9]+, [0-9]+ saved' \
    "$folder/stderr"
  cp -r "$folder/$name" "$folder/resumed-$name"
  rm "$folder/resumed-$name"/{checkpoint-00000004.safetensors,model.safetensors,summary.json}
  run train --resume "${few[@]}" --format "$format" --steps 4 --checkpoint-every 2 \
    --out "$folder/resumed-$name"
  holds "$format: it resumes" eval \
    '((status == 0)) && cmp -s "$(last "$folder/$name")" "$(last "$folder/resumed-$name")"'
  accepts "$format: eval" 'bits per character, loss' eval --checkpoint "$folder/$name"
done
accepts "chat goes on without packing" '.' generate --checkpoint "$folder/fp32" --prompt "q1" --length 3

# Short examples: many in a sequence.
run train --from "$folder/base.safetensors" --data "$folder/prompts.jsonl" --batch-size 4 --epochs 1 \
  --format fp32 --out "$folder/alone"
run train --from "$folder/base.safetensors" --data "$folder/prompts.jsonl" --batch-size 4 --epochs 1 \
  --format fp32 --pack --out "$folder/together"
saved=$(grep -oE '[0-9]+ saved' "$folder/stderr" | cut -d' ' -f1)
holds "padding is saved" eval '((status == 0 && saved > 0))'
holds "and so there are fewer steps" eval \
  '(($(json "$folder/together/summary.json" steps) < $(json "$folder/alone/summary.json" steps)))'

# Stages, replicas and values that are computed again have the same bits.
parts=(--format bfp8 --steps 3 --micro-batch-size 2)
run train "${few[@]}" "${parts[@]}" --threads 1 --recompute none --out "$folder/one"
run train "${few[@]}" "${parts[@]}" --threads 2 --recompute all --out "$folder/again"
holds "computed again" eval '((status == 0)) && same_entry weights_sha256 "$folder/one" "$folder/again"'
run train "${few[@]}" "${parts[@]}" --stages 2 --out "$folder/staged"
holds "two stages" eval '((status == 0)) && same_entry weights_sha256 "$folder/one" "$folder/staged"'
if [[ -e $(dirname "$MANTISSA")/libmantissa-mpi.so ]] && command -v mpirun >/dev/null; then
  run launch -n 2 -- train "${few[@]}" "${parts[@]}" --replicas 2 --out "$folder/replicas"
  holds "two replicas" eval '((status == 0)) && same_entry weights_sha256 "$folder/one" "$folder/replicas"'
fi

# Batches of similar length: all of these fit into the shortest, so that a step is the padded one.
short=(--from "$folder/base.safetensors" --data "$folder/prompts.jsonl" --batch-size 54)
run train "${short[@]}" --format fp32 --steps 2 --out "$folder/padded"
run train "${short[@]}" --format fp32 --steps 2 --buckets 2 --out "$folder/cut"
holds "buckets: the step of padded batches" python3 -c "import sys; a, b = map(float, sys.argv[1:]); \
  sys.exit(not abs(a - b) < 1e-5 * a)" "$(json "$folder/padded/summary.json" test_loss)" \
  "$(json "$folder/cut/summary.json" test_loss)"
mixed=(--from "$folder/base.safetensors" --data "$folder/chats.jsonl" --batch-size 4 --buckets 4)
for format in bfp8 dfp8 bfp:block=channel,blocks=token; do
  name=buckets-${format//[:=,]/-}
  run train "${mixed[@]}" --format "$format" --steps 4 --threads 2 --checkpoint-every 2 \
    --out "$folder/$name"
  holds "$format, buckets: it trains" eval '((status == 0))'
  cp -r "$folder/$name" "$folder/resumed-$name"
  rm "$folder/resumed-$name"/{checkpoint-00000004.safetensors,model.safetensors,summary.json}
  run train --resume "${mixed[@]}" --format "$format" --steps 4 --threads 1 --checkpoint-every 2 \
    --out "$folder/resumed-$name"
  holds "$format, buckets: it resumes on one thread" eval \
    '((status == 0)) && same_entry weights_sha256 "$folder/$name" "$folder/resumed-$name"'
  holds "$format, buckets: the best validation loss is of answers alone" python3 -c \
    "import sys; best, test = map(float, sys.argv[1:]); sys.exit(not 0.5 < best / test < 2)" \
    "$(json "$folder/$name/summary.json" best_validation_loss)" \
    "$(json "$folder/$name/summary.json" test_loss)"
  run eval --checkpoint "$folder/$name" --json
  holds "$format, buckets: eval finds what train found" eval \
    '[[ $(json "$folder/stdout" loss) == "$(json "$folder/$name/summary.json" test_loss)" ]]'
done
refuses "buckets of packed conversations" 2 'buckets 4: are for .* not packed' train "${mixed[@]}" \
  --pack --out "$folder/no"

for _ in {1..60}; do echo "An able table, a stable cable; 3 cabs and 40 labs."; done >"$folder/book.txt"
refuses "packing of a text" 2 'pack: .* is no file of conversations' train \
  --from "$folder/base.safetensors" --data "$folder/book.txt" --pack --out "$folder/no"
refuses "packing of pictures" 2 'pack: is for language models' train --model mlp --data "$data" \
  --pack --out "$folder/no"

finish
