#!/usr/bin/env bash
# Losses by settings: sigmoids with weights, smoothing and the focal factor, penalties of numbers,
# a teacher.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python3 - "$folder" <<'PYTHON'
import random, sys
random.seed(1)
lines = ["a,b,price"]
for _ in range(500):
    a, b = random.gauss(0, 1), random.gauss(0, 1)
    lines.append(f"{a:.3f},{b:.3f},{3 * a - b + random.gauss(0, 0.1) + (50 if random.random() < 0.02 else 0):.3f}")
open(f"{sys.argv[1]}/prices.csv", "w").write("\n".join(lines) + "\n")
PYTHON
short=(--data "$data" --steps 12 --batch-size 16 --checkpoint-every 6 --quiet)

check_sigmoids() {
  local run=$folder/sigmoids
  accepts "weights, smoothing and the focal factor" "test accuracy" train --model mlp \
    --loss sigmoid --positive-weights 3 --label-smoothing 0.1 --focal 2 "${short[@]}" --out "$run"
  accepts "again, on one thread" "test accuracy" train --config "$run/config.toml" --threads 1 \
    --out "$run-again" --quiet
  holds "gives the same bits" same_entry state_sha256 "$run" "$run-again"
  holds "it resumes" go_on_from_the_checkpoint_before "$run"
  refuses "weights of other outputs" 2 "positive_weights: there are 2 of them and 10 outputs" train \
    --model mlp --loss sigmoid --positive-weights 1,2 "${short[@]}" --out "$folder/none"
  accepts "in fp32" "test accuracy" train --model mlp --loss sigmoid --focal 1.5 --format fp32 \
    "${short[@]}" --out "$run-fp32"
}

check_penalties() {
  local table=(--data "$folder/prices.csv" --model mlp --hidden 16 --batch-size 32 --quiet)
  for loss in l1 huber; do
    accepts "$loss learns" "R2 0\.[5-9]" train "${table[@]}" --epochs 30 --loss "$loss" \
      --out "$folder/$loss"
    holds "$loss: it resumes" go_on_from_the_checkpoint_before "$folder/$loss"
  done
  accepts "another delta" "R2" train "${table[@]}" --epochs 2 --loss huber --huber-delta 0.25 \
    --out "$folder/delta"
  holds "has another identity" differ "$folder/delta" "$folder/huber"
  refuses "a penalty for classes" 2 "loss huber: is for numbers, and .* has classes" train \
    --model mlp --loss huber "${short[@]}" --out "$folder/none"
  refuses "sigmoids for numbers" 2 "loss sigmoid: is for classes, and .* has numbers" train \
    "${table[@]}" --loss sigmoid --out "$folder/none"
  refuses "C of a device lacks it" 2 "regression_error.*'squared' alone" export \
    --checkpoint "$folder/huber" --target c --train --out "$folder/c"
}
differ() { ! same_entry state_sha256 "$1" "$2"; }

check_teacher() {
  local run=$folder/small
  accepts "a teacher" "test accuracy" train --model lenet5 "${short[@]}" --out "$folder/large"
  accepts "is learned from" "test accuracy" train --model mlp --teacher "$folder/large" \
    --teacher-weight 0.75 --temperature 3 "${short[@]}" --out "$run"
  accepts "on one thread, from the file" "test accuracy" train --config "$run/config.toml" \
    --teacher "$folder/large/model.safetensors" --threads 1 --out "$run-again" --quiet
  holds "gives the same bits" same_entry state_sha256 "$run" "$run-again"
  accepts "without it" "test accuracy" train --model mlp "${short[@]}" --out "$folder/alone"
  holds "gives other weights" differ "$run" "$folder/alone"
  holds "it resumes" go_on_from_the_checkpoint_before "$run"
  refuses "another teacher does not go on" 2 "teacher weights .*, now weights" train \
    --config "$run/config.toml" --teacher "$run" --out "$run" --resume
  accepts "the plan has it" "teacher" plan --model mlp --data "$data" --teacher "$folder/large"
  accepts "in fp32, after some classes weigh more" "test accuracy" train --model mlp \
    --teacher "$folder/large" --format fp32 --class-weights balanced "${short[@]}" \
    --out "$run-fp32"
  accepts "a hot teacher is no divergence" "test accuracy" train --model mlp \
    --teacher "$folder/large" --teacher-weight 1 --temperature 12 "${short[@]}" --out "$run-hot"
  refuses "a teacher and smoothing" 2 "leave label-smoothing out" train --model mlp \
    --teacher "$folder/large" --label-smoothing 0.1 "${short[@]}" --out "$folder/none"
  refuses "a teacher of other classes" 2 "tells 10 classes apart, and the network 12" train \
    --model mlp --classes 12 --teacher "$folder/large" "${short[@]}" --out "$folder/none"
  refuses "a teacher of sigmoids" 2 "was not trained with cross-entropy" train --model mlp \
    --teacher "$folder/sigmoids" "${short[@]}" --out "$folder/none"
  refuses "a teacher of numbers" 2 "teacher: .*does not fit|teacher: .*cross-entropy" train \
    --model mlp --teacher "$folder/l1" "${short[@]}" --out "$folder/none"
  refuses "a teacher and stages" 2 "teacher: is for one stage" train --model mlp \
    --teacher "$folder/large" --stages 2 "${short[@]}" --out "$folder/none"
  refuses "no teacher" 2 "teacher: .*none" train --model mlp --teacher "$folder/none" \
    "${short[@]}" --out "$folder/none"
}

check_sigmoids
check_penalties
check_teacher
finish
