#!/usr/bin/env bash
# What a run is told and what it remembers: config.toml, `--resume`, names and paths of all kinds.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# says PATTERN: on standard error.
says() { grep -qE -- "$1" "$folder/stderr"; }

check_resume_of_nothing() {
  refuses "resume in a folder that is not there" 2 "typo is not there.*--model, --from or --config" \
    train --resume --out "$folder/typo"
  holds "it is not made" [ ! -e "$folder/typo" ]
  mkdir "$folder/bare"
  refuses "resume in an empty folder" 2 "bare holds no run.*--model, --from or --config" \
    train --resume --out "$folder/bare"
  refuses "resume of nothing, with other settings" 2 "typo is not there" \
    train --resume --data "$data" --batch-size 32 --out "$folder/typo"
  local begin=(--data "$data" --steps 1 --batch-size 8)
  accepts "resume with --model begins" "test accuracy" \
    train --resume --model mlp "${begin[@]}" --out "$folder/begun"
  holds "it says so" says "nothing saved yet: starting from the beginning"
  accepts "resume with --config begins" "test accuracy" \
    train --resume --config "$folder/begun/config.toml" --out "$folder/begun-too"
  holds "it says so, too" says "nothing saved yet: starting from the beginning"
}

check_resume_of_another_run() {
  local train=(train --data "$data" --model mlp --batch-size 32 --checkpoint-every 2) run=$folder/run
  accepts "a run to resume" "test accuracy" "${train[@]}" --steps 4 --out "$run"
  cp -r "$run" "$folder/before"
  refuses "resume with another seed" 2 "other settings: seed 1, now 2;" \
    train --resume --seed 2 --out "$run"
  holds "it advises to remove nothing" eval '! says "without|remove|delete"'
  refuses "resume with two other settings" 2 \
    "other settings: learning-rate 0.1, now 0.5; weight-decay 5e-04, now 0.1;" \
    train --resume --learning-rate 0.5 --weight-decay 0.1 --out "$run"
  refuses "resume with another optimizer" 2 "optimizer momentum, now adam; momentum 0.9, now none" \
    train --resume --optimizer adam --out "$run"
  refuses "resume with epochs instead of steps" 2 "steps 4, now 0" \
    train --resume --epochs 1 --out "$run"
  rm "$run/summary.json" "$folder/before/summary.json"
  refuses "resume of an unfinished run with another seed" 2 "other settings: seed 1, now 2;" \
    train --resume --seed 2 --out "$run"
  cp -r "$data" "$folder/data-2"
  flip "$folder/data-2/train-images-idx3-ubyte" 0.9
  run train --resume --data "$folder/data-2" --out "$run" --quiet
  holds "resume with other data" eval '((status == 2)) && says "run with other data" &&
    ! says "without that file"'
  holds "refusals change nothing" diff -r "$folder/before" "$run"
  local same=(--threads 1 --isa scalar --memory-budget 1GiB --recompute all --checkpoint-every 3
    --hash-every 2 --format bfp:exponents=exact)
  accepts "resume with what changes no result" "test accuracy" \
    train --resume "${same[@]}" --out "$run"
}

check_derived_settings() {
  local saved=$folder/saved again=$folder/again
  accepts "a run that chose little" "test accuracy" \
    train --data "$data" --model lenet5 --batch-size 32 --steps 2 --out "$saved"
  accepts "another batch size" "test accuracy" \
    train --config "$saved/config.toml" --batch-size 24 --out "$again"
  holds "its micro-batch follows" grep -qx 'micro-batch-size = "24"' "$again/config.toml"
  accepts "another network" "test accuracy" \
    train --config "$saved/config.toml" --model mlp --out "$again" --overwrite
  accepts "the same network by itself" "test accuracy" \
    train --data "$data" --model mlp --batch-size 32 --steps 2 --out "$folder/alone"
  holds "its learning rate follows" same_entry run_identity "$again" "$folder/alone"
  holds "a file that says nothing of it" \
    eval '! sed "/^\[derived\]/,\$d" "$saved/config.toml" | grep -qE "learning-rate|micro|decay"'

  accepts "a run that chose" "test accuracy" train --data "$data" --model lenet5 --batch-size 32 \
    --micro-batch-size 16 --learning-rate 0.01 --weight-decay 0.001 --steps 2 --out "$saved" --overwrite
  accepts "another network, another batch" "test accuracy" train --config "$saved/config.toml" \
    --model mlp --batch-size 48 --out "$again" --overwrite
  local line
  for line in 'micro-batch-size = "16"' 'learning-rate = "0.01"' 'weight-decay = "0.001"'; do
    holds "what was chosen stays: $line" grep -qx "$line" "$again/config.toml"
  done
  refuses "a chosen micro-batch that does not fit" 2 \
    "micro-batch-size 16 does not divide batch-size 24; --micro-batch-size 0" \
    train --config "$saved/config.toml" --batch-size 24 --out "$folder/refused"

  # What was derived holds for the same settings, whatever is derived today.
  sed -e '/^\[derived\]/,$d' -e '/^\(learning-rate\|weight-decay\|micro-batch-size\) /d' \
    "$saved/config.toml" >"$folder/derived.toml"
  printf '[derived]\nlearning-rate = "0.077"\n' >>"$folder/derived.toml"
  accepts "a file whose defaults were others" "test accuracy" \
    train --config "$folder/derived.toml" --batch-size 24 --out "$again" --overwrite
  holds "is repeated as it was" grep -qx 'learning-rate = "0.077"' "$again/config.toml"
  accepts "for another network" "test accuracy" \
    train --config "$folder/derived.toml" --model mlp --out "$again" --overwrite
  holds "it is derived anew" eval '! grep -q "0\.077" "$again/config.toml"'
  printf 'colour = "red"\n' >>"$folder/derived.toml"
  refuses "an unknown derived setting" 2 "derived.toml.*'colour'" \
    train --config "$folder/derived.toml" --out "$folder/refused"

  # A file without the table, as it was written before there was one.
  sed -e '/^#/d' -e '/^$/d' -e '/^\[derived\]/d' "$folder/alone/config.toml" >"$folder/old.toml"
  accepts "a file without [derived]" "test accuracy" \
    train --config "$folder/old.toml" --out "$again" --overwrite
  holds "repeats the run" same_entry state_sha256 "$again" "$folder/alone"
  cp "$folder/old.toml" "$folder/alone/config.toml"
  rm "$folder/alone/summary.json"
  accepts "a run with such a file resumes" "test accuracy" train --resume --out "$folder/alone"
}

check_configuration_files() {
  local config=$folder/config.toml common="model = 'mlp'
data = '$data'
batch-size = 32"
  printf '%s\n' "$common" 'epochs = 1' 'steps = 3' >"$config"
  refuses "epochs and steps in a file" 2 "config.toml: epochs and steps exclude" \
    train --config "$config" --out "$folder/refused"
  accepts "--steps decides between them" "kind +training" plan --config "$config" --steps 2
  accepts "--epochs does, too" "kind +training" plan --config "$config" --epochs 1
  printf '%s\n' "$common" 'epochs = 1' 'steps = 0' >"$config"
  accepts "steps = 0 is none" "test accuracy" train --config "$config" --out "$folder/by-epochs"
  holds "it went by epochs" grep -qx 'epochs = "1"' "$folder/by-epochs/config.toml"
  printf '%s\n' "$common" 'epochs = 2' >"$config"
  accepts "--steps 0 keeps the epochs" "test accuracy" \
    train --config "$config" --steps 0 --out "$folder/by-epochs" --overwrite
  holds "as many as the file says" grep -qx 'epochs = "2"' "$folder/by-epochs/config.toml"

  accepts "histograms" "test accuracy" train --config "$config" --epochs 1 --statistics \
    --checkpoint-every 4 --out "$folder/histograms"
  accepts "a file keeps that they are wanted" "test accuracy" \
    train --config "$folder/histograms/config.toml" --out "$folder/histograms-again"
  holds "they are there again" grep -q bit_counts "$folder/histograms-again/tensors.jsonl"
  accepts "a switch can be taken back" "test accuracy" train --statistics=false --overwrite \
    --config "$folder/histograms/config.toml" --out "$folder/histograms-again"
  holds "then they are not" eval '! grep -q bit_counts "$folder/histograms-again/tensors.jsonl"'
  accepts "fp32 has none" "test accuracy" train --overwrite --format fp32 \
    --config "$folder/histograms/config.toml" --out "$folder/histograms-again"
}

# Folders with names that files, terminals and shells take for something else.
check_names() {
  local name path
  for name in $'new\nline' $'escape\e[31m' $'delete\x7f' $'tab\tand\rreturn' 'quote"s and '"'single'" \
    'back\slash' 'ümläut …' '$(exit 3) `exit 4` * ?' '#comment = [x]'; do
    path=$folder/"$name"
    cp -r "$data" "$path"
    run train --data "$path" --model mlp --batch-size 32 --steps 1 --out "$folder/odd" --overwrite
    holds "data in a folder '$(printf %q "$name")'" [ "$status" = 0 ]
    run train --config "$folder/odd/config.toml" --out "$folder/odd-again" --overwrite --quiet
    holds "its config repeats it" [ "$status" = 0 ]
    holds "with the same path" [ "$(json "$folder/odd-again/summary.json" data)" = "$path" ]
  done
  path=$folder/$'latin\xfc'
  cp -r "$data" "$path"
  refuses "data in a folder that is not UTF-8" 2 "^mantissa train: data: .*is not UTF-8" \
    train --data "$path" --model mlp --batch-size 32 --steps 1 --out "$folder/refused"
  holds "that leaves no folder" [ ! -e "$folder/refused" ]
  accepts "results in such a folder" "test accuracy" \
    train --data "$data" --model mlp --batch-size 32 --steps 1 --out "$folder/"$'out\xfc'
}

# Runs what `train` printed under "What to try next", with a step instead of the ten epochs.
next_steps_work() {
  local line count=0
  while IFS= read -r line; do
    bash -c "${line/--epochs 10/--steps 1 --quiet}" >/dev/null 2>"$folder/stderr" || return 1
    count=$((count + 1))
  done < <(sed '1,/^What to try next/d' "$folder/stdout")
  ((count == 4))
}

# next_steps NAME ARGUMENTS...: trains, and does what is proposed then.
next_steps() {
  rm -rf "$folder"/next
  run train --threads 2 --out "$folder/next/run" "${@:2}"
  holds "what to try next: $1" next_steps_work
}

# Names as long as a file system takes them.
check_long_names() {
  local name
  name=$(printf '%0245d' 7)
  cp -r "$data" "$folder/$name-data"
  run train --data "$folder/$name-data" --model mlp --batch-size 32 --steps 1 --quiet \
    --out "$folder/$name" --tensorboard "$folder/long-events"
  holds "a run and data of 245 letters" [ "$status" = 0 ]
  run report "$folder/$name" --out "$folder/$name.html" --tensorboard "$folder/long-too"
  holds "a report of 250" [ -s "$folder/$name.html" ]
  run eval --checkpoint "$folder/$name" --out "$folder/$name.json" --quiet
  holds "an evaluation of 250" [ -s "$folder/$name.json" ]
  refuses "a run of 256" 2 "name too long" train --data "$data" --model mlp --batch-size 32 \
    --out "$folder/$name-and-eleven"
  holds "no temporaries are left" eval '[[ -z $(find "$folder" -name "*.tmp-*") ]]'
}

check_next_steps() {
  local small=(--data "$data/pictures" --model mlp --batch-size 8 --steps 2)
  next_steps "pictures" "${small[@]}"
  next_steps "pictures of another size" "${small[@]}" --input-size 20x24
  next_steps "more classes" "${small[@]}" --classes 7
  next_steps "a learning rate for this network" "${small[@]}" --learning-rate 0.003
  next_steps "a memory budget" "${small[@]}" --memory-budget 12MiB
  next_steps "fp32" "${small[@]}" --format fp32
  next_steps "validation" "${small[@]}" --validation 8 --optimizer adam --lr-schedule plateau
  next_steps "a format that few networks take" --data "$data" --batch-size 32 --steps 1 \
    --model mobilenet_v2 --width 0.125 --allow-inversion
  cp -r "$data" "$folder/few"
  python3 - "$folder/few" <<'PYTHON'
import sys
for name, header, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
    path = f"{sys.argv[1]}/t10k-{name}-ubyte"
    data = open(path, "rb").read()
    open(path, "wb").write(data[:4] + (3).to_bytes(4, "big") + data[8:header + 3 * size])
PYTHON
  next_steps "three test examples" --data "$folder/few" --model mlp --batch-size 32 --steps 1
  local odd=$'it\'s\n"1\e[31m" $(exit 3) \\x' here=$PWD program
  program=$(realpath "$MANTISSA")
  mkdir -p "$folder/-here"
  cp -r "$data/pictures" "$folder/-here/$odd"
  cp -r "$data/pictures" "$folder/-here/-pictures"
  cd "$folder/-here" || return
  MANTISSA=$program
  run train --data "$odd" --model mlp --batch-size 8 --steps 1 --out "run $odd"
  holds "they hold nothing that a terminal obeys" eval '! grep -q $'"'\\e'"' "$folder/stdout"'
  holds "what to try next: odd names, relative to here" next_steps_work
  run train --data=-pictures --model mlp --batch-size 8 --steps 1 --out=-run
  holds "what to try next: names that look like options" next_steps_work
  cd "$here" || return
}

check_tensorboard() {
  local train=(train --data "$data" --model mlp --batch-size 32 --steps 2 --quiet
    --tensorboard "$folder/events")
  run "${train[@]}" --out "$folder/one"
  run "${train[@]}" --seed 2 --out "$folder/two"
  holds "events of two runs: a folder each" \
    eval '[[ -s $(echo "$folder"/events/one/*tfevents*) && -s $(echo "$folder"/events/two/*tfevents*) ]]'
  run "${train[@]}" --seed 3 --out "$folder/one" --overwrite
  holds "an overwritten run has its new events only" \
    eval '((status == 0)) && (($(ls "$folder/events/one" | wc -l) == 1))'
  refuses "events of another run of that name" 2 "events/one/.* of another run.*another folder" \
    "${train[@]}" --out "$folder/elsewhere/one"
  holds "that leaves no folder" [ ! -e "$folder/elsewhere" ]
  run report "$folder/one" --tensorboard "$folder/events" --out "$folder/report.html"
  holds "report replaces the events of the run itself" \
    eval '((status == 0)) && (($(ls "$folder/events/one" | wc -l) == 1))'
  cp -r "$folder/one" "$folder/elsewhere-one"
  mkdir "$folder/elsewhere" && mv "$folder/elsewhere-one" "$folder/elsewhere/one"
  refuses "report of another run of that name" 2 "events/one/.* of another run" \
    report "$folder/elsewhere/one" --tensorboard "$folder/events" --out "$folder/report.html"
}

# Runs that went wrong.
check_divergence() {
  local train=(train --data "$data" --batch-size 32 --lr-schedule constant --warmup 0)
  refuses_after_progress "a loss far above guessing" 1 \
    "training diverged: the loss of the last .* that of guessing 2\.303; start anew .* than 50" \
    "${train[@]}" --model resnet8 --format dfp8 --learning-rate 50 --steps 40 --out "$folder/diverged"
  holds "its summary says so" grep -q '"diverged": "the loss of the last' \
    "$folder/diverged/summary.json"
  refuses "resuming it does not make it good" 1 "training diverged: the loss of the last" \
    train --resume --out "$folder/diverged"
  accepts "info says so" "training diverged" info "$folder/diverged"
  run "${train[@]}" --model mlp --learning-rate 0.5 --steps 60 --out "$folder/dead" --quiet
  holds "no better than guessing is worth a word" \
    eval '((status == 0)) && says "no better than that of guessing .*another --learning-rate than 0\.5"'
}

# A control group that allows less than a run needs, as far as a name space can pretend one.
check_memory_limit() {
  local group=$folder/cgroup limited=$folder/limited program=$MANTISSA
  mkdir -p "$group/memory"
  printf '#!/bin/bash\nexec unshare -rm bash -c %s _ "$@"\n' \
    "'mount --bind $group /sys/fs/cgroup && exec $(realpath "$program") \"\$@\"'" >"$limited"
  chmod +x "$limited"
  "$limited" --version >/dev/null 2>&1 || return 0  # no such name spaces here
  local train=(train --data "$data" --model mlp --batch-size 32 --steps 1 --quiet)
  MANTISSA=$limited
  echo max >"$group/memory.max"
  run "${train[@]}" --out "$folder/unlimited"
  holds "no limit, no warning" eval '((status == 0)) && [[ ! -s $folder/stderr ]]'
  echo $((12 << 20)) | tee "$group/memory.max" >"$group/memory/memory.limit_in_bytes"
  run "${train[@]}" --out "$folder/limit"
  holds "a limit below the plan is worth a warning" \
    eval '((status == 0)) && says "^warning: needs .* may take 12.0 MiB in all \(/sys/fs/cgroup/mem"'
  run bench --model mlp --batch-size 32 --steps 1 --warmup 0 --quiet
  holds "of a measurement, too" eval '((status == 0)) && says "^warning: needs .* may take 12.0 MiB"'
  MANTISSA=$program
}

# As `refuses`, of runs that got somewhere before.
refuses_after_progress() {
  run "${@:4}"
  if ((status == $2)) && tail -1 "$folder/stderr" | grep -qE -- "$3"; then
    ok "$1"
  else
    bad "$1" "exit code $status, or other words at the end of standard error"
  fi
}

check_resume_of_nothing
check_resume_of_another_run
check_derived_settings
check_configuration_files
check_names
check_long_names
check_next_steps
check_tensorboard
check_divergence
check_memory_limit
finish
