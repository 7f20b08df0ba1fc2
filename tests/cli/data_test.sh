#!/usr/bin/env bash
# Folders of pictures, and other data sets, as people have them: what is recognised, what is said.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

pictures=$data/pictures  # 40 of 28x28 in "class 0" to "class 3"

# put_class FROM FOLDER FIRST LAST: some of a class's pictures, renamed, in a folder.
put_class() {
  local i files=("$pictures/$1"/*.png)
  mkdir -p "$2"
  for ((i = $3; i <= $4; ++i)); do cp "${files[i]}" "$2/$i.PNG"; done
}

# put_splits FOLDER TRAIN VALIDATION TEST: three splits under these names.
put_splits() {
  local class
  for class in "class 0" "class 1" "class 2" "class 3"; do
    put_class "$class" "$1/$2/$class" 0 5
    put_class "$class" "$1/$3/$class" 6 7
    put_class "$class" "$1/$4/$class" 8 9
  done
}

# notes PATTERN ARGUMENTS...: the command succeeds and says so, on either stream.
notes() {
  run "${@:2}"
  if ((status != 0)); then
    bad "${*:2:1} says: $1" "exit code $status"
  elif ! cat "$folder/stdout" "$folder/stderr" | grep -qE -- "$1"; then
    bad "${*:2:1} says: $1" "it does not"
  else
    ok "${*:2:1} says: $1"
  fi
}

check_splits() {
  local set=$folder/splits train
  put_splits "$set" Train VALID testing
  train=(train --model mlp --data "$set" --batch-size 8 --quiet)
  accepts "data: three splits" "^  validation +8 examples" data "$set"
  notes "'.*splits/VALID' holds the validation pictures" data "$set"
  accepts "data --quiet: three splits" "24 training, 8 validation and 8 test examples of 4 classes" \
    data "$set" --quiet
  prints_json "data --json: three splits" data "$set" --json
  holds "data --json: examples of each split" python3 -c '
import json, sys
data = json.load(open(sys.argv[1]))
sys.exit([data[f"{split}_examples"] for split in ("train", "validation", "test")] != [24, 8, 8] or
         data["classes"][3] != {"name": "class 3", "train": 6, "validation": 2, "test": 2})' \
    "$folder/stdout"
  accepts "train with the data set'\''s own validation" "test accuracy" "${train[@]}" --epochs 2 \
    --out "$folder/own"
  holds "each epoch is validated" \
    eval '(($(grep -c validation_loss "$folder/own/metrics.jsonl") == 2))'
  holds "with all its pictures" eval '(($(json "$folder/own/summary.json" validation_examples) == 8))'
  holds "and none of those for training" \
    eval '(($(json "$folder/own/summary.json" train_examples) == 24))'
  holds "it resumes" go_on_from_the_checkpoint_before "$folder/own"
  accepts "they say when to stop" "test accuracy" "${train[@]}" --epochs 200 --early-stop 1 \
    --learning-rate 0.05 --out "$folder/stopped"
  holds "two best losses: one epoch apart" eval \
    '(($(grep -c validation_loss "$folder/stopped/metrics.jsonl") < 200))'
  refuses "more to hold back" 2 "has 8 validation pictures of its own.*leave this out" \
    "${train[@]}" --validation 0.5 --out "$folder/refused"
  mv "$set/VALID/class 0/6.PNG" "$set/Train/class 0/20.PNG"
  run "${train[@]}" --epochs 2 --resume --out "$folder/own"
  holds "another validation set is another run" \
    eval '((status == 2)) && grep -q "other data" "$folder/stderr"'
  notes "[0-9]+ validation pictures are training pictures, too" data "$(
    cp -r "$set" "$set-leak"
    cp "$set/Train/class 1/0.PNG" "$set-leak/VALID/class 1"
    echo "$set-leak"
  )"
  mv "$set/testing" "$folder/elsewhere"
  notes "VALID' is taken for it, not for validation" "${train[@]}" --epochs 1 --out "$folder/two"
  mv "$set/Train" "$set/class 4"
  refuses "test pictures without training pictures" 2 "VALID' is named as validation pictures" \
    "${train[@]}" --out "$folder/refused"
}

check_places() {
  local set=$folder/places/set
  put_splits "$set" train val test
  refuses "one level too high" 2 "give '$set' instead of '$folder/places'" data "$folder/places"
  refuses "one level too low" 2 "2 pictures lie in no class folder.* such as in '$set'" \
    data "$set/val/class 1"
  notes "'$set/test' lies beside this folder: to use both, give '$set'" data "$set/train"
  refuses "a file of it" 2 "is a file; give the folder that holds it, '$data'" \
    data "$data/train-images-idx3-ubyte"
  mkdir -p "$folder/root/MNIST/raw"
  cp "$data"/*-ubyte "$folder/root/MNIST/raw"
  refuses "two levels too high" 2 "'$folder/root/MNIST/raw' holds IDX files: give that" \
    data "$folder/root"
}

# What is not read is said, and what training refuses, data says.
check_leftovers() {
  local set=$folder/leftovers
  put_splits "$set" train val test
  echo "0.PNG,cat" >"$set/labels.csv"
  cp "$data/picture.png" "$set/train/loose.png"
  ln -s "$folder/none" "$set/train/class 0/lost"
  ln -s "$pictures/class 1" "$set/train/class 1/linked"
  mkdir "$set/more"
  local note
  for note in "1 not named as PNG or JPEG pictures: '$set/labels.csv'" \
    "1 links that lead nowhere: '$set/train/class 0/lost'" \
    "1 links to folders, .*: '$set/train/class 1/linked'" \
    "1 pictures that lie in no class folder: .*: '$set/train/loose.png'" \
    "1 folders beside those that are read: '$set/more'"; do
    notes "passed over $note" data "$set"
  done
  run train --model mlp --data "$set" --batch-size 8 --steps 1 --out "$folder/left"
  holds "train says the same" eval '((status == 0)) && (($(grep -c "passed over" "$folder/stderr") == 5))'
  mkfifo "$set/train/class 2/pipe.png"
  ln -s none "$set/train/class 3/lost.jpg"
  : >"$set/val/class 3/empty.png"
  refuses "train on what is no picture" 2 "class 2/pipe.png.*and 2 more" \
    train --model mlp --data "$set" --out "$folder/refused"
  run data "$set" --json
  holds "data describes the rest, says why training would refuse it, exit code 2" eval \
    '((status == 2)) && grep -q "training would refuse this: .*pipe.png" "$folder/stderr" &&
      python3 -c "import json, sys; sys.exit(len(json.load(open(sys.argv[1]))[\"unreadable\"]) != 3)" \
        "$folder/stdout"'
  mkdir -p "$folder/one/a" && cp "$data/picture.png" "$folder/one/a"
  run data "$folder/one"
  holds "data of a set without test pictures: exit code 2" eval \
    '((status == 2)) && grep -q "there are no test pictures" "$folder/stderr"'
  notes "training takes batches of 128 unless --batch-size says otherwise: at most 36 here" \
    data "$pictures"
}

check_names() {
  local set=$folder/dotted file
  mkdir "$set"
  for file in "$data"/*-ubyte; do
    file=${file##*/}
    cp "$data/$file" "$set/${file/-idx/.idx}"
  done
  gzip "$set/train-images.idx3-ubyte"
  mkdir "$set/train-images-idx3-ubyte"  # as some archives have it
  accepts "names with a dot" "IDX files, 256 training and 64 test" data "$set" --quiet
  mkdir "$folder/python" "$folder/python/cifar-10-batches-py" "$folder/python100"
  touch "$folder/python/cifar-10-batches-py"/{data_batch_{1,2,3,4,5},test_batch,batches.meta}
  touch "$folder/python100"/{train,test,meta}
  for file in python python/cifar-10-batches-py; do
    refuses "CIFAR-10 for Python: $file" 2 "Python version.*cifar-10-binary.tar.gz" \
      data "$folder/$file"
  done
  refuses "CIFAR-100 for Python" 2 "Python version.*cifar-100-binary.tar.gz" \
    train --data "$folder/python100" --out "$folder/refused"
}

# More classes than a byte can tell apart.
check_many_classes() {
  local set=$folder/classes i
  for ((i = 1000; i < 1300; ++i)); do
    mkdir -p "$set/train/$i" "$set/test/$i"
    cp "$data/picture.png" "$set/train/$i"
    cp "$data/picture.png" "$set/test/$i"
  done
  accepts "data: 300 classes" "^ +299 1299 +1 +1$" data "$set"
  accepts "data: a contact sheet of 300 classes" "training" data "$set" --contact-sheet \
    "$folder/classes.png"
  accepts "train: 300 classes" "test accuracy" train --data "$set" --model mlp --batch-size 8 \
    --epochs 1 --out "$folder/many_classes"
}

# The names of files are gone when training begins.
check_memory_of_names() {
  local set=$folder/many
  python3 - "$data/picture.png" "$set" <<'PYTHON'
import os, sys
for split, count in ("train", 22000), ("test", 200):
    for label in "first class", "second class":
        os.makedirs(f"{sys.argv[2]}/{split}/{label}")
    for i in range(count):
        name = f"{sys.argv[2]}/{split}/{('first', 'second')[i % 2]} class/picture number {i}.png"
        os.link(sys.argv[1], name)
PYTHON
  accepts "train on many pictures" "test accuracy" train --model mlp --data "$set" --input-size 4 \
    --steps 2 --threads 2 --out "$folder/of-many"
  holds "the measured peak is within 8 MiB of the plan" eval \
    '(($(json "$folder/of-many/summary.json" peak_rss_bytes) <
        $(json "$folder/of-many/summary.json" planned_peak_bytes) + 8388608))'
}

check_splits
check_places
check_leftovers
check_names
check_many_classes
check_memory_of_names
finish
