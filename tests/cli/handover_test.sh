#!/usr/bin/env bash
# What a quantised network learned, handed to another one: ranges, offsets and weights of layers,
# over HTTP and from files, with the same bits.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# made MODEL SEED METHOD STEPS OUT: a quantised network whose input has a range with an offset.
made() {
  run train --data "$data" --model "$1" --width 0.25 --steps 4 --batch-size 16 --seed "$2" \
    --out "$5-whole"
  accepts "$5 is quantised" "test accuracy" quantize --from "$5-whole" --data "$data" \
    --batch-size 16 --reestimate 2 --calibration 32 --ends 0 --train "$3" --steps "$4" --hash-every 1 --out "$5"
}
made resnet8 1 lsqplus 4 "$folder/giver"
made resnet20 2 wrpn 1 "$folder/taker"

: >"$folder/address"
"$MANTISSA" serve --checkpoint "$folder/giver" --port 0 >"$folder/address" 2>"$folder/serving" &
server=$!
for ((i = 0; i < 100; ++i)); do
  [[ -s $folder/address ]] && break
  sleep 0.1
done
address=$(<"$folder/address")

# cut_out PATTERNS FILE: the parameters of the giver's checkpoint that fit one of them, as a file.
cut_out() {
  python3 - "$1" "$2" "$folder"/giver/checkpoint-*.safetensors <<'PYTHON'
import fnmatch, json, struct, sys
patterns, to, path = sys.argv[1].split(","), sys.argv[2], sys.argv[3]
data = open(path, "rb").read()
size, = struct.unpack("<Q", data[:8])
header, body = json.loads(data[8:8 + size]), data[8 + size:]
metadata = {"kind": "mantissa starting weights 1", "source": path,
            "lazy_shift": header["__metadata__"]["lazy_shift"]}
parts, tensors = b"", {}
for name, entry in header.items():
    owner = name
    for own in (".exponent", ".accumulator"):
        owner = owner.removesuffix(own)
    if any(fnmatch.fnmatchcase(owner, pattern) for pattern in patterns):
        piece = body[slice(*entry["data_offsets"])]
        tensors[name] = {**entry, "data_offsets": [len(parts), len(parts) + len(piece)]}
        parts += piece
whole = json.dumps({"__metadata__": metadata, **tensors}).encode()
open(to, "wb").write(struct.pack("<Q", len(whole)) + whole + parts)
PYTHON
}

# begins RUN RUN PATTERNS: of what both networks have, the parameters of the second run before its
# first step are those that the first one ended with exactly where their names fit the patterns.
begins() {
  python3 - "$1/hashes.jsonl" "$2/hashes.jsonl" "$3" <<'PYTHON'
import fnmatch, json, sys
first, then = ([json.loads(line) for line in open(path)] for path in sys.argv[1:3])
was = dict(zip(first[0]["tensors"], first[-1]["digests"]))
begins = dict(zip(then[0]["tensors"], then[0]["digests"]))
fits = lambda name: any(fnmatch.fnmatchcase(name, pattern) for pattern in sys.argv[3].split(","))
names = [name for name in begins if name in was and name.endswith((".range", ".offset", ".weights"))]
taken = [name for name in names if fits(name)]
assert then[0]["step"] == 0 and len(taken) >= 2 and len(taken) < len(names)
sys.exit([name for name in names if was[name] == begins[name]] != taken)
PYTHON
}

# hands_over NAME PATTERNS TENSOR: to the taker's network, over HTTP and from a file.
hands_over() {
  local short=(--model "$folder/taker/network.json" --data "$data" --steps 3 --batch-size 16
    --hash-every 1)
  accepts "$1 over HTTP" "test accuracy" train --from "$address/parameters?take=$2" "${short[@]}" \
    --out "$folder/$1-http"
  holds "$1: so many are taken" grep -q "taken: $3 of 130 parameters" "$folder/stderr"
  holds "$1: they and no others are the giver's" begins "$folder/giver" "$folder/$1-http" "$2"
  cut_out "$2" "$folder/$1.safetensors"
  accepts "$1 from a file" "test accuracy" train --from "$folder/$1.safetensors" "${short[@]}" \
    --out "$folder/$1-file"
  holds "$1: the same weights" same_entry weights_sha256 "$folder/$1"-{http,file}
  holds "$1: the same state" same_entry state_sha256 "$folder/$1"-{http,file}
  holds "$1: the same bits in every step" cmp -s "$folder/$1"-{http,file}/hashes.jsonl
}

hands_over ranges '*.input.range,*.input.offset' 11
hands_over layers 'stage1.block1.conv1.*,stage2.block1.conv*.weights' 4

# All that both have, from the served run and from its folder.
for from in "$address" "$folder/giver"; do
  run train --model "$folder/taker/network.json" --from "$from" --data "$data" --steps 3 \
    --batch-size 16 --out "$folder/all-${from:0:4}"
done
holds "all of it: the same weights" same_entry weights_sha256 "$folder"/all-{http,"${folder:0:4}"}
holds "all of it: the same state" same_entry state_sha256 "$folder"/all-{http,"${folder:0:4}"}

kill -TERM $server
wait $server
finish
