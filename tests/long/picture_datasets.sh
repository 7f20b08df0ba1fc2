#!/usr/bin/env bash
# Trains on the same pictures from files of every kind and compares weights and accuracy:
#
#   MANTISSA=build/dev/mantissa MAKE=build/dev/tests/make_picture_datasets \
#     tests/long/picture_datasets.sh [FOLDER [TRAIN TEST]]
#
# FOLDER keeps the data sets and runs for another time (else they are removed). All examples of
# Fashion-MNIST are used unless TRAIN and TEST are given. Prints a table; fails if lossless files of
# the same pictures give other weights, or if the measured peak of memory is more than max(5 %,
# 8 MiB) from the plan.
set -euo pipefail

: "${MANTISSA:?names the program}" "${MAKE:?names make_picture_datasets}"
if (($#)); then
  folder=$1
else
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
[[ -d $folder/data ]] || { mkdir -p "$folder" && "$MAKE" "$folder/data" "${@:2}"; }

within_plan() { python3 -c '
import json, sys
run = json.load(open(sys.argv[1]))
planned, measured = run["planned_peak_bytes"], run["peak_rss_bytes"]
print(f"{planned / 2**20:.1f} {measured / 2**20:.1f}")
sys.exit(abs(measured - planned) > max(0.05 * planned, 8 * 2**20))' "$@"; }
field() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$@"; }

status=0
printf '%-14s %-9s %-12s %s\n' data accuracy 'MiB: plan is' weights_sha256
for colours in grey colour; do
  expected=
  for kind in idx cifar png jpeg; do
    data=$folder/data/$colours-$kind run=$folder/runs/$colours-$kind
    [[ -d $data ]] || continue
    "$MANTISSA" train --model lenet5 --data "$data" --epochs 2 --augment shift,flip --out "$run" \
      --resume --quiet >/dev/null
    hash=$(field "$run/summary.json" weights_sha256)
    memory=$(within_plan "$run/summary.json") || status=2
    printf '%-14s %-9s %-12s %s\n' "$colours-$kind" "$(field "$run/summary.json" test_accuracy)" \
      "$memory" "$hash"
    expected=${expected:-$hash}
    [[ $kind == jpeg || $hash == "$expected" ]] || status=1
  done
done
((status != 1)) || echo "the same pictures gave other weights" >&2
((status != 2)) || echo "the measured memory is not the planned one" >&2
exit "$status"
