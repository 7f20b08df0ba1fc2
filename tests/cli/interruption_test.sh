#!/usr/bin/env bash
# Damaged files, signals and Ctrl-C.
# shellcheck disable=SC2016,SC2013
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Each place of a file counts: header, data, end.
check_damage() {
  local place newest
  run train --data "$data" --model mlp --batch-size 32 --threads 2 --epochs 1 --quiet --out "$folder/b"
  for place in 0 0.01 0.3 0.7 1; do
    cp -r "$folder/b" "$folder/damaged"
    flip "$folder/damaged/model.safetensors" $place
    refuses "flipped bit in model.safetensors at $place" 2 "model\.safetensors" \
      eval --checkpoint "$folder/damaged" --data "$data"
    # Not finished, so that --resume reads the checkpoint.
    rm "$folder/damaged/summary.json"
    newest=$(printf '%s\n' "$folder"/damaged/checkpoint-*.safetensors | tail -1)
    flip "$newest" $place
    refuses "flipped bit in a checkpoint at $place" 2 "checkpoint-[0-9]+\.safetensors" train --data \
      "$data" --model mlp --batch-size 32 --epochs 1 --out "$folder/damaged" --resume --quiet
    rm -r "$folder/damaged"
  done
  cp -r "$folder/b" "$folder/damaged"
  truncate -s 100 "$folder/damaged/model.safetensors"
  refuses "truncated model.safetensors" 2 "model\.safetensors" \
    eval --checkpoint "$folder/damaged" --data "$data"
}

# interrupt SIGNAL PATTERN ARGUMENTS...: starts it, signals it when standard error matches PATTERN.
interrupt() {
  status=0
  # Or what the run before wrote matches.
  : >"$folder/stderr"
  # Scripts ignore SIGINT for what runs in their background, and what is ignored stays so.
  env --default-signal=INT timeout --kill-after=5 60 "$MANTISSA" "${@:3}" >"$folder/stdout" 2>"$folder/stderr" &
  local waits=0
  # `timeout` passes the signal on.
  until grep -q "$2" "$folder/stderr" || ((++waits > 100)); do sleep 0.1; done
  kill "-$1" $!
  wait $! || status=$?
}

# interrupt_on_terminal ARGUMENTS...: starts it on a terminal and presses Ctrl-C when a bar is drawn.
# Leaves $status, and in $folder/stdout the lines that remain to be seen.
interrupt_on_terminal() {
  status=0
  TERM=xterm timeout --kill-after=5 60 python3 - "$MANTISSA" "$@" \
    >"$folder/stdout" 2>"$folder/stderr" <<'PYTHON' || status=$?
import os, pty, re, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
written, asked = b"", False
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    written += part
    if not asked and b"%" in written:
        asked = True
        os.write(terminal, b"\x03")
for line in written.decode(errors="replace").split("\n"):
    print(re.sub("\033\\[[0-9;]*[A-Za-z]", "", line.rstrip("\r").split("\r")[-1]))
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(code if code >= 0 else 128 - code)
PYTHON
}

check_interruption() {
  local signal more=()
  for signal in INT TERM HUP; do
    interrupt "$signal" "^saved" train --data "$data" --model mlp --batch-size 32 \
      --epochs 1000000 --checkpoint-every 100 --out "$folder/endless" "${more[@]}"
    holds "SIG$signal: exit code 130" eval '((status == 130))'
    holds "SIG$signal: says that it stops" grep -q "stopping after this step" "$folder/stderr"
    holds "SIG$signal: says how to resume" grep -q "train --data .* --resume$" "$folder/stderr"
    more=(--resume)
  done
  holds "the last run resumed the one before" grep -qE "resuming at step [0-9]+" "$folder/stderr"
}

check_bench_interruption() {
  local bench=(bench --model mlp --batch-size 512 --threads 1 --steps 10000) signal
  mkdir -p "$folder/stopped"
  for signal in INT TERM; do
    interrupt "$signal" "^step" "${bench[@]}" --out "$folder/stopped"
    holds "bench, SIG$signal: exit code 130" eval '((status == 130))'
    holds "bench, SIG$signal: says that it was interrupted" \
      grep -q "^mantissa bench: interrupted" "$folder/stderr"
    holds "bench, SIG$signal: no result, no file" \
      eval '[[ ! -s $folder/stdout && -z $(ls -A "$folder/stopped") ]]'
  done
  interrupt_on_terminal "${bench[@]}"
  holds "bench, Ctrl-C on a terminal: exit code 130" eval '((status == 130))'
  holds "bench, Ctrl-C on a terminal: leaves no bar" \
    eval '! grep -q "%" "$folder/stdout" && grep -q "^mantissa bench: inter" "$folder/stdout"'
}

check_damage
check_interruption
check_bench_interruption
finish
