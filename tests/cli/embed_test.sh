#!/usr/bin/env bash
# Encoders in BERT's layout: import, sentence vectors, and what both refuse.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

make() { python3 "$(dirname "${BASH_SOURCE[0]}")/../make_encoder.py" "$@"; }
make "$folder/bert"
cat >"$folder/text.txt" <<'END'
The cat sat on the mat.
the cat sat on the mat .

A dog runs and a dog runs and a dog runs and a dog runs and the cats sat on the mat.
unknown words
END

# vectors FILE: the numbers of an NPY file, a line for each vector.
vectors() {
  python3 - "$1" <<'END'
import ast, struct, sys
file = open(sys.argv[1], "rb").read()
length = struct.unpack("<H", file[8:10])[0]
header = ast.literal_eval(file[10:10 + length].decode())
assert header["descr"] == "<f4" and not header["fortran_order"], header
n, c = header["shape"]
numbers = struct.unpack(f"<{n * c}f", file[10 + length:])
for i in range(n):
    print(*(f"{x:.5f}" for x in numbers[i * c:(i + 1) * c]))
END
}
embed() { run embed --data "$folder/text.txt" --out "$folder/v.npy" "$@"; vectors "$folder/v.npy"; }

accepts "import" '29 layers, 6176 parameters' import "$folder/bert" --out "$folder/e.safetensors"
holds "import says what it left out" grep -q 'pooler.dense.weight' "$folder/stderr"
accepts "embed" '5 vectors of 16 numbers' \
  embed --from "$folder/e.safetensors" --data "$folder/text.txt" --out "$folder/v.npy"
vectors "$folder/v.npy" >"$folder/wanted"
holds "vectors of length 1" awk \
  '{ s = 0; for (i = 1; i <= NF; ++i) s += $i * $i; if (s < .999 || s > 1.001) exit 1 }' "$folder/wanted"
holds "letters and spaces do not matter" eval \
  '[[ $(sed -n 1p "$folder/wanted") == "$(sed -n 2p "$folder/wanted")" ]]'
holds "other words do" eval '[[ $(sed -n 1p "$folder/wanted") != "$(sed -n 4p "$folder/wanted")" ]]'
holds "without an import the same" eval '[[ $(embed --from "$folder/bert") == "$(<"$folder/wanted")" ]]'
holds "one by one the same" eval \
  '[[ $(embed --from "$folder/bert" --batch-size 1 --threads 1) == "$(<"$folder/wanted")" ]]'
make "$folder/masked" front=bert.
holds "names behind bert. the same" eval '[[ $(embed --from "$folder/masked") == "$(<"$folder/wanted")" ]]'
make "$folder/half" half=1
holds "F16 nearly the same" eval '[[ $(embed --from "$folder/half" | cut -c1-4) == "$(cut -c1-4 "$folder/wanted")" ]]'
accepts "NPZ" 'written to' \
  embed --from "$folder/bert" --data "$folder/text.txt" --out "$folder/v.npz"
holds "it has vectors.npy" grep -q 'vectors.npy' "$folder/v.npz"
run embed --from "$folder/bert" --data "$folder/text.txt" --out "$folder/v.npy" --sequence 8
holds "short sequences are counted" grep -q '3 sentences were cut short' "$folder/stderr"

# In integers: the same bits for any batch, padding, threads and instruction set, and nearly fp32's.
rows=(--from "$folder/bert" --data "$folder/text.txt" --format bfp:block=channel,blocks=token)
run embed "${rows[@]}" --out "$folder/rows.npy"
for choice in '--batch-size 1' '--batch-size 2' '--threads 1 --isa scalar' '--threads 3' '--sequence 33'; do
  # shellcheck disable=SC2086
  run embed "${rows[@]}" $choice --out "$folder/v.npy"
  holds "blocks=token, $choice: the same bits" cmp "$folder/rows.npy" "$folder/v.npy"
done
vectors "$folder/rows.npy" >"$folder/rows"
holds "blocks=token: nearly the vectors of fp32" eval 'paste -d" " "$folder/rows" "$folder/wanted" | awk \
  "{ s = 0; for (i = 1; i <= 16; ++i) s += \$i * \$(i + 16); if (s < .995) exit 1 }"'
run embed --from "$folder/bert" --data "$folder/text.txt" --format bfp:a=16,block=channel,blocks=token \
  --out "$folder/v.npy"
holds "a=16" eval '((status == 0))'
refuses "exponents that would have to be calibrated" 2 'blocks=token need none' \
  embed --from "$folder/bert" --data "$folder/text.txt" --format bfp8 --out "$folder/v.npy"

# Added tokens, found as Hugging Face's tokenizers find them; what a file asks for besides is named.
tokenizer() {
  python3 - "$folder/bert/vocab.txt" "$folder/added/tokenizer.json" "$@" <<'END'
import json, sys
words = open(sys.argv[1]).read().split()
file = {"truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": w, "special": True, "normalized": False}
                         for i, w in enumerate(words[:5])] + [
            {"id": 16, "content": "Covid", "special": False, "normalized": True},
            {"id": 17, "content": "<user>", "special": True, "normalized": False, "lstrip": True}],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {w: i for i, w in enumerate(words)}}}
for change in sys.argv[3:]:
    key, value = change.split("=", 1)
    file[key] = json.loads(value)
json.dump(file, open(sys.argv[2], "w"))
END
}
make "$folder/added"
tokenizer
printf '%s\n' 'covid cats' 'COVID  cats' '[UNK] cats' '<user>  cats' 'the <user>cats' >"$folder/text.txt"
embed --from "$folder/added" >"$folder/with"
holds "added tokens are tokens" eval '[[ $(sed -n 1p "$folder/with") == "$(sed -n 2p "$folder/with")" &&
  $(sort -u "$folder/with" | wc -l) == 4 ]]'
run import "$folder/added" --out "$folder/a.safetensors"
holds "an imported file has them" eval '[[ $(embed --from "$folder/a.safetensors") == "$(<"$folder/with")" ]]'
for change in 'pre_tokenizer={"type": "Whitespace"}:Whitespace' 'normalizer={"type": "NFC"}:NFC' \
  'post_processor=null:post-processor' 'decoder={"type": "ByteLevel"}:ByteLevel' \
  'truncation={"direction": "Left", "max_length": 9}:truncation' \
  'added_tokens=[{"id": 30, "content": "far"}]:far'; do
  tokenizer "${change%:*}"
  refuses "a tokenizer with ${change%:*}" 2 "tokenizer.json.*${change##*:}" \
    import "$folder/added" --out "$folder/x.safetensors"
done
tokenizer 'truncation={"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}'
embed --from "$folder/added" >/dev/null
holds "its limit on tokens holds, and is counted" grep -q 'cut short' "$folder/stderr"
cat >"$folder/text.txt" <<'END'
The cat sat on the mat.
END

for change in 'model_type="gpt2"' 'hidden_act="relu"' 'position_embedding_type="relative_key"' \
  'is_decoder=true' 'hidden_size="16"' 'num_hidden_layers=0' 'num_hidden_layers=99999999999'; do
  make "$folder/other" "$change"
  refuses "config.json with $change" 2 "config.json: it" import "$folder/other" --out "$folder/x.safetensors"
done
make "$folder/other" vocab_size=41
refuses "another shape" 2 'config.json asks for \[41, 16\]' \
  import "$folder/other" --out "$folder/x.safetensors"
make "$folder/other" num_attention_heads=3
refuses "heads that do not fit" 2 'heads' import "$folder/other" --out "$folder/x.safetensors"
make "$folder/other" without=encoder.layer.1.output.dense.bias
refuses "a parameter that is missing" 2 "no parameter 'encoder.layer.1.output.dense.bias'" \
  import "$folder/other" --out "$folder/x.safetensors"
make "$folder/other"
seq 50 | sed 's/^/word/' >>"$folder/other/vocab.txt"
refuses "a tokenizer that does not fit" 2 'has 66 pieces, and the network knows 40' \
  import "$folder/other" --out "$folder/x.safetensors"
rm "$folder/other/vocab.txt"
refuses "no tokenizer" 2 'vocab.txt' import "$folder/other" --out "$folder/x.safetensors"
make "$folder/other"
head -c 3000 "$folder/bert/model.safetensors" >"$folder/other/model.safetensors"
refuses "weights cut short" 2 'model.safetensors' import "$folder/other" --out "$folder/x.safetensors"
rm "$folder/other/config.json"
refuses "no config.json" 2 'config.json' import "$folder/other" --out "$folder/x.safetensors"
refuses "settings of ONNX models" 2 'classes: is for ONNX models' \
  import "$folder/bert" --classes 3 --out "$folder/x.safetensors"
refuses "a sequence beyond the positions" 2 '64 positions, and 65' \
  import "$folder/bert" --sequence 65 --out "$folder/x.safetensors"
holds "nothing was written" eval '[[ ! -e $folder/x.safetensors ]]'

printf 'abc\nd\xff\n' >"$folder/broken.txt"
: >"$folder/empty.txt"
head -c 4000 /dev/zero >"$folder/zeros.txt"
head -c 1048577 /dev/zero | tr '\0' a >"$folder/long.txt"
for case in 'broken.txt:sentence 2.*not UTF-8' 'empty.txt:is empty' 'zeros.txt:NUL' 'long.txt:1048577 bytes' \
  'missing.txt:missing.txt'; do
  refuses "text: $case" 2 "${case#*:}" \
    embed --from "$folder/bert" --data "$folder/${case%%:*}" --out "$folder/v.npy"
done
refuses "another ending" 2 'neither NAME.npy nor NAME.npz' \
  embed --from "$folder/bert" --data "$folder/text.txt" --out "$folder/v.txt"
refuses "no encoder" 2 'name an encoder' embed --data "$folder/text.txt" --out "$folder/v.npy"
refuses "no output" 2 'out: name' embed --from "$folder/bert" --data "$folder/text.txt"
printf 'cat %.0s' {1..200} >"$folder/cats.txt"
refuses "a sequence without positions" 2 'has 64 positions' \
  embed --from "$folder/bert" --data "$folder/cats.txt" --sequence 200 --out "$folder/v.npy"
finish
