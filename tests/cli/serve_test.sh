#!/usr/bin/env bash
# A network over HTTP: serve, and starting from it.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run train --data "$data" --model resnet8 --width 0.25 --steps 4 --batch-size 16 --out "$folder/a"
run predict --checkpoint "$folder/a" --data "$data" --index 0-4 --raw "$folder/raw.npz"

# starts CHECKPOINT: serves it; leaves $server and $address.
starts() {
  : >"$folder/address"
  "$MANTISSA" serve --checkpoint "$1" --port 0 >"$folder/address" 2>"$folder/serving" &
  server=$!
  for ((i = 0; i < 100; ++i)); do
    [[ -s $folder/address ]] && break
    sleep 0.1
  done
  address=$(<"$folder/address")
}

starts "$folder/a"
holds "it prints its address" grep -qE '^http://127\.0\.0\.1:[0-9]+$' "$folder/address"

# asks STATUS PATH [FILE [ENCODING]]: the answer is in $folder/answer; FILE is posted.
asks() {
  python3 - "$address$2" "$folder/answer" "${3:-}" "$1" "${4:-}" <<'PYTHON'
import sys, urllib.error, urllib.request
url, answer, posted, status, encoding = sys.argv[1:]
data = open(posted, "rb").read() if posted else None
headers = {"Content-Encoding": encoding} if encoding else {}
try:
    found = urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30)
except urllib.error.HTTPError as error:
    found = error
open(answer, "wb").write(found.read())
sys.exit(found.status != int(status))
PYTHON
}

# Held within limits: memory, time, connections, names; and the same of servers that --from names.
status=0
python3 "$(dirname "${BASH_SOURCE[0]}")/../hostile_http.py" "$MANTISSA" "$folder/a" "$data" \
  >"$folder/stdout" 2>"$folder/stderr" || status=$?
cat "$folder/stdout"
holds "hostile clients and servers are held within limits" eval '((status == 0))'

holds "ready" asks 200 /health
holds "the network" asks 200 /network
holds "is that of info" cmp -s "$folder/answer" <("$MANTISSA" info "$folder/a" --graph)

# The first five test pictures: the same logits as predict --raw, exactly.
python3 - "$data" "$folder/pixels" <<'PYTHON'
import glob, gzip, sys
name = glob.glob(sys.argv[1] + "/t10k-images*")[0]
data = (gzip.open if name.endswith(".gz") else open)(name, "rb").read()
size = int.from_bytes(data[8:12], "big") * int.from_bytes(data[12:16], "big")
open(sys.argv[2], "wb").write(data[16:16 + 5 * size])
open(sys.argv[2] + "-many", "wb").write(data[16:16 + 20 * size])
PYTHON
holds "predictions" asks 200 /predict "$folder/pixels"
holds "are exact" python3 - "$folder" <<'PYTHON'
import io, json, struct, sys, zipfile
def array(name):
    data = zipfile.ZipFile(sys.argv[1] + "/raw.npz").read(name + ".npy")
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return struct.unpack(f"<{(len(data) - start) // 4}i", data[start:])
mantissas, exponent = array("mantissas"), array("exponent")[0]
logits = [x for row in json.load(open(sys.argv[1] + "/answer"))["logits"] for x in row]
sys.exit(logits != [m * 2.0 ** exponent for m in mantissas])
PYTHON
cp "$folder/answer" "$folder/predictions"
holds "more than a form may have" asks 200 /predict "$folder/pixels-many"
head -c 100 "$folder/pixels" >"$folder/short"
holds "too few bytes" asks 400 /predict "$folder/short"
holds "say what is wanted" grep -q "the body has 100 bytes; pictures have" "$folder/answer"
holds "bytes that are not what their encoding says" asks 400 /predict "$folder/pixels" gzip
holds "say so" grep -q "the body cannot be read" "$folder/answer"
holds "an encoding that is not known" asks 415 /predict "$folder/pixels" zstd
holds "says so" grep -q "Content-Encoding" "$folder/answer"
holds "no such request" asks 404 /nothing
holds "says what there is" grep -q "GET /health" "$folder/answer"
holds "parameters by long patterns" asks 200 \
  '/parameters?take=stage1.block1.conv1.weights,stage2.block1.conv*'
holds "no such parameter" asks 400 '/parameters?take=nothing*'

accepts "train from what is served" "test accuracy" train --from "$address" --data "$data" \
  --steps 2 --batch-size 16 --out "$folder/b"
holds "all parameters are taken" grep -q "taken: 47 of 47" "$folder/stderr"
run train --from "$folder/a" --data "$data" --steps 2 --batch-size 16 --out "$folder/c"
accepts "quantise what is served" "test accuracy" quantize --from "$address" --data "$data" \
  --calibration 32 --reestimate 2 --batch-size 16 --out "$folder/q"
accepts "some parameters" "test accuracy" train --from "$address/parameters?take=stem*" \
  --data "$data" --steps 2 --batch-size 16 --out "$folder/d"
holds "only these are taken" grep -qE "taken: [1-5] of 47" "$folder/stderr"
accepts "--resume needs no server" "test accuracy" train --steps 4 --batch-size 16 --data "$data" \
  --from "$folder/b/start.safetensors" --model "$folder/b/network.json" --out "$folder/e"

kill -TERM $server
status=0
wait $server || status=$?
holds "SIGTERM ends it in good order" eval '((status == 0))'
refuses "a server that is gone" 1 "does not answer" train --from "$address" --data "$data" \
  --out "$folder/f"
run export --checkpoint "$folder/a" --out "$folder/a.onnx"
starts "$folder/a.onnx"
holds "an exported file is served" asks 200 /predict "$folder/pixels"
holds "and predicts the same" cmp "$folder/answer" "$folder/predictions"
holds "and has weights to start from" asks 200 '/parameters?take=stem*'
refuses "a port that another server has" 1 "port ${address##*:}: it is taken" \
  serve --checkpoint "$folder/a" --port "${address##*:}"
kill -TERM $server
wait $server
refuses "a port that is no number" 2 "port: 'x' is no number" serve --checkpoint "$folder/a" --port x
refuses "nothing to serve" 2 "No such file" serve --checkpoint "$folder/nothing"

finish
