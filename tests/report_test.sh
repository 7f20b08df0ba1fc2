#!/usr/bin/env bash
# The report as a whole file: well-formed, with the numbers of the run, and drawn by a browser.
# MANTISSA: the program. The picture is skipped if there is no chromium.
set -uo pipefail

: "${MANTISSA:?names the binary to test}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0 skipped=0

check() {  # check NAME COMMAND...
  if "${@:2}"; then
    passed=$((passed + 1)) && echo "ok: $1"
  else
    failed=$((failed + 1)) && echo "FAILED: $1"
  fi
}

# well_formed FILE: it is XML, once the contents of scripts and styles are taken out.
well_formed() {
  python3 - "$1" <<'PYTHON'
import re, sys, xml.etree.ElementTree as tree
text = open(sys.argv[1], encoding="utf-8").read()
text = re.sub(r"<(script|style)([^>]*)>.*?</\1>", r"<\1\2></\1>", text, flags=re.S)
root = tree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
ids = [e.tag for e in root.iter() if e.tag in ("html", "head", "body")]
assert ids == ["html", "head", "body"], ids
PYTHON
}

# has_numbers FILE RUN: the page has the numbers of the run's files.
has_numbers() {
  python3 - "$@" <<'PYTHON'
import json, re, sys
page, run = open(sys.argv[1], encoding="utf-8").read(), sys.argv[2]
summary = json.load(open(run + "/summary.json"))
evaluation = json.load(open(run + "/evaluation.json"))
assert f"{100 * summary['test_accuracy']:.2f} %" in page
assert summary["run_identity"] in page
data = [json.loads(text) for text in
        re.findall(r'<script type="application/json">(.*?)</script>', page, flags=re.S)]
losses = [json.loads(line)["loss"] for line in open(run + "/metrics.jsonl")]
assert any(losses == curve["y"] for one in data for curve in one.get("curves", []))
first, *lines = map(json.loads, open(run + "/tensors.jsonl"))
values = [i for i, tensor in enumerate(first["tensors"]) if tensor["kind"] == "value"]
exponents = [[line["exponent"][i] for line in lines] for i in values]
assert any(exponents == one.get("values") for one in data)
assert page.count("data:image/png") == len(evaluation["worst"]) + 12, page.count("data:image/png")
PYTHON
}

# drawn FILE: a browser draws it as a picture of more than one colour.
drawn() {
  timeout 120 chromium --headless=new --no-sandbox --disable-gpu --screenshot="$folder/page.png" \
    --window-size=1250,2500 "$1" >/dev/null 2>&1
  (($(stat -c %s "$folder/page.png" 2>/dev/null || echo 0) > 50000))
}

train() { "$MANTISSA" train --data fashion-mnist --model mlp --batch-size 16 --quiet "$@" >/dev/null; }
train --steps 120 --out "$folder/a"
train --steps 70 --seed 2 --out "$folder/b & <i>"
check "a report is written" "$MANTISSA" report "$folder/a" --out "$folder/a.html" --quiet
check "it is well-formed" well_formed "$folder/a.html"
check "it has the run's numbers" has_numbers "$folder/a.html" "$folder/a"
check "a report on two runs is written" \
  "$MANTISSA" report "$folder/a" "$folder/b & <i>" --out "$folder/two.html" --quiet
check "that is well-formed" well_formed "$folder/two.html"
printf '{"step":' >"$folder/a/metrics.jsonl"
head -c 300 "$folder/a/tensors.jsonl" >"$folder/cut" && mv "$folder/cut" "$folder/a/tensors.jsonl"
check "a damaged run has a report" "$MANTISSA" report "$folder/a" --out "$folder/cut.html" --quiet
check "that is well-formed, too" well_formed "$folder/cut.html"
if command -v chromium >/dev/null; then
  check "a browser draws it" drawn "$folder/two.html"
else
  skipped=$((skipped + 1)) && echo "skipped: no chromium to draw it"
fi

echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
