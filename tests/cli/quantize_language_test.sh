#!/usr/bin/env bash
# Language models with their weights in blocks of few bits (quantize --blocks), which train adapters,
# generate, and go out as GGUF files that hold the same blocks.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

for i in {1..60}; do echo "An able table, a stable cable; $i cabs and 40 labs."; done >"$folder/book.txt"
python3 "$(dirname "${BASH_SOURCE[0]}")/../make_decoder.py" "$folder/base"
run import "$folder/base" --sequence 16 --out "$folder/base.safetensors" --quiet
# Weights that have learned something: else losses say nothing.
run train --from "$folder/base.safetensors" --data "$folder/book.txt" --format fp32 --steps 60 \
  --batch-size 8 --learning-rate 0.01 --out "$folder/trained"
holds "a trained model" eval '((status == 0))'

# blocks FILE OTHER PYTHON: an expression about two files: `a` and `b` have for each tensor
# (type, shape, bytes), `meta` is the metadata of the first.
blocks() {
  python3 - "$@" <<'PYTHON'
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    meta = header.pop("__metadata__", None)
    return meta, {n: (t["dtype"], t["shape"], data[8 + size:][slice(*t["data_offsets"])])
                  for n, t in header.items()}
(meta, a), (_, b) = read(sys.argv[1]), read(sys.argv[2])
sys.exit(not eval(sys.argv[3]))
PYTHON
}

few=(--from "$folder/trained" --data "$folder/book.txt" --calibration 12)
accepts "4 bits" '14 of q4_0, 1 of q8_0; 26752 weights in [0-9]+ bytes' \
  quantize "${few[@]}" --blocks q4_0 --method gptq --threads 1 --out "$folder/w4.safetensors"
holds "a line for each layer" eval \
  '(($(grep -cE "^block[12]\.[a-z]+: q4_0, error of outputs [0-9.]+ % \(to nearest [0-9.]+ %\)$" "$folder/stderr") == 14))'
holds "losses before and after" grep -qE '^loss [0-9.]+ before, [0-9.]+ with these weights: fp32, [0-9]+ tokens' \
  "$folder/stdout"
holds "the kinds of its tensors" blocks "$folder/w4.safetensors" "$folder/w4.safetensors" \
  'all(t == "U8" and s[2] == (34 if "embedding" in n else 18) for n, (t, s, _) in a.items() if n.endswith("weights")) and sum(t == "F32" for t, _, _ in a.values()) == 5'
holds "it says what it was rounded by" blocks "$folder/w4.safetensors" "$folder/w4.safetensors" \
  'json.loads(meta["blocks"]).items() >= {"kind": "q4_0", "method": "gptq", "tokens": 192}.items() and meta["kind"] == "mantissa imported network 1"'
run quantize "${few[@]}" --blocks q4_0 --method gptq --threads 3 --out "$folder/again.safetensors" \
  --quiet
holds "three threads have the same bytes" cmp "$folder/w4.safetensors" "$folder/again.safetensors"
holds "--quiet has one line" eval '(($(wc -l <"$folder/stdout") == 1)) && ! grep -q "^block" "$folder/stderr"'
for method in uniform mmse gptq; do
  run quantize "${few[@]}" --blocks q4_0 --method $method --json --out "$folder/$method.safetensors"
  cp "$folder/stdout" "$folder/$method.json"
done
holds "gptq again" blocks "$folder/w4.safetensors" "$folder/gptq.safetensors" 'a == b'
run quantize "${few[@]}" --blocks q4_0 --out "$folder/default.safetensors" --quiet
holds "the default is mmse" blocks "$folder/default.safetensors" "$folder/mmse.safetensors" 'a == b'
holds "errors of outputs fall" python3 - "$folder" <<'PYTHON'
import json, sys
uniform, mmse, gptq = ([layer["error"] for layer in json.load(open(f"{sys.argv[1]}/{m}.json"))["layers"]]
                       for m in ("uniform", "mmse", "gptq"))
nearest = [layer["nearest_error"] for layer in json.load(open(f"{sys.argv[1]}/uniform.json"))["layers"]]
assert nearest == uniform and len(gptq) == 14, (nearest, uniform)
assert sum(gptq) < .9 * sum(mmse) < .9 * sum(uniform), (sum(gptq), sum(mmse), sum(uniform))
PYTHON
accepts "a least number, and a layer of 8 bits" '12 of q4_1, 3 of q8_0' \
  quantize "${few[@]}" --blocks q4_1 --bits '*.down=8' --out "$folder/q4_1.safetensors"
accepts "8 bits" '15 of q8_0' \
  quantize "${few[@]}" --blocks q8_0 --weights 8 --out "$folder/w8.safetensors"

# The file is one of import, in blocks.
loss=$(python3 -c "import json; print(json.load(open('$folder/gptq.json'))['loss_after'])")
for format in fp32 bfp:block=channel,blocks=token; do
  run eval --checkpoint "$folder/w4.safetensors" --data "$folder/book.txt" --format "$format" --json
  holds "eval in $format" python3 -c "
import sys
sys.exit(not abs($(json "$folder/stdout" loss) / $loss - 1) < .2)"
  accepts "generate in $format" '^An able' generate --checkpoint "$folder/w4.safetensors" \
    --prompt "An able" --length 5 --format "$format"
done
for format in fp32 bfp8; do
  run train --from "$folder/w4.safetensors" --data "$folder/book.txt" --lora 4 --format $format \
    --steps 4 --batch-size 2 --out "$folder/lora-$format"
  holds "adapters beside it, $format" eval '((status == 0))'
  holds "$format: blocks stay" blocks "$folder/w4.safetensors" "$folder/lora-$format/model.safetensors" \
    'all(a[n] == b[n] for n in a if n.endswith("weights"))'
done

# Out, and in again.
for file in w4 q4_1 w8; do
  accepts "$file as GGUF" 'written to' \
    export --from "$folder/$file.safetensors" --target gguf --out "$folder/$file.gguf"
  holds "$file: in its blocks" grep -q '15 matrices are in their blocks, as they were' "$folder/stderr" "$folder/stdout"
  run import "$folder/$file.gguf" --weights blocks --sequence 16 --out "$folder/back.safetensors"
  holds "$file: the same blocks again" blocks "$folder/$file.safetensors" "$folder/back.safetensors" \
    'a == b'
done
accepts "a run of it" '14 layers are merged' \
  export --checkpoint "$folder/lora-fp32" --target gguf --out "$folder/lora.gguf" --json
holds "merged layers are Q8_0" grep -q '14 matrices are rounded to Q8_0' "$folder/stdout"
holds "and the embedding is as it was" grep -q '1 matrices are in their blocks' "$folder/stdout"
accepts "as floats" 'written to' export --from "$folder/w4.safetensors" --target gguf \
  --weights f32 --out "$folder/f32.gguf"
run import "$folder/f32.gguf" --sequence 16 --out "$folder/f32.safetensors" --quiet
run eval --checkpoint "$folder/f32.safetensors" --data "$folder/book.txt" --format fp32 --json
f32=$(json "$folder/stdout" loss)
run eval --checkpoint "$folder/w4.safetensors" --data "$folder/book.txt" --format fp32 --json
holds "which are the same network" python3 -c "
import sys
sys.exit(not abs($(json "$folder/stdout" loss) / $f32 - 1) < 1e-6)"

# Groups: of 64 where rows are a multiple of it, packed, with a scale each.
for bits in 3 4; do
  kinds=$([[ $bits == 3 ]] && echo '1 of q8_0, 12 of w3g32, 2 of w3g64' ||
    echo '12 of q4_0, 1 of q8_0, 2 of w4g64')
  accepts "$bits bits in groups" "$kinds; 26752 weights in" \
    quantize "${few[@]}" --weights $bits --group 64 --method gptq --threads 1 --out "$folder/g$bits.safetensors"
  holds "$bits bits: smaller groups are said" grep -q \
    '12 layers get smaller groups: their rows are no multiple of 64' "$folder/stderr"
  run quantize "${few[@]}" --blocks w${bits}g64 --method gptq --threads 3 --quiet \
    --out "$folder/again.safetensors"
  holds "$bits bits: the kind by name, and three threads" cmp "$folder/g$bits.safetensors" "$folder/again.safetensors"
  run export --from "$folder/g$bits.safetensors" --target gguf --out "$folder/g$bits.gguf"
  holds "$bits bits: Q4_0 has them exactly" grep -qE 'matrices are in Q4_0 exactly' "$folder/stderr" "$folder/stdout"
  run import "$folder/g$bits.gguf" --weights blocks --sequence 16 --out "$folder/back.safetensors"
  for file in g$bits back; do
    run eval --checkpoint "$folder/$file.safetensors" --data "$folder/book.txt" \
      --format bfp:block=channel,blocks=token --json
    json "$folder/stdout" loss >"$folder/$file.loss"
  done
  holds "$bits bits: the same loss from there" cmp "$folder/g$bits.loss" "$folder/back.loss"
  for format in fp32 bfp8; do
    run train --from "$folder/g$bits.safetensors" --data "$folder/book.txt" --lora 4 --format $format \
      --steps 4 --batch-size 2 --out "$folder/lora-g$bits-$format"
    holds "$bits bits: adapters in $format, and groups stay" blocks "$folder/g$bits.safetensors" \
      "$folder/lora-g$bits-$format/model.safetensors" \
      'all(a[n] == b[n] for n in a if n.endswith("weights"))'
  done
done
holds "bytes of 3 bits" blocks "$folder/g3.safetensors" "$folder/g3.safetensors" \
  'all(s[1:] == ([1, 13, 2] if "down" in n else [1, 7, 2]) for n, (t, s, _) in a.items() if n.startswith("block") and n.endswith("weights") and t == "U8")'
blocks "$folder/g3.safetensors" "$folder/g3.safetensors" \
  'open("'"$folder"'/w5.json", "w").write(meta["network"].replace("w3g64", "w5g64"))'
refuses "kinds that are not known" 2 "weight_blocks.*w5g64" train --model "$folder/w5.json" \
  --data "$folder/book.txt" --sequence 16 --out "$folder/no"

no=(--out "$folder/no.safetensors")
refuses "other blocks" 2 "'q4_k' is none; choose q4_0, q4_1, q8_0, w4g64, .* or w3g128" \
  quantize "${few[@]}" --blocks q4_k "${no[@]}"
refuses "groups of other blocks" 2 'group: blocks of q4_0 have 32 weights, not 64' \
  quantize "${few[@]}" --blocks q4_0 --group 64 "${no[@]}"
refuses "other groups" 2 "group: '96': groups have 32, 64 or 128 weights" \
  quantize "${few[@]}" --group 96 "${no[@]}"
refuses "bits of groups" 2 'weights: groups of 64 have 3 or 4 bits, not 5' \
  quantize "${few[@]}" --weights 5 --group 64 "${no[@]}"
refuses "other bits" 2 'weights: blocks of q4_0 have 4 bits' \
  quantize "${few[@]}" --blocks q4_0 --weights 3 "${no[@]}"
refuses "bits of values" 2 'rounds weights alone; values have the bits of the format' \
  quantize "${few[@]}" --blocks q4_0 --activations 8 "${no[@]}"
refuses "training" 2 'epochs: does not go with --blocks' \
  quantize "${few[@]}" --blocks q4_0 --epochs 1 "${no[@]}"
refuses "methods of runs" 2 'method kl: is for runs; with --blocks choose mmse, gptq or uniform' \
  quantize "${few[@]}" --blocks q4_0 --method kl "${no[@]}"
refuses "gptq of a run" 2 'method gptq: goes with --blocks' \
  quantize "${few[@]}" --method gptq --out "$folder/no"
refuses "no such layer" 2 "bits: 'head' fits no layer" \
  quantize "${few[@]}" --blocks q4_0 --bits head=8 "${no[@]}"
refuses "no text" 2 '--data names a text' \
  quantize --from "$folder/base.safetensors" --blocks q4_0 "${no[@]}"
head -c 300 "$folder/book.txt" >"$folder/short.txt"
refuses "a short text" 2 'short.txt' \
  quantize --from "$folder/base.safetensors" --data "$folder/short.txt" --blocks q4_0 "${no[@]}"
refuses "weights that are in blocks" 2 "'embedding.weights' is in blocks \(q8_0\)" \
  quantize --from "$folder/w4.safetensors" --data "$folder/book.txt" --blocks q4_0 "${no[@]}"
refuses "a file of another program" 2 'mantissa import makes one of it' \
  quantize --from "$folder/base" --data "$folder/book.txt" --blocks q4_0 "${no[@]}"
run train --model transformer_lm --data "$folder/book.txt" --sequence 16 --steps 1 --out "$folder/own"
refuses "another network" 2 "is no decoder in Llama's layout" \
  quantize --from "$folder/own" --data "$folder/book.txt" --blocks q4_0 "${no[@]}"
refuses "too little memory" 3 'network in fp32' \
  quantize "${few[@]}" --blocks q4_0 --memory-budget 64KiB "${no[@]}"
python3 "$(dirname "${BASH_SOURCE[0]}")/language_model.py" "$folder/narrow.gguf" \
  'tensor.blk.0.ffn_gate.weight=[32, 40]' 'tensor.blk.0.ffn_up.weight=[32, 40]' \
  'tensor.blk.0.ffn_down.weight=[40, 32]' 'llama.feed_forward_length=40'
run import "$folder/narrow.gguf" --sequence 16 --out "$folder/narrow.safetensors" --quiet
refuses "rows that are no whole blocks" 2 \
  'block1.down has rows of 40 weights, which groups of 32 do not divide' \
  quantize --from "$folder/narrow.safetensors" --data "$folder/book.txt" --blocks q4_0 "${no[@]}"
refuses "blocks that are not there" 2 'has no weights in blocks' export \
  --from "$folder/base.safetensors" --target gguf --weights blocks --out "$folder/no.gguf"
holds "nothing was written" eval '[[ ! -e $folder/no.safetensors && ! -e $folder/no && ! -e $folder/no.gguf ]]'
finish
