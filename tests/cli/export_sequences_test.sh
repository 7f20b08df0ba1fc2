#!/usr/bin/env bash
# `export` of networks that read tokens: what is written, computed by `mantissa run` in float, is
# near the network; and what cannot be. tests/long/text/onnx_encoder has ONNX Runtime and a real encoder.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

here=$(dirname "${BASH_SOURCE[0]}")
language() {
  python3 "$here/onnx_language.py" "$@" >"$folder/stdout" 2>"$folder/stderr"
}
translation() {
  python3 "$here/onnx_translation.py" "$@" >"$folder/stdout" 2>"$folder/stderr"
}
sentences() { python3 "$here/onnx_sentences.py" "$@"; }
python3 "$here/../make_encoder.py" "$folder/bert"
cat >"$folder/text.txt" <<'END'
The cat sat on the mat.
A dog runs and a dog runs and a dog runs and a dog runs and the cats sat on the mat.
unknown words
.
END

# computed FILE: the exported file on all sentences together and on each alone, in $inputs.
computed() {
  local name count
  inputs=$(mktemp -d -p "$folder")
  count=$(sentences put "$folder/bert/vocab.txt" "$folder/text.txt" "$inputs")
  for name in all $(seq 0 $((count - 1))); do
    run run "$1" --inputs "$inputs/$name.npz" --out "$inputs/$name.out.npz"
    ((status == 0)) || return 1
  done
}

# near_embed FILE LEAST OPTION...: its sentence vectors are those of `mantissa embed`, to a cosine.
near_embed() {
  computed "$1" || return 1
  run embed --from "$folder/bert" --data "$folder/text.txt" --out "$inputs/v.npy" "${@:3}"
  sentences compare "$inputs" "$inputs/v.npy" "$2" >"$folder/stdout" 2>"$folder/stderr"
}

check_encoders() {
  accepts "export of an encoder" 'results are near those of Mantissa, not equal' \
    export --from "$folder/bert" --out "$folder/e.onnx"
  holds "it is near embed" near_embed "$folder/e.onnx" .99 --format bfp:block=channel,blocks=token
  run export --from "$folder/bert" --out "$folder/again.onnx"
  holds "the same bytes" cmp "$folder/e.onnx" "$folder/again.onnx"
  run import "$folder/bert" --out "$folder/e.safetensors"
  run export --from "$folder/e.safetensors" --out "$folder/again.onnx"
  holds "from an imported file the same bytes" cmp "$folder/e.onnx" "$folder/again.onnx"
  run export --from "$folder/bert" --format fp32 --out "$folder/fp32.onnx"
  holds "fp32 is embed's fp32" near_embed "$folder/fp32.onnx" .99999
  holds "fp32 has nothing to note" eval '! grep -q note: "$folder/stdout"'
  holds "int8 is not fp32" eval '! near_embed "$folder/e.onnx" .99999'
  accepts "its inputs" 'input_ids .*int64.*batch x sequence' info "$folder/e.onnx"
}

# near_predict FILE RUN MOST: its logits are those of `mantissa predict`, to a part of the largest.
near_predict() {
  computed "$1" || return 1
  sed '1i text' "$folder/text.txt" >"$folder/text.csv"
  run predict --checkpoint "$2" --input "$folder/text.csv" --raw "$inputs/raw.npz"
  sentences classes "$inputs" "$inputs/raw.npz" "$3" >"$folder/stdout" 2>"$folder/stderr"
}

check_classifiers() {
  local format
  { echo text,kind && for _ in {1..40}; do
    echo "the cat sat on a mat,cat" && echo "a dog runs and the dog sat,dog"
  done; } >"$folder/pets.csv"
  for format in bfp8 bfp:block=channel; do
    run train --from "$folder/e.safetensors" --data "$folder/pets.csv" --target kind --sequence 40 --steps 20 \
      --learning-rate 0.003 --format $format --quiet --overwrite --out "$folder/pets"
    accepts "export of a classifier: $format" 'near those of Mantissa' \
      export --checkpoint "$folder/pets" --out "$folder/pets.onnx"
    holds "it is near predict: $format" near_predict "$folder/pets.onnx" "$folder/pets" .08
  done
  run export --checkpoint "$folder/pets/model.safetensors" --out "$folder/again.onnx"
  holds "a classifier gives the same bytes" cmp "$folder/pets.onnx" "$folder/again.onnx"
  # One of real numbers comes back, with its mask and token types, and is trained on texts.
  run train --from "$folder/e.safetensors" --data "$folder/pets.csv" --target kind --sequence 40 --steps 20 \
    --learning-rate 0.003 --format fp32 --quiet --overwrite --out "$folder/real"
  run export --checkpoint "$folder/real" --out "$folder/real.onnx"
  local texts=(train --from "$folder/real.onnx" --data "$folder/pets.csv" --target kind --sequence 40
    --steps 20 --learning-rate 0.003 --out "$folder/back")
  refuses "an imported classifier without a tokenizer" 2 '--vocabulary its tokenizer' "${texts[@]}"
  refuses "a number of pieces" 2 'names the file of a tokenizer' "${texts[@]}" --vocabulary 300
  { cat "$folder/bert/vocab.txt" && printf 'more%s\n' {1..900}; } >"$folder/long.txt"
  refuses "a tokenizer with more pieces" 2 'has [0-9]* pieces, and the network .* knows' \
    "${texts[@]}" --vocabulary "$folder/long.txt"
  refuses "a tokenizer beside the network's own" 2 'brings its own tokenizer' \
    train --from "$folder/e.safetensors" --data "$folder/pets.csv" --target kind \
    --vocabulary "$folder/bert/vocab.txt" --out "$folder/back"
  accepts "an imported classifier is trained" 'test accuracy 100' \
    "${texts[@]}" --quiet --vocabulary "$folder/bert/vocab.txt"
  rm "$folder/back/summary.json"
  accepts "it goes on without the tokenizer's file" 'test accuracy 100' \
    train --resume --out "$folder/back" --quiet
}

# Language models: near `mantissa eval`; masked ones near `mantissa fill-mask`.
# is_near_eval NAME RUN: the logits of RUN.onnx say what eval says.
is_near_eval() {
  local examples
  for examples in test changed; do
    run run "$2.onnx" --inputs "$folder/$examples.npz" --out "$folder/$examples.out.npz"
  done
  run eval --checkpoint "$2" --json
  cp "$folder/stdout" "$folder/eval.json"
  holds "$1 is near eval" language loss "$here/../../docs/language.md" 16 "$folder" \
    "$folder/eval.json"
}

check_language_models() {
  local text=$here/../../docs/language.md out=$folder/lm prompt='The [MASK]etwork' network
  for network in transformer_lm 'transformer_lm --tied' lstm_lm gru_lm; do
    rm -rf "$out"
    # shellcheck disable=SC2086
    run train --model $network --data "$text" --sequence 16 --steps 30 --quiet --out "$out"
    accepts "export of $network" 'written to' export --checkpoint "$out" --out "$out.onnx"
    language put "$text" 16 "$folder"
    is_near_eval "$network" "$out"
  done
  # Few bits, in every layer but the first and last.
  run train --model transformer_lm --data "$text" --sequence 16 --steps 60 --quiet --overwrite \
    --out "$out"
  for bits in '4 4' '3 8' '2 2'; do
    run quantize --from "$out" --weights "${bits% *}" --activations "${bits#* }" --steps 10 \
      --learning-rate 0.001 --quiet --overwrite --out "$folder/few"
    accepts "export of W${bits/ /A}" 'written to' \
      export --checkpoint "$folder/few" --out "$folder/few.onnx"
    is_near_eval "W${bits/ /A}" "$folder/few"
  done
  run quantize --from "$out" --weights 4 --activations 5 --train lsqplus --steps 10 \
    --learning-rate 0.001 --quiet --overwrite --out "$folder/few"
  holds "a grid has an offset" grep -q '"offset": true' "$folder/few/network.json"
  accepts "export of grids with an offset" 'written to' \
    export --checkpoint "$folder/few" --out "$folder/few.onnx"
  is_near_eval "W4A5 with offsets" "$folder/few"
  run quantize --from "$out" --weights 4 --activations 32 --overwrite --out "$folder/few"
  refuses "few bits in float" 2 'files in float have no few bits' \
    export --checkpoint "$folder/few" --out "$folder/none.onnx"
  # Language models of real numbers come back, are trained, and are exported in integers.
  for network in transformer_lm gru_lm; do
    run train --model $network --format fp32 --data "$text" --sequence 16 --steps 5 --quiet \
      --overwrite --out "$folder/real"
    run export --checkpoint "$folder/real" --out "$folder/real.onnx"
    run train --from "$folder/real.onnx" --data "$text" --sequence 16 --steps 20 --quiet \
      --overwrite --out "$folder/again"
    accepts "export of an imported $network" 'written to' \
      export --checkpoint "$folder/again" --out "$folder/again.onnx"
    is_near_eval "an imported $network" "$folder/again"
  done
  run train --model bert_tiny --data "$text" --sequence 16 --steps 15 --quiet --out "$folder/masked"
  accepts "export of bert_tiny" 'written to' \
    export --checkpoint "$folder/masked" --out "$folder/masked.onnx"
  language put-masks "$text" "$prompt" "$folder"
  run run "$folder/masked.onnx" --inputs "$folder/masks.npz" --out "$folder/masks.out.npz"
  run fill-mask --checkpoint "$folder/masked" --text "$prompt" --json
  cp "$folder/stdout" "$folder/guesses.json"
  holds "bert_tiny is near fill-mask" language guesses "$text" "$prompt" "$folder" \
    "$folder/guesses.json"
}

# Translators of bytes, word by word: for translations of `mantissa translate` the likeliest tokens
# are theirs.
check_translators() {
  local network out=$folder/nmt
  python3 - "$folder/corpus.tsv" "$folder/sentences.txt" <<'END'
import itertools, sys
words = {"red": "rot", "old": "alt", "cat": "Katze", "dog": "Hund", "sees": "sieht"}
sentences = [c for n in (1, 2, 3) for c in itertools.product(words, repeat=n)] * 4
with open(sys.argv[1], "w") as file:
    for i, words_of in enumerate(sentences):
        print(" ".join(words_of), " ".join(map(words.get, words_of)), f"d{i * 7 % 97}", sep="\t",
              file=file)
with open(sys.argv[2], "w") as file:
    print(*map(" ".join, sentences[:155:5]), sep="\n", file=file)
END
  for network in transformer_nmt lstm_nmt; do
    run train --model $network --data "$folder/corpus.tsv" --tokens bytes --sequence 20 \
      --width .25 --batch-size 16 --learning-rate .005 --steps 80 --quiet --overwrite --out "$out"
    accepts "export of $network" 'near those of Mantissa' \
      export --checkpoint "$out" --out "$out.onnx"
    run translate --checkpoint "$out" --data "$folder/sentences.txt" --out "$out.txt" --beam 1
    translation put "$folder/sentences.txt" "$out.txt" "$folder"
    run run "$out.onnx" --inputs "$folder/pairs.npz" --out "$folder/pairs.out.npz"
    holds "$network is near translate" translation agrees "$out.txt" 20 "$folder" .97
  done
  accepts "a translator's inputs" 'decoder_input_ids .*int64.*batch x decoder_sequence' \
    info "$out.onnx"
}

check_refusals() {
  refuses "formats of 16 bits, every layer at once" 2 \
    "'block1.query'.*values of 16 bits.*and 11 nodes more: 'block1.key'" export --from "$folder/bert" \
    --format bfp:a=16,block=channel,blocks=token --out "$folder/none.onnx"
  refuses "the portable target" 2 'bert: networks of sequences have one form' \
    export --from "$folder/bert" --target portable --out "$folder/none.onnx"
  refuses "two sources" 2 'either --checkpoint, or --from' \
    export --from "$folder/bert" --checkpoint "$folder/bert" --out "$folder/none.onnx"
  refuses "a format of a run" 2 'a run has its own' \
    export --checkpoint "$folder/bert" --format fp32 --out "$folder/none.onnx"
  refuses "loading it back" 2 'e.onnx: is an exported network of sequences.*does not load back' \
    predict --checkpoint "$folder/e.onnx" --data "$data"
  refuses "an export in fp32" 2 'fp32.onnx: is an exported network in fp32' \
    predict --checkpoint "$folder/fp32.onnx" --data "$data"
  refuses "training from it" 2 'e.onnx: is an exported network of sequences' \
    train --from "$folder/e.onnx" --data "$data" --out "$folder/none"
  holds "nothing is written" eval '[[ ! -e $folder/none.onnx ]]'
}

check_encoders
check_classifiers
check_language_models
check_translators
check_refusals
finish
