#!/usr/bin/env bash
# Adapters have the same bits on any instruction set, with any number of threads, stages and replicas,
# whatever is computed again, and after a resume; beside weights of 8 bits and weights in blocks of 4.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

for i in {1..40}; do echo "An able table, a stable cable; $i cabs and 40 labs."; done >"$folder/book.txt"
python3 "$(dirname "${BASH_SOURCE[0]}")/../make_decoder.py" "$folder/base" 3
run import "$folder/base" --sequence 16 --out "$folder/base.safetensors" --quiet
holds "a base" eval '((status == 0))'
run quantize --from "$folder/base.safetensors" --blocks q4_0 --data "$folder/book.txt" \
  --out "$folder/blocks.safetensors" --quiet
holds "a base in blocks" eval '((status == 0))'

format=bfp:block=channel,blocks=token
for base in base blocks; do
  settings=(--from "$folder/$base.safetensors" --lora 4 --data "$folder/book.txt" --format $format
    --steps 4 --batch-size 4 --micro-batch-size 1 --accumulate 4 --learning-rate 1e-2
    --checkpoint-every 2)
  run train "${settings[@]}" --isa scalar --threads 1 --out "$folder/$base-scalar"
  holds "$base: it trains" eval '((status == 0))'
  run train "${settings[@]}" --steps 0 --epochs 0 --out "$folder/$base-start"
  holds "$base: its adapters moved" \
    eval '! same_entry weights_sha256 "$folder/$base-scalar" "$folder/$base-start"'

  # same NAME COMMAND...: a run that must end with the scalar run's weights, state and loss.
  same() {
    local out="$folder/$base-other"
    rm -rf "$out"
    run "${@:2}" "${settings[@]}" --out "$out"
    holds "$base: $1" eval '((status == 0)) && same_entry state_sha256 "$folder/$base-scalar" "$out" &&
      same_entry test_loss "$folder/$base-scalar" "$out"'
  }
  for isa in avx2 avxvnni avx512vnni amx; do
    if "$MANTISSA" plan "${settings[@]}" --isa $isa >"$folder/stdout" 2>"$folder/stderr"; then
      same "$isa, three threads" train --isa $isa --threads 3
    else
      holds "this CPU has no $isa" grep -q "this CPU has no" "$folder/stderr"
    fi
  done
  same "two stages" train --stages 2
  same "three stages" train --stages 3
  same "all is computed again" train --recompute all
  same "nothing is computed again" train --recompute none
  if command -v mpirun >/dev/null && [[ -e $(dirname "$MANTISSA")/libmantissa-mpi.so ]]; then
    same "two replicas" launch -n 2 -- train --replicas 2
    same "two replicas of two stages" launch -n 4 -- train --replicas 2 --stages 2
  else
    echo "skipped: there is no Open MPI"
  fi
  holds "$base: after a resume" go_on_from_the_checkpoint_before "$folder/$base-scalar" "${settings[@]}"
done
finish
