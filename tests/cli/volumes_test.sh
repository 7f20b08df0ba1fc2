#!/usr/bin/env bash
# Convolutions over three axes from the command line: balls, cubes and crosses in noise are told
# apart, in bfp8 and with 4 bits.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
network=$cli_tests/../../examples/networks/volumes.json

python3 - "$folder" <<'PYTHON'
import random, sys
from npz import write_npz
folder = sys.argv[1]
random.seed(1)
SIDE, COUNT = 16, 900
noise = [random.gauss(0, 1) for _ in range(1 << 18)]

# A volume of noise with a ball (0), a cube (1) or a cross of three bars (2) somewhere in it.
def volume(kind):
    at = random.randrange(len(noise) - SIDE ** 3)
    x = noise[at:at + SIDE ** 3]
    r = random.choice((3, 4))
    centre = [random.randrange(r, SIDE - r) for _ in range(3)]
    for d in range(-r, r + 1):
        for h in range(-r, r + 1):
            for w in range(-r, r + 1):
                inside = (d * d + h * h + w * w <= r * r + 1,
                          max(abs(d), abs(h), abs(w)) <= r - 1,
                          sorted((abs(d), abs(h), abs(w)))[1] <= 1)[kind]
                z, y, q = centre[0] + d, centre[1] + h, centre[2] + w
                if inside and max(z, y, q) < SIDE:
                    x[(z * SIDE + y) * SIDE + q] += 3
    return x

kinds = [i % 3 for i in range(COUNT)]
volumes = [volume(kind) for kind in kinds]
train, test = COUNT * 2 // 3, COUNT - COUNT * 2 // 3
flat = [number for x in volumes for number in x]
size = SIDE ** 3
write_npz(f"{folder}/volumes.npz",
          x_train=([train, SIDE, SIDE, SIDE, 1], "<f4", flat[:train * size]),
          y_train=([train], "|u1", kinds[:train]),
          x_test=([test, SIDE, SIDE, SIDE], "<f4", flat[train * size:]),
          y_test=([test], "|u1", kinds[train:]))
write_npz(f"{folder}/pictures.npz", x=([60, SIDE, SIDE], "<f4", flat[:60 * SIDE * SIDE]),
          y=([60], "|u1", kinds[:60]))
PYTHON


for seed in 1 2 3; do
  run train --model "$network" --data "$folder/volumes.npz" --epochs 12 --batch-size 16 \
    --threads 1 --seed "$seed" --quiet --out "$folder/bfp8_$seed"
  holds "seed $seed trains in bfp8" eval '((status == 0))'
  accuracy=$(json "$folder/bfp8_$seed/summary.json" test_accuracy)
  holds "and learns: $accuracy" above "$accuracy" 0.95
  run quantize --from "$folder/bfp8_$seed" --data "$folder/volumes.npz" --weights 4 \
    --activations 4 --epochs 5 --batch-size 16 --threads 1 --seed "$seed" --quiet \
    --out "$folder/w4a4_$seed"
  holds "seed $seed trains with 4 bits" eval '((status == 0))'
  accuracy=$(json "$folder/w4a4_$seed/summary.json" test_accuracy)
  holds "and keeps what it learned: $accuracy" above "$accuracy" 0.95
done

one() {
  run train --model "$network" --data "$folder/volumes.npz" --epochs 1 --batch-size 16 --seed 4 \
    --quiet "$@"
}
one --threads 1 --out "$folder/one"
one --threads 3 --out "$folder/three"
holds "the same bits on three threads" \
  test "$(json "$folder/three/summary.json" state_sha256)" = \
  "$(json "$folder/one/summary.json" state_sha256)"
one --threads 1 --isa scalar --out "$folder/scalar"
holds "and by plain loops" test "$(json "$folder/scalar/summary.json" state_sha256)" = \
  "$(json "$folder/one/summary.json" state_sha256)"
one --threads 1 --recompute all --out "$folder/again"
holds "and with the taps computed again" \
  test "$(json "$folder/again/summary.json" state_sha256)" = \
  "$(json "$folder/one/summary.json" state_sha256)"
accepts "plan computes the taps again" "depth_taps +forward .* again" plan --model "$network" \
  --data "$folder/volumes.npz" --batch-size 16 --recompute all
one --threads 1 --format fp32 --out "$folder/float"
holds "fp32 trains" eval '((status == 0))'
holds "a run resumes" go_on_from_the_checkpoint_before "$folder/bfp8_1"

run export --checkpoint "$folder/bfp8_1" --out "$folder/volumes.onnx"
holds "an ONNX file is written" eval '((status == 0))'
run run "$folder/volumes.onnx" --data "$folder/volumes.npz" --out "$folder/run.json"
run predict --checkpoint "$folder/bfp8_1" --data "$folder/volumes.npz" --index 0-4 --raw \
  "$folder/raw.npz"
holds "predict takes volumes" eval '((status == 0))'
refuses "C" 2 'volumes \[D, H, W, C\]' export --checkpoint "$folder/bfp8_1" --target c \
  --out "$folder/c"
refuses "TensorFlow Lite" 2 'ties=up|volume' export --checkpoint "$folder/bfp8_1" \
  --target tflite --out "$folder/no.tflite"
refuses "pictures in place of volumes" 2 'has not the examples that the network takes' \
  train --model "$network" --data "$folder/pictures.npz" --out "$folder/no"
finish
