#!/usr/bin/env bash
# Adapters beside weights that stay (train --lora), and language models in files of other programs.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

for _ in {1..30}; do echo "An able table, a stable cable; 3 cabs and 40 labs."; done >"$folder/book.txt"
python3 "$(dirname "${BASH_SOURCE[0]}")/../make_decoder.py" "$folder/base"
run import "$folder/base" --sequence 16 --out "$folder/base.safetensors" --quiet
holds "a base" eval '((status == 0))'

few=(--data "$folder/book.txt" --steps 4 --batch-size 2 --checkpoint-every 2 --hash-every 1)

# tensors FILE FILE PYTHON: an expression about the tensors of two files, `a` and `b`, as bytes.
tensors() {
  python3 - "$@" <<'PYTHON'
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: data[8 + size:][slice(*entry["data_offsets"])] for name, entry in header.items()}
a, b = read(sys.argv[1]), read(sys.argv[2])
sys.exit(not eval(sys.argv[3]))
PYTHON
}

# takes NAME PATTERN ARGUMENTS...: exits with 0, and says on standard error how many it takes.
takes() {
  local wanted=$2
  run "${@:3}"
  holds "$1" eval '((status == 0)) && grep -qE "taken: $wanted parameters" "$folder/stderr"'
}

# last RUN: its newest checkpoint.
last() {
  printf '%s\n' "$1"/checkpoint-*.safetensors | tail -1
}

for format in fp32 bfp8 bfp:block=channel; do
  name=${format//[:=]/-}
  takes "$format: adapters" "20 of 48" \
    train --from "$folder/base.safetensors" --lora 4 "${few[@]}" --format "$format" \
    --out "$folder/lora-$name"
  holds "$format: adapters alone have accumulators and moments" tensors \
    "$(last "$folder/lora-$name")" "$(last "$folder/lora-$name")" \
    'all("lora" in n for n in a if n.endswith((".first_moment", ".second_moment_root", ".accumulator"))) and any(n.endswith(".second_moment_root") for n in a)'
  accepts "$format: eval" 'bits per character' eval --checkpoint "$folder/lora-$name"
  accepts "$format: generate" '^An able' \
    generate --checkpoint "$folder/lora-$name" --prompt "An able" --length 5
  rm -rf "$folder/other"
  run train --from "$folder/base.safetensors" --lora 4 "${few[@]}" --format "$format" \
    --threads 2 --out "$folder/other"
  holds "$format: the same bits on two threads" \
    eval '[[ $format == fp32 ]] || cmp -s "$(last "$folder/lora-$name")" "$(last "$folder/other")"'
done

run train --from "$folder/base.safetensors" --format bfp8 --data "$folder/book.txt" --epochs 0 \
  --batch-size 2 --out "$folder/start"
holds "the base stays" tensors "$(last "$folder/start")" "$(last "$folder/lora-bfp8")" \
  'all(a[n] == b[n] for n in a if n.endswith((".weights", ".scale")))'

# A run that is killed goes on; a run from a run goes on with its adapters.
cp -r "$folder/lora-bfp8" "$folder/resumed"
rm "$folder/resumed"/checkpoint-00000004.safetensors "$folder/resumed"/{model.safetensors,summary.json}
run train --resume --from "$folder/base.safetensors" --lora 4 "${few[@]}" --format bfp8 \
  --out "$folder/resumed"
holds "it resumes" eval \
  '((status == 0)) && cmp -s "$(last "$folder/lora-bfp8")" "$(last "$folder/resumed")"'
takes "a run goes on with its adapters" "48 of 48" \
  train --from "$folder/lora-bfp8" "${few[@]}" --format bfp8 --out "$folder/again"
holds "and its base stays" tensors "$(last "$folder/start")" "$(last "$folder/again")" \
  'all(a[n] == b[n] for n in a if n.endswith((".weights", ".scale")))'
takes "so does a frozen network" "48 of 48" \
  train --from "$folder/lora-bfp8/model.safetensors" "${few[@]}" --format bfp8 --out "$folder/frozen"
holds "and its base stays, too" tensors "$(last "$folder/start")" "$(last "$folder/frozen")" \
  'all(a[n] == b[n] for n in a if n.endswith((".weights", ".scale")))'
refuses "other adapters on a run with some" 2 'has adapters already \(lora 4\), and goes on with them' \
  train --from "$folder/lora-bfp8" --lora 8 "${few[@]}" --out "$folder/no"
refuses "and on a frozen one" 2 'has adapters of rank 4 with alpha 8 already, on 14 layers' \
  train --from "$folder/lora-bfp8/model.safetensors" --lora 8 "${few[@]}" --out "$folder/no"

# Stages and values that are computed again have the same bits.
run train --from "$folder/base.safetensors" --lora 4 "${few[@]}" --format bfp8 --accumulate 2 \
  --micro-batch-size 1 --out "$folder/two"
run train --from "$folder/base.safetensors" --lora 4 "${few[@]}" --format bfp8 --stages 2 \
  --accumulate 2 --micro-batch-size 1 --out "$folder/staged"
holds "two stages" eval '((status == 0)) && same_entry weights_sha256 "$folder/two" "$folder/staged"'
run train --from "$folder/base.safetensors" --lora 4 "${few[@]}" --format bfp8 \
  --recompute none --out "$folder/kept"
holds "nothing computed again" same_entry weights_sha256 "$folder/lora-bfp8" "$folder/kept"

# The choice of layers and of parameters.
takes "layers by name" "20 of 28" train --from "$folder/base.safetensors" --lora 4 \
  --lora-on 'query*,value*' --lora-alpha 6 "${few[@]}" --format bfp8 --out "$folder/some"
takes "norms, too" "20 of 28" train --from "$folder/base.safetensors" --lora 4 \
  --lora-on query,value --lora-also '*norm*' "${few[@]}" --format bfp8 --out "$folder/norms"
holds "which move" tensors "$(last "$folder/start")" "$(last "$folder/norms")" \
  'a["norm.scale"] + a["norm.scale.exponent"] != b["norm.scale"] + b["norm.scale.exponent"] or any(b["norm.scale.accumulator"])'
refuses "no such layer" 2 "lora-on: 'q_proj' fits no layer of llama_lm .*block1.query" \
  train --from "$folder/base.safetensors" --lora 4 --lora-on q_proj "${few[@]}" --out "$folder/no"
refuses "no such parameter" 2 "lora-also: 'bias' fits no parameter" \
  train --from "$folder/base.safetensors" --lora 4 --lora-also bias "${few[@]}" --out "$folder/no"
refuses "without a base" 2 'lora: is for trained weights, named by --from' \
  train --model transformer_lm --lora 4 "${few[@]}" --sequence 16 --out "$folder/no"
refuses "alpha without adapters" 2 'lora-alpha: goes with --lora' \
  train --from "$folder/base.safetensors" --lora-alpha 4 "${few[@]}" --out "$folder/no"
accepts "the plan" 'weights, accumulators, optimiser' \
  plan --from "$folder/base.safetensors" --lora 4 "${few[@]:0:6}" --format bfp8

# Files of other programs.
accepts "GGUF" '14 layers are merged with their adapters' \
  export --checkpoint "$folder/lora-fp32" --target gguf --out "$folder/lora.gguf"
accepts "a folder" 'written to' \
  export --checkpoint "$folder/lora-fp32" --target huggingface --out "$folder/hf"
accepts "adapters" '14 adapters of rank 4' \
  export --checkpoint "$folder/lora-fp32" --target peft --base me/base --out "$folder/peft"
for source in lora.gguf hf; do
  accepts "$source is read back" 'llama_lm' \
    import "$folder/$source" --sequence 16 --out "$folder/back-$source.safetensors"
done
holds "both have the same numbers" tensors "$folder/back-lora.gguf.safetensors" \
  "$folder/back-hf.safetensors" 'a == b and len(a) == 20'
accepts "an imported file" 'written to' \
  export --from "$folder/base.safetensors" --target huggingface --out "$folder/copy"
run import "$folder/copy" --sequence 16 --out "$folder/copy.safetensors" --quiet
holds "comes back to the bit" tensors "$folder/base.safetensors" "$folder/copy.safetensors" 'a == b'
run train --from "$folder/base.safetensors" --format bfp:block=channel "${few[@]}" --out "$folder/full"
accepts "8 bits in Q8_0" 'matrices of 8 bits are in Q8_0 exactly' \
  export --checkpoint "$folder/full" --target gguf --out "$folder/full.gguf"
refuses "adapters of a network without some" 2 'has no adapters: train --lora' \
  export --checkpoint "$folder/full" --target peft --out "$folder/no"
refuses "Q8_0 in a folder" 2 "'q8_0' is none; choose f32, f16 or bf16" \
  export --checkpoint "$folder/full" --target huggingface --weights q8_0 --out "$folder/no"
refuses "a checkpoint" 2 'is a checkpoint' \
  export --from "$(last "$folder/full")" --target gguf --out "$folder/no"
run train --model transformer_lm "${few[@]}" --sequence 16 --out "$folder/own"
refuses "another network" 2 "is no decoder in Llama's layout" \
  export --checkpoint "$folder/own" --target gguf --out "$folder/no"
refuses "weights of other targets" 2 'weights: is for --target gguf' \
  export --checkpoint "$folder/own" --weights f16 --out "$folder/no.onnx"
holds "nothing was written" eval '[[ ! -e $folder/no && ! -e $folder/no.onnx ]]'
finish
