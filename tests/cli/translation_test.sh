#!/usr/bin/env bash
# Networks that translate, on the command line: train, resume, eval, translate, and what they refuse.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# A language that is translated word by word.
corpus=$folder/corpus.tsv
python3 - "$corpus" <<'EOF'
import random
import sys
random.seed(5)
words = {"red": "rot", "big": "groß", "old": "alt", "cat": "Katze", "dog": "Hund", "sees": "sieht"}
with open(sys.argv[1], "w", encoding="utf-8") as file:
    for i in range(1200):
        source = random.choices(list(words), k=random.randint(1, 6))
        print(" ".join(source), " ".join(map(words.get, source)), f"document{i % 97}", sep="\t",
              file=file)
EOF
json() { python3 -c "import json, sys; print(json.load(open(sys.argv[1]))$1)" "$2"; }
size=(--data "$corpus" --vocabulary 64 --sequence 16 --batch-size 16)
small=(--model transformer_nmt "${size[@]}" --width 0.25 --learning-rate 0.005)

run train "${small[@]}" --steps 120 --threads 2 --out "$folder/a"
holds "train" eval '((status == 0))'
holds "train advises translate" grep -q 'mantissa translate' "$folder/stdout"
holds "tokens are pieces of words" grep -q 'tokens = "sentencepiece"' "$folder/a/config.toml"
bits=$(json '["test_bits_per_token"]' "$folder/a/summary.json")
holds "it learns: $bits bits" python3 -c "import sys; sys.exit(not float('$bits') < 1.5)"

# Other pairs go on with the pieces of the network that they start from.
grep -v red "$corpus" >"$folder/other.tsv"
run train --from "$folder/a" --data "$folder/other.tsv" --sequence 16 --batch-size 16 --steps 2 \
  --out "$folder/other-pairs"
holds "train --from, other pairs" eval '((status == 0))'
holds "the same pieces" eval '[[ $(class_names "$folder/other-pairs") == "$(class_names "$folder/a")" ]]'
tr d X <"$corpus" >"$folder/unknown.tsv"
refuses "pairs with other characters" 2 "not know 'X'" \
  train --from "$folder/a" --data "$folder/unknown.tsv" --sequence 16 --out "$folder/x"

state() { json '["state_sha256"]' "$folder/$1/summary.json" || echo "no $1"; }
run train "${small[@]}" --buckets 4 --steps 20 --threads 2 --out "$folder/b" --checkpoint-every 10
run train "${small[@]}" --buckets 4 --steps 20 --threads 1 --isa scalar --out "$folder/scalar"
holds "another instruction set, the same state" eval '[[ $(state b) == $(state scalar) ]]'
resumes() {
  mkdir "$folder/$2"
  cp "$folder/$1/"{config.toml,checkpoint-00000010.safetensors} "$folder/$2/"
  run train --out "$folder/$2" --resume
  [[ $(state "$1") == $(state "$2") ]]
}
holds "a resumed run has the same state" resumes b resumed
holds "batches have several lengths" grep -q '^buckets = "4"' "$folder/b/config.toml"

run train "${small[@]}" --steps 20 --threads 2 --out "$folder/padded" --checkpoint-every 10
holds "padded batches are another run" eval '[[ $(state b) != $(state padded) ]]'
holds "which does not name them" eval '! grep -q buckets "$folder/padded/config.toml"'
holds "and goes on as it was" resumes padded padded-resumed
run train --config "$folder/padded/config.toml" --out "$folder/repeated"
holds "and is repeated" eval '[[ $(state padded) == $(state repeated) ]]'
refuses "another number of buckets" 2 'buckets none, now 4' \
  train --resume --buckets 4 --out "$folder/padded-resumed"
run train "${small[@]}" --steps 20 --threads 2 --stages 2 --out "$folder/stages"
holds "two stages, the same state" eval '[[ $(state padded) == $(state stages) ]]'
refuses "buckets of stages" 2 'buckets 2: stages and replicas' \
  train "${small[@]}" --buckets 2 --stages 2 --out "$folder/x"
refuses "buckets of a text" 2 'buckets 4: are for networks that translate' \
  train --model transformer_lm --data "$corpus" --buckets 4 --out "$folder/x"
refuses "buckets of pictures" 2 'buckets 4: are for' train --model mlp --buckets 4 --out "$folder/x"
refuses "no buckets" 2 "buckets: '0'" train "${small[@]}" --buckets 0 --out "$folder/x"
run plan "${small[@]}" --json
holds "plan" eval '((status == 0))'
# A network as a file is the same network.
run info "${small[@]:0:8}" --width 0.25 --graph
cp "$folder/stdout" "$folder/mine.json"
run train --model "$folder/mine.json" "${size[@]}" --learning-rate 0.005 --buckets 4 --steps 20 --out "$folder/e"
holds "a network as a file is the same network" eval '[[ $(state b) == $(state e) ]]'

run eval --checkpoint "$folder/a"
holds "eval prints BLEU and chrF" grep -Eq '^test BLEU [0-9.]+, chrF [0-9.]+, loss ' "$folder/stdout"
run eval --checkpoint "$folder/a" --json --beam 1
cp "$folder/stdout" "$folder/eval.json"
holds "eval finds the loss that train found" eval '[[ $(json "[\"bits_per_token\"]" "$folder/eval.json") == "$bits" ]]'
holds "it translates: $(json '["chrf"]' "$folder/eval.json") chrF" python3 -c \
  "import json, sys; sys.exit(not json.load(open('$folder/eval.json'))['chrf'] > 40)"

# Neighbours, padding, threads and instruction sets change no translation.
printf 'big cat\n\nold dog sees red cat\ndog\nbig big old cat sees dog\n' >"$folder/english.txt"
translate() { run translate --checkpoint "$folder/a" "$@" --quiet; cat "$folder/stdout"; }
all=$(translate --data "$folder/english.txt")
holds "a translation for each line" eval '[[ $(wc -l <"$folder/stdout") == 5 ]]'
holds "an empty line stays empty" eval '[[ -z $(sed -n 2p "$folder/stdout") ]]'
holds "one by one" eval '[[ $(translate --data "$folder/english.txt" --batch-size 1) == "$all" ]]'
holds "one thread, scalar" eval \
  '[[ $(translate --data "$folder/english.txt" --threads 1 --isa scalar) == "$all" ]]'
holds "a sentence alone" eval '[[ $(translate --text dog) == "$(sed -n 4p <<<"$all")" ]]'
run translate --checkpoint "$folder/a" --data "$folder/english.txt" --out "$folder/german.txt" --beam 1
holds "greedy, into a file" eval '((status == 0)) && [[ $(wc -l <"$folder/german.txt") == 5 ]]'
run translate --checkpoint "$folder/a" --text 'big cat' --json
holds "as JSON" eval '[[ $(json "[\"sources\"][0]" "$folder/stdout") == "big cat" ]]'
long=$(printf 'big %.0s' $(seq 40))
run translate --checkpoint "$folder/a" --text "$long"
holds "a sentence that is too long is cut short, and that is said" eval \
  '((status == 0)) && grep -q "of 1 sentences the end was not read" "$folder/stderr"'

for choice in '--format fp32' '--format dfp8' '--tied' '--tokens bytes' '--micro-batch-size 2' \
  '--format bfp:block=channel,blocks=token' '--buckets 3 --memory-budget 64MiB'; do
  # shellcheck disable=SC2086
  run train --model transformer_nmt --data "$corpus" --sequence 32 --width 0.25 --batch-size 8 \
    --steps 3 $choice --out "$folder/d" --overwrite
  holds "train $choice" eval '((status == 0))'
  run translate --checkpoint "$folder/d" --text 'big cat'
  holds "translate $choice" eval '((status == 0))'
done

# Recurrent layers.
recurrent=(train --model lstm_nmt "${size[@]}" --width 0.25 --learning-rate 0.005)
run "${recurrent[@]}" --steps 120 --out "$folder/lstm"
bits=$(json '["test_bits_per_token"]' "$folder/lstm/summary.json")
holds "lstm_nmt learns: $bits bits" python3 -c "import sys; sys.exit(not float('$bits') < 1.5)"
run "${recurrent[@]}" --steps 10 --out "$folder/one"
run "${recurrent[@]}" --steps 10 --threads 1 --isa scalar --out "$folder/other"
holds "lstm_nmt: another instruction set" eval '[[ $(state one) == $(state other) ]]'
recurrent_translate() { run translate --checkpoint "$folder/lstm" "$@" --quiet; cat "$folder/stdout"; }
all=$(recurrent_translate --data "$folder/english.txt")
holds "lstm_nmt translates one by one as all together" eval \
  '[[ $(recurrent_translate --data "$folder/english.txt" --batch-size 1) == "$all" ]]'

run quantize --from "$folder/a" --steps 4 --out "$folder/w4a4"
accepts "few bits translate" '.' translate --checkpoint "$folder/w4a4" --text 'big dog'
run quantize --from "$folder/lstm" --steps 4 --out "$folder/lstm-w4a4"
holds "quantize a recurrent translator" eval '((status == 0))'

# What the network does not know is left out, counted and named.
printf 'big X dog\n\xc3\xa4\nred cat\n' >"$folder/unknown.txt"
run translate --checkpoint "$folder/a" --data "$folder/unknown.txt"
holds "unknown characters stop no file" eval '((status == 0)) && (($(wc -l <"$folder/stdout") == 3))'
holds "and are named" grep -q "2 characters ('X', 'ä') are left out: the network does not know them" "$folder/stderr"
run translate --checkpoint "$folder/a" --data "$folder/unknown.txt" --json
holds "and in JSON" grep -q '"notes": \[' "$folder/stdout"
printf 'big \xff\n' >"$folder/no-text.txt"
run translate --checkpoint "$folder/a" --data "$folder/no-text.txt"
holds "what is no text is refused without --tokens, which translate lacks" eval \
  '((status == 2)) && grep -q "is not UTF-8" "$folder/stderr" && ! grep -q -- "--tokens" "$folder/stderr"'
refuses "nothing to translate" 2 'name a sentence' translate --checkpoint "$folder/a"
refuses "a sentence and a file" 2 'name a sentence' \
  translate --checkpoint "$folder/a" --text dog --data "$folder/english.txt"
refuses "a file that is not there" 2 'nowhere.txt' \
  translate --checkpoint "$folder/a" --data "$folder/nowhere.txt"
refuses "no hypotheses" 2 'beam' translate --checkpoint "$folder/a" --text dog --beam 0
refuses "generate" 2 'translates, with mantissa translate' \
  generate --checkpoint "$folder/a" --prompt big
printf 'no tab here\n' >"$folder/bad.tsv"
refuses "a text without tabs" 2 'line 1' \
  train --model transformer_nmt --data "$folder/bad.tsv" --out "$folder/f"
printf 'a\tb\n' >"$folder/short.tsv"
refuses "a text that is too short" 2 'choose a longer text' \
  train --model transformer_nmt --data "$folder/short.tsv" --out "$folder/f"
refuses "sentences that are all too long" 2 'no pair of sentences of at most 1 tokens' \
  train --model transformer_nmt --data "$corpus" --vocabulary 64 --sequence 1 --out "$folder/f"
run train --model transformer_lm --data "$folder/english.txt" --sequence 2 --steps 1 --out "$folder/lm"
refuses "a language model" 2 'does not translate' translate --checkpoint "$folder/lm" --text dog

finish
