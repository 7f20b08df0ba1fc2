#!/usr/bin/env bash
# What the system gives a process, and what it does not: threads, memory, standard streams, signals.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Everything below must be there for another user, too.
chmod 755 "$folder"
cp "$MANTISSA" "$folder/mantissa"
MANTISSA=$folder/mantissa

train=(train --data "$data" --model mlp --batch-size 32 --epochs 1 --quiet)

# stranger COMMAND...: as a user of whom nothing else runs: root has no limit on processes.
stranger() { setpriv --reuid=61234 --regid=61234 --clear-groups "$@"; }

# with_processes N ARGUMENTS...: as run, where the user may have N processes, threads included.
with_processes() {
  status=0
  (cd "$open" && stranger prlimit --nproc="$1" "$MANTISSA" "${@:2}") >"$folder/stdout" \
    2>"$folder/stderr" || status=$?
}

# Whether a limit on processes can be set here: of two threads the second does not start.
limits_threads() {
  ((EUID == 0)) && stranger true 2>/dev/null && ! stranger prlimit --nproc=2 python3 -c '
import threading, time
for _ in range(2): threading.Thread(target=time.sleep, args=(0.1,)).start()' 2>/dev/null
}

check_threads() {
  if ! limits_threads; then
    echo "skipped: a limit on threads takes root, and setpriv that works"
    return
  fi
  open=$folder/open
  mkdir -m 777 "$open"
  run "${train[@]}" --threads 1 --out "$folder/alone"
  local processes
  for processes in 1 2 5; do
    with_processes $processes "${train[@]}" --threads 8 --out "$open/of-$processes"
    holds "train with $processes of 8 threads" eval '((status == 0))'
    holds "... says so" \
      grep -q "^only $processes of 8 threads could be started" "$folder/stderr"
    holds "... gives the same bits" same_entry state_sha256 "$folder/alone" "$open/of-$processes"
  done
  holds "train without a thread for batches says so" \
    grep -q "^no thread could be started to prepare batches" "$folder/stderr"
  # More than its own, fewer than oneDNN takes besides.
  with_processes 4 "${train[@]}" --format fp32 --threads 3 --out "$open/float"
  holds "train in fp32 where oneDNN gets no threads" eval '((status == 0))'
  local command
  for command in "eval --data $data" "predict --data $data --index 0-3" \
    "predict --input $data/pictures"; do
    # shellcheck disable=SC2086
    with_processes 2 $command --checkpoint "$folder/alone" --threads 8 --quiet
    holds "$command with 2 of 8 threads" \
      eval '((status == 0)) && grep -q "only 2 of 8 threads" "$folder/stderr"'
  done
  with_processes 2 data "$data/pictures" --threads 8 --json
  holds "data with 2 of 8 threads" \
    eval '((status == 0)) && grep -q "reading pictures: only 2 of 8 threads" "$folder/stdout"'
  with_processes 2 plan --data "$data" --model mlp --threads 8
  holds "plan needs no threads" eval '((status == 0)) && [[ ! -s $folder/stderr ]]'
  check_serve_threads
  # What they measure would be of another machine.
  for command in "bench --model mlp --steps 2" "profile --out $open/profile.toml"; do
    # shellcheck disable=SC2086
    with_processes 2 $command --threads 8
    holds "$command with 2 of 8 threads is refused" eval '((status == 1)) &&
      grep -q "nothing was measured: only 2 of 8 threads.*--threads 2" "$folder/stderr"'
  done
}

# serve needs no thread of its own: with one it answers beside what it computes.
check_serve_threads() {
  local processes address
  for processes in 1 2; do
    : >"$folder/address"
    (cd "$open" && exec setpriv --reuid=61234 --regid=61234 --clear-groups \
      prlimit --nproc=$processes "$MANTISSA" serve --checkpoint "$folder/alone" --port 0) \
      >"$folder/address" 2>"$folder/stderr" &
    for _ in {1..100}; do
      [[ -s $folder/address ]] && break
      sleep 0.1
    done
    address=$(<"$folder/address")
    holds "serve with $processes thread answers" python3 -c '
import sys, urllib.request
assert b"ready" in urllib.request.urlopen(sys.argv[1] + "/health", timeout=20).read()
assert b"logits" in urllib.request.urlopen(sys.argv[1] + "/predict", bytes(784), timeout=20).read()
assert urllib.request.urlopen(sys.argv[1] + "/parameters", timeout=20).read()' "$address"
    kill -TERM $!
    status=0
    wait $! || status=$?
    holds "... and ends in good order" eval '((status == 0))'
  done
}

check_streams() {
  run "${train[@]}" --threads 2 --out "$folder/a"
  status=0
  "$MANTISSA" "${train[@]}" --threads 2 --out "$folder/closed" <&- >&- 2>&- || status=$?
  holds "train with closed streams" eval '((status == 0))'
  holds "... writes its own into its files, and nothing else" \
    cmp "$folder/a/hashes.jsonl" "$folder/closed/hashes.jsonl"
  holds "... so they can be read" "$MANTISSA" verify "$folder/a" "$folder/closed" --quiet
  # The pipe has no reader any more when the result comes.
  status=0
  { sleep 0.2 && "$MANTISSA" info 2>"$folder/stderr"; } | true
  status=${PIPESTATUS[0]}
  holds "a closed pipe is an error" eval '((status == 1)) &&
    grep -q "cannot write to standard output: Broken pipe" "$folder/stderr"'
  status=0
  "$MANTISSA" info >/dev/full 2>"$folder/stderr" || status=$?
  holds "a full disk is an error" eval '((status == 1)) &&
    grep -q "cannot write to standard output: No space left" "$folder/stderr"'
  status=0
  (ulimit -f 300 && exec "$MANTISSA" "${train[@]}" --out "$folder/large") \
    >"$folder/stdout" 2>"$folder/stderr" || status=$?
  holds "a limit on file sizes is an error that names the file" eval '((status == 1)) &&
    grep -q "^mantissa train: .*large/checkpoint-.*File too large" "$folder/stderr"'
}

# signalled SIGNAL PYTHON ARGUMENTS...: as run, but PYTHON is done in the process before it starts
# (`number` is SIGNAL's).
signalled() {
  status=0
  timeout --kill-after=5 60 python3 - "$@" >"$folder/stdout" 2>"$folder/stderr" <<'PYTHON' ||
import os, signal, sys
number = getattr(signal, "SIG" + sys.argv[1])
exec(sys.argv[2])
os.execv(os.environ["MANTISSA"], ["mantissa"] + sys.argv[3:])
PYTHON
    status=$?
}

check_signals() {
  export MANTISSA
  local name
  # A signal that comes before the process can do anything about it.
  local early='signal.pthread_sigmask(signal.SIG_BLOCK, [number]); os.kill(os.getpid(), number)'
  for name in INT TERM HUP; do
    signalled $name "$early" "${train[@]}" --out "$folder/early"
    holds "SIG$name at once: train ends with 130" eval '((status == 130)) &&
      grep -q "interrupted before the first step" "$folder/stderr"'
    holds "... and leaves nothing" eval '[[ ! -e $folder/early ]]'
    signalled $name "$early" bench --model mlp --steps 2
    holds "SIG$name at once: bench ends with 130" eval '((status == 130))'
  done
  signalled TERM "$early" eval --checkpoint "$folder/a" --data "$data"
  holds "SIGTERM at once: eval ends by the signal" eval '((status == 143 || status == -15))'
  # As nohup does, and shells for background jobs of scripts.
  local ignored='signal.signal(number, signal.SIG_IGN)
os.system(f"(while sleep 0.02 && kill -{int(number)} {os.getpid()} 2>/dev/null; do :; done) &")'
  for name in INT HUP; do
    signalled $name "$ignored" "${train[@]}" --epochs 100 --out "$folder/ignored-$name"
    holds "an ignored SIG$name stays ignored" eval '((status == 0))'
  done
}

# Ctrl-C ends whatever waits within a second.
check_waits() {
  local begin
  # Standard error that nobody reads, with no room left in the pipe.
  python3 - "${train[@]}" --epochs 100000 --out "$folder/waiting" >"$folder/stdout" <<'PYTHON'
import os, signal, subprocess, sys, time
read, write = os.pipe()
os.set_blocking(write, False)
try:
    while True:
        os.write(write, b"." * 4096)
except BlockingIOError:
    os.set_blocking(write, True)
words = [word for word in sys.argv[1:] if word != "--quiet"]
process = subprocess.Popen([os.environ["MANTISSA"]] + words, stderr=write)
time.sleep(3)
process.send_signal(signal.SIGINT)
begin = time.monotonic()
process.wait(30)
print(process.returncode, time.monotonic() - begin)
sys.exit(process.returncode != 130 or time.monotonic() - begin > 2)
PYTHON
  status=$?
  holds "train whose messages nobody reads" eval '((status == 0))'
  # A pipe in place of a file is no wait at all.
  mkdir -p "$folder/pipes/table" "$folder/pipes/pictures/a"
  cp "$data/picture.png" "$folder/pipes/pictures/a"
  mkfifo "$folder/pipe" "$folder/pipes/table/train.csv" "$folder/pipes/pictures/labels.csv"
  refuses "a pipe as a table" 2 "not a regular file" data "$folder/pipes/table"
  run data "$folder/pipes/pictures"
  holds "a pipe beside pictures" eval '((status == 2))'
  command -v mpirun >/dev/null || return
  refuses "a pipe as a file of hosts" 2 "no regular file" launch -n 2 --hosts "$folder/pipe" -- train
  # A host that does not answer: whatever mpirun starts to get there waits for ever.
  mkdir -p "$folder/ssh"
  printf '#!/bin/sh\nexec sleep 61\n' >"$folder/ssh/ssh"
  chmod +x "$folder/ssh/ssh"
  echo "192.0.2.1 slots=2" >"$folder/hosts"
  PATH="$folder/ssh:$PATH" "$MANTISSA" launch -n 2 --hosts "$folder/hosts" -- \
    "${train[@]}" --out "$folder/far" >"$folder/stdout" 2>"$folder/stderr" &
  sleep 3
  begin=${EPOCHREALTIME/./}
  kill -INT $!
  status=0
  wait $! || status=$?
  holds "launch that waits for a host" eval \
    '((status == 130 && ${EPOCHREALTIME/./} - begin < 2000000))'
  sleep 1
  holds "... leaves no process" eval '! pgrep -f "$folder/ssh|$folder/far" >/dev/null'
}

# with_memory KIB ARGUMENTS...: as run, with that much address space.
with_memory() {
  status=0
  (ulimit -c 0 && ulimit -v "$1" && exec timeout --kill-after=5 60 "$MANTISSA" "${@:2}") \
    >"$folder/stdout" 2>"$folder/stderr" || status=$?
}

# Whatever the limit: a result, or one line that says what there was no memory for.
check_memory() {
  local base=10000 command more bad=0
  # Below that the libraries do not fit, which their loader says, or, before it can, dies of.
  while (ulimit -c 0 && ulimit -v $base && "$MANTISSA" --version) >/dev/null 2>&1
    (($? > 1)); do ((base += 100)); done
  for command in "${train[*]} --threads 2 --out $folder/small --overwrite" \
    "predict --checkpoint $folder/a --input $data/pictures --threads 2" \
    "report $folder/a --out $folder/report.html"; do
    for more in 0 500 1000 1500 2000 3000 5000 10000 40000; do
      # shellcheck disable=SC2086
      with_memory $((base + more)) $command
      ((status == 0)) && continue
      ((status == 1)) && grep -qE "^mantissa.*: (no|out of) memory" "$folder/stderr" && continue
      bad "${command%% *} with $((base + more)) KiB" "exit code $status"
      bad=1
    done
  done
  ((bad)) || ok "with little memory: a result, or a line about it"
  # A stack that has to grow later may find no room, which is a fault of segmentation.
  "$MANTISSA" "${train[@]}" --epochs 1000000 --out "$folder/endless" 2>/dev/null &
  for _ in {1..100}; do
    [[ -e $folder/endless/metrics.jsonl ]] && break
    sleep 0.1
  done
  holds "the stack has grown at the start" \
    eval '(($(awk "/^VmStk/ {print \$2}" /proc/$!/status) > 1000))'
  kill $!
  wait $!
  with_memory $((base + 40000)) train --data "$data" --model vgg8b --batch-size 256 --out "$folder/arena"
  holds "the arena that does not fit is named, with its size" eval '((status == 1)) && grep -qE \
    "^mantissa train: no memory for (the arena|weights and other state): the system did not give [0-9.]+ MiB$" \
    "$folder/stderr"'
  python3 - "$folder/wide" <<'PYTHON'
import os, struct, sys
os.makedirs(sys.argv[1])
for name, count in ("train", 60000), ("t10k", 64):
    with open(f"{sys.argv[1]}/{name}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count)))
    with open(f"{sys.argv[1]}/{name}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, count, 28, 28))
        file.truncate(16 + count * 28 * 28)  # takes no place on the disk
PYTHON
  with_memory $((base + 40000)) train --data "$folder/wide" --model mlp --out "$folder/data" --input-size 32x32
  holds "the data that do not fit are named, with their size" eval '((status == 1)) &&
    grep -qE "^mantissa train: no memory for 60000 pictures of 32x32x1: .* [0-9.]+ MiB$" \
    "$folder/stderr"'
}

check_threads
check_streams
check_signals
check_waits
check_memory
finish
