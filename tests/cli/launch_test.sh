#!/usr/bin/env bash
# Runs of several processes: the same bits, requests to stop, processes that die or freeze.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if ! command -v mpirun >/dev/null || [[ ! -e $(dirname "$MANTISSA")/libmantissa-mpi.so ]]; then
  echo "skipped: there is no Open MPI"
  exit 77
fi

settings=(--data "$data" --model resnet8 --width 0.5 --steps 12 --batch-size 16 --accumulate 4)

field() {
  python3 -c 'import json, sys; print(json.load(open(sys.argv[2] + "/summary.json"))[sys.argv[1]])' \
    "$1" "$2"
}
same_state() { [[ $(field state_sha256 "$1") == "$(field state_sha256 "$2")" ]]; }

refuses "no number of processes" 2 "how many processes" launch -- train
refuses "another command" 2 "train with its options" launch -n 2 -- eval
refuses "no command" 2 "train with its options" launch -n 2
refuses "no such file of hosts" 2 "No such file" launch -n 2 --hosts "$folder/none" -- train
printf '\xef\xbb\xbflocalhost slots=2\r\n' >"$folder/hosts"
accepts "a file of hosts that Windows wrote" "test accuracy" launch -n 2 --hosts "$folder/hosts" -- \
  train "${settings[@]}" --replicas 2 --out "$folder/hosts-run"
refuses "replicas without processes" 2 "mantissa launch -n 2" train "${settings[@]}" \
  --replicas 2 --out "$folder/refused"
refuses "more processes than stages" 2 "3 processes were started" launch -n 3 -- train \
  "${settings[@]}" --stages 2 --out "$folder/refused"
refuses "micro-batches that replicas do not share" 2 "3 do not share 4" launch -n 3 -- train \
  "${settings[@]}" --replicas 3 --out "$folder/refused"

refuses "a trace of other processes" 2 "threads of one process" launch -n 2 -- train \
  "${settings[@]}" --trace "$folder/trace.json" --out "$folder/refused"

accepts "one process" "test accuracy" train "${settings[@]}" --out "$folder/one"
accepts "two stages" "test accuracy" launch -n 2 -- train "${settings[@]}" --out "$folder/two"
holds "the same state" same_state "$folder/two" "$folder/one"
holds "the summary has processes" python3 -c 'import json, sys
summary = json.load(open(sys.argv[1]))
assert summary["stages"] == 2 and summary["replicas"] == 1 and summary["pipeline"] == "flush"
assert len(summary["bytes_sent"]) == 2 and min(summary["bytes_sent"]) > 0
assert len(summary["idle_fraction"]) == 2 and len(summary["staleness"]) > 2' "$folder/two/summary.json"
accepts "two replicas of two stages" "test accuracy" launch -n 4 -- train "${settings[@]}" \
  --replicas 2 --out "$folder/four"
holds "the same state again" same_state "$folder/four" "$folder/one"
accepts "the result as JSON alone" '^\{' launch -n 2 -- train "${settings[@]}" --json \
  --out "$folder/json"

way=(--pipeline async --drain-every 4)
accepts "async as threads" "test accuracy" train "${settings[@]}" --stages 2 "${way[@]}" \
  --out "$folder/threads"
accepts "async as processes" "test accuracy" launch -n 2 -- train "${settings[@]}" "${way[@]}" \
  --out "$folder/async"
holds "async: the same state" same_state "$folder/async" "$folder/threads"

# A tail that flushes, and what the stages of other processes counted.
accepts "a tail as threads" "test accuracy" train "${settings[@]}" --stages 2 "${way[@]}" \
  --sync-last 5 --out "$folder/tail-threads"
accepts "a tail as processes" "test accuracy" launch -n 2 -- train "${settings[@]}" "${way[@]}" \
  --sync-last 5 --out "$folder/tail"
holds "the tail: the same state" same_state "$folder/tail" "$folder/tail-threads"
holds "the tail shows" test "$(field state_sha256 "$folder/tail")" != \
  "$(field state_sha256 "$folder/async")"
holds "the same staleness" test "$(field staleness "$folder/tail")" = \
  "$(field staleness "$folder/tail-threads")"

# A failure of the first process ends the others.
accepts "a run" "test accuracy" launch -n 2 -- train "${settings[@]}" --out "$folder/again"
refuses "a folder that has a run" 2 "again" launch -n 2 -- train "${settings[@]}" \
  --out "$folder/again"

steps=100000
# start RUN ARGUMENTS...: a long run with checkpoints, in the background; waits for the first.
start() {
  local out=$1 i
  shift
  "$MANTISSA" launch -n 3 --deadline 3 -- train "${settings[@]}" --steps "$steps" \
    --checkpoint-every 4 --out "$out" "$@" >"$folder/stdout" 2>"$folder/stderr" &
  launched=$!
  for ((i = 0; i < 300; ++i)); do
    compgen -G "$out/checkpoint-*.safetensors" >/dev/null && return
    sleep 0.1
  done
  bad "no checkpoint in 30 s" "$out"
}
# worker RUN: the process id of the run's second process.
worker() {
  local id
  for id in $(pgrep -f -- "--out $1"); do
    if grep -zqx "OMPI_COMM_WORLD_RANK=1" "/proc/$id/environ" 2>/dev/null; then
      echo "$id"
      return
    fi
  done
}
# ends NAME SECONDS CODE: the run ends within so many seconds, with this exit code.
ends() {
  local begin=$SECONDS code=0
  wait "$launched" || code=$?
  if ((SECONDS - begin > $2)); then
    bad "$1" "$((SECONDS - begin)) s"
  elif ((code != $3)); then
    bad "$1" "exit code $code"
  else
    ok "$1"
  fi
}
nothing_left() {
  local i
  for ((i = 0; i < 50; ++i)); do
    pgrep -f -- "--out $1" >/dev/null || return 0
    sleep 0.1
  done
  return 1
}

# before_steps RUN: a process is killed as soon as it is there, long before the first step.
before_steps() {
  local i id=
  "$MANTISSA" launch -n 3 --deadline 3 -- train "${settings[@]}" --steps 100000 --out "$1" \
    >"$folder/stdout" 2>"$folder/stderr" &
  launched=$!
  for ((i = 0; i < 3000; ++i)); do
    [[ -e $1/config.toml ]] && id=$(worker "$1") && [[ -n $id ]] && break
    sleep 0.01
  done
  kill -9 "$id"
}
before_steps "$folder/early"
ends "a process is killed at the beginning: the run ends" 15 1
holds "the message says its stage" grep -qE "process 1 \(stage 2\).*signal 9" "$folder/stderr"

# mpirun of Open MPI 5 words and breaks its notes otherwise than that of 4, and ends with 128 + 9.
mkdir "$folder/mpi5"
cat >"$folder/mpi5/mpirun" <<'EOF'
#!/bin/sh
rule=$(printf '%074d' 0 | tr 0 -)
printf '%s\n' "$rule" "prterun noticed that process rank 2 with PID 7928 on node vm exited on" \
  "signal 9 (Killed)." "$rule" >&2
exit 137
EOF
chmod +x "$folder/mpi5/mpirun"
PATH="$folder/mpi5:$PATH" refuses "Open MPI 5 tells that a process was killed" 1 \
  "process 2: its last sign of life before signal 9" launch -n 3 -- train

# Where something is killed that cannot tidy up: no process is left, no file and no shared memory.
export TMPDIR=$folder/temporary
mkdir "$TMPDIR"
leftovers() { find "$TMPDIR" /dev/shm -mindepth 1 -maxdepth 1 -user "$EUID" -newer "$folder/begun"; }
tidy() {
  local i
  for ((i = 0; i < 120; ++i)); do
    [[ -z $(leftovers) ]] && return
    sleep 0.1
  done
  return 1
}
steps=100000
touch "$folder/begun"
start "$folder/without-launch" --quiet
kill -9 "$launched"
wait "$launched"
holds "launch is killed: no process is left" nothing_left "$folder/without-launch"
holds "... and nothing of theirs" tidy
start "$folder/without-mpirun" --quiet
kill -9 "$(pgrep -P "$launched" mpirun)"
ends "mpirun is killed: the run ends" 15 1
holds "... with a word" grep -q "mpirun was ended by signal 9" "$folder/stderr"
holds "... no process is left" nothing_left "$folder/without-mpirun"
holds "... and nothing of theirs" tidy
# Everything is killed, the guard too: the next launch tidies up.
start "$folder/without-all" --quiet
pkill -9 -P "$launched"
kill -9 "$launched"
wait "$launched"
holds "all are killed: no process is left" nothing_left "$folder/without-all"
# A process that was killed may hold its lock a moment longer than its name can be seen.
sleep 0.5
refuses "the next launch" 2 "no data set" launch -n 2 -- train --data "$folder/none" --out "$folder/none"
holds "... tidies up" tidy
# Other numbers of mpirun are none of the documented ones.
mkdir "$folder/mpi-ends"
printf '#!/bin/sh\nexit 137\n' >"$folder/mpi-ends/mpirun"
chmod +x "$folder/mpi-ends/mpirun"
PATH="$folder/mpi-ends:$PATH" refuses "mpirun ends with 137" 1 "ended by signal 9" \
  launch -n 3 -- train
unset TMPDIR

steps=800
start "$folder/killed"
sleep 1.5 # positions are told once a second
kill -9 "$(worker "$folder/killed")"
ends "a process is killed: the run ends" 15 1
holds "the message says where it was" \
  grep -qE "process 1 \(stage 2\).* step [0-9]+.*signal 9" "$folder/stderr"
holds "all processes are gone" nothing_left "$folder/killed"

steps=100000
start "$folder/frozen"
kill -STOP "$(worker "$folder/frozen")"
ends "a process is frozen: the run ends" 20 1
holds "the message names it" grep -qE "process 1 \(stage 2\).*not been heard of" "$folder/stderr"
holds "all processes are gone, the frozen one too" nothing_left "$folder/frozen"

start "$folder/frozen-stopped"
kill -STOP "$(worker "$folder/frozen-stopped")"
kill -INT "$launched"
ends "Ctrl-C while a process is frozen: the run ends" 2 130
holds "... with a word" grep -q "while a process was frozen" "$folder/stderr"
holds "... and no process is left" nothing_left "$folder/frozen-stopped"

start "$folder/stopped"
kill -INT "$launched"
ends "Ctrl-C ends the step" 20 130
holds "with a checkpoint" grep -q "a checkpoint is in" "$folder/stderr"
holds "all processes are gone after it" nothing_left "$folder/stopped"

# A killed run goes on in another division, and ends with the state of a run that nothing disturbed.
accepts "it goes on with a stage less" "test accuracy" launch -n 2 -- train --resume --stages 2 \
  --out "$folder/killed"
holds "from a checkpoint" grep -q "resuming at step" "$folder/stderr"
accepts "an undisturbed run" "test accuracy" train "${settings[@]}" --steps 800 \
  --checkpoint-every 4 --out "$folder/undisturbed"
holds "both end with the same state" same_state "$folder/killed" "$folder/undisturbed"

finish
