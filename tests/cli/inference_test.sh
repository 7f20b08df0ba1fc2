#!/usr/bin/env bash
# `eval`, `predict`, `plan`, `info` and `data`, of numbers and of pictures.
# shellcheck disable=SC2016,SC2013
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# raw_logits_agree RUN FILE: the softmax of the logits in FILE gives the probabilities that RUN
# predicts for test examples 0 to 9.
raw_logits_agree() {
  "$MANTISSA" predict --checkpoint "$1" --data "$data" --index 0-9 --json >"$folder/predicted" &&
    python3 - "$2" "$folder/predicted" <<'PYTHON'
import ast, json, math, struct, sys, zipfile
def array(archive, name, kind="i"):
    data = archive.read(name + ".npy")
    end = 10 + struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:end].decode())
    assert header["descr"] == f"<{kind}4" and not header["fortran_order"], header
    return header["shape"], struct.unpack(f"<{len(data[end:]) // 4}{kind}", data[end:])
archive = zipfile.ZipFile(sys.argv[1])
if "logits.npy" in archive.namelist():
    assert len(archive.namelist()) == 1, archive.namelist()
    (shape, mantissas), exponent = array(archive, "logits", "f"), 0
else:
    shape, mantissas = array(archive, "mantissas")
    scalar, (exponent,) = array(archive, "exponent")
    assert scalar == (), scalar
assert shape[0] == 10, shape
for i, one in enumerate(json.load(open(sys.argv[2]))["predictions"]):
    logits = [m * 2.0 ** exponent for m in mantissas[i * shape[1]:(i + 1) * shape[1]]]
    total = sum(math.exp(x - max(logits)) for x in logits)
    for x, found in zip(logits, one["probabilities"]):
        assert abs(math.exp(x - max(logits)) / total - found) < 1e-6, (i, x, found)
PYTHON
}

check_inference() {
  run train --data "$data" --model mlp --batch-size 32 --threads 2 --epochs 1 --quiet --out "$folder/a"
  accepts "eval" "test accuracy [0-9.]+ %" eval --checkpoint "$folder/a" --data "$data"
  prints_json "eval --json" eval --checkpoint "$folder/a" --data "$data" --json
  holds "eval finds the accuracy of the training" \
    eval '[[ $(json "$folder/stdout" accuracy) == "$(json "$folder/a/summary.json" test_accuracy)" ]]'
  holds "training stored its evaluation" \
    eval '[[ $(json "$folder/a/evaluation.json" accuracy) == "$(json "$folder/stdout" accuracy)" ]]'
  accepts "train in fp32" "test accuracy" train --data "$data" --model lenet5 --batch-size 32 \
    --epochs 1 --format fp32 --optimizer adam --clip-norm 1 --out "$folder/fp32"
  prints_json "eval of fp32" eval --checkpoint "$folder/fp32" --data "$data" --json
  holds "eval in fp32 finds the accuracy of the training" \
    eval '[[ $(json "$folder/stdout" accuracy) == "$(json "$folder/fp32/summary.json" test_accuracy)" ]]'
  accepts "train with block=channel" "test accuracy" train --data "$data" --model lenet5 \
    --batch-size 32 --steps 2 --format bfp:block=channel --checkpoint-every 1 \
    --out "$folder/channel"
  holds "block=channel resumes" go_on_from_the_checkpoint_before "$folder/channel"
  prints_json "eval of it" eval --checkpoint "$folder/channel" --data "$data" --json
  holds "eval with block=channel finds the accuracy of the training" \
    eval '[[ $(json "$folder/stdout" accuracy) == "$(json "$folder/channel/summary.json" test_accuracy)" ]]'
  accepts "info shows the exponents of channels" "conv1\.weights\.exponent +I16 +\[6\]" \
    info "$folder/channel" --tensors
  prints_json "info --json of it" info "$folder/channel" --tensors --json
  holds "info --json has the smallest of them" grep -q '"smallest_exponent"' "$folder/stdout"
  refuses "block of another kind" 2 "block=tensor or channel" \
    train --data "$data" --model lenet5 --format bfp:block=row --out "$folder/row"
  accepts "train with mse" "test accuracy" train --data "$data" --model mlp --batch-size 32 \
    --epochs 1 --loss mse --out "$folder/mse"
  prints_json "eval of it" eval --checkpoint "$folder/mse" --data "$data" --json
  holds "eval takes the loss that it was trained with" \
    eval '[[ $(json "$folder/stdout" loss) == "$(json "$folder/mse/summary.json" test_loss)" ]]'
  accepts "eval: precision and recall" "^class +examples +precision +recall" \
    eval --checkpoint "$folder/a" --data "$data" --out "$folder"
  holds "eval --out writes what training wrote" \
    cmp "$folder/evaluation.json" "$folder/a/evaluation.json"
  refuses "eval --out into no folder" 2 "no folder" \
    eval --checkpoint "$folder/a" --data "$data" --out "$folder/none/e.json"
  accepts "predict test examples" "^test 9 " \
    predict --checkpoint "$folder/a" --data "$data" --index 0-9
  accepts "predict a picture" "picture\.png" \
    predict --checkpoint "$folder/a/model.safetensors" --input "$data/picture.png"
  accepts "predict --raw" "^test 9 " \
    predict --checkpoint "$folder/a" --data "$data" --index 0-9 --raw "$folder/raw.npz"
  holds "predict --raw writes integers" raw_logits_agree "$folder/a" "$folder/raw.npz"
  accepts "predict --raw of fp32" "^test 9 " \
    predict --checkpoint "$folder/fp32" --data "$data" --index 0-9 --raw "$folder/raw32.npz"
  holds "predict --raw of fp32 writes the numbers" raw_logits_agree "$folder/fp32" "$folder/raw32.npz"
  refuses "predict --raw into no folder" 2 "no folder" \
    predict --checkpoint "$folder/a" --data "$data" --index 3 --raw "$folder/none/raw.npz"
  prints_json "predict --json" predict --checkpoint "$folder/a" --data "$data" --index 3 --json
  refuses "predict beyond the test examples" 2 "63" \
    predict --checkpoint "$folder/a" --data "$data" --index 64
  refuses "predict with a wrong index" 2 "index" \
    predict --checkpoint "$folder/a" --data "$data" --index nine
  refuses "predict a picture and an example at once" 2 "either" \
    predict --checkpoint "$folder/a" --input "$data/picture.png" --index 3
  refuses "predict a missing picture" 2 "none\.png" \
    predict --checkpoint "$folder/a" --input "$folder/none.png"
  refuses "predict something else" 2 "labels" \
    predict --checkpoint "$folder/a" --input "$data/train-labels-idx1-ubyte"
  accepts "plan prints a peak" "peak +[0-9.]+ [KMG]iB" plan --data "$data" --model mlp
  accepts "plan of a large network" "peak +[0-9.]+ [KMG]iB" \
    plan --data "$data" --model resnet50 --batch-size 32
  prints_json "plan --json" plan --data "$data" --model mlp --json
  accepts "info" "^kernels" info
  prints_json "info --json" info --json
  status=0
  "$MANTISSA" info >/dev/full 2>"$folder/stderr" || status=$?
  holds "a full disk is a failure" eval '((status == 1))'
}

# The last eval saw examples of classes 2 and 3 alone, and said so.
labels_of_some_classes() {
  grep -q "matched by name" "$folder/stderr" && python3 - "$folder/stdout" <<'PYTHON'
import json, sys
rows = [sum(row) for row in json.load(open(sys.argv[1]))["confusion"]]
sys.exit([label for label, count in enumerate(rows) if count] != [2, 3])
PYTHON
}

check_pictures() {
  local pictures=$data/pictures run=$folder/of-pictures
  accepts "data describes IDX files" "kind +IDX files" data "$data"
  prints_json "data --json" data --data "$data" --json
  accepts "data describes pictures" "kind +folders of pictures" \
    data "$pictures" --contact-sheet "$folder/sheet.png"
  holds "data writes a contact sheet" eval '[[ $(head -c 4 "$folder/sheet.png" | tail -c 3) == PNG ]]'
  refuses "data of nothing" 2 "name a data set" data
  mkdir -p "$folder/nothing"
  refuses "data of an empty folder" 2 "holds no data set.*IDX.*CIFAR.*pictures" data "$folder/nothing"
  refuses "wrong input-size" 2 "input-size.*0x3" train --input-size 0x3 --out "$run"
  refuses "fewer classes than the data" 2 "has 4 classes" \
    train --data "$pictures" --classes 3 --out "$run"
  accepts "train on pictures" "test accuracy" train --model mlp --data "$pictures" --input-size 14 \
    --classes 12 --augment flip,crop,jitter,cutout --batch-size 8 --steps 9 --out "$run"
  holds "train says how pictures were split" grep -q "no test folder" "$folder/stderr"
  accepts "eval brings other data to the network's size" "test accuracy" \
    eval --checkpoint "$run" --data "$data"
  holds "eval says that the network has more classes" grep -q "10 of the network's 12" "$folder/stderr"
  mkdir -p "$folder/some"
  cp -r "$pictures/class 2" "$pictures/class 3" "$folder/some"
  prints_json "eval on data with some of the classes" \
    eval --checkpoint "$run" --data "$folder/some" --json
  holds "eval matches classes by name" labels_of_some_classes
  accepts "predict several pictures and a folder" "class 3/7\.png" \
    predict --checkpoint "$run" --input "$data/picture.png" "$pictures" --quiet
  holds "predict takes all pictures of the folder" eval '(($(wc -l <"$folder/stdout") == 42))'
  accepts "predict --csv -" "^source,label,.*,class 3,4" \
    predict --checkpoint "$run" --input "$pictures" --csv -
  mkfifo "$folder/csv_pipe"
  refuses "predict --csv over a pipe" 2 "csv: .*no regular file" \
    predict --checkpoint "$run" --input "$pictures" --csv "$folder/csv_pipe"
  refuses "data --contact-sheet over a pipe" 2 "contact-sheet: .*no regular file" \
    data "$pictures" --contact-sheet "$folder/csv_pipe"
  mkdir "$folder/none"
  run predict --checkpoint "$run" --quiet --input "$data/picture.png" "$folder/none" "$pictures"
  holds "predict with an empty folder: reported, the others predicted, exit code 2" \
    eval '((status == 2)) && (($(wc -l <"$folder/stdout") == 42)) &&
      grep -q "none.: no .png, .jpg or .jpeg files" "$folder/stderr" &&
      grep -q "1 of 42 pictures and folders could not be read" "$folder/stderr"'
  refuses "predict of an empty folder alone" 2 "^mantissa predict: .*none.: no .png" \
    predict --checkpoint "$run" --input "$folder/none"
  run predict --checkpoint "$run" --input "$folder/none" "$folder/missing.png"
  holds "predict of nothing at all" \
    eval '((status == 2)) && [[ ! -s $folder/stdout ]] && grep -q "2 of 2 pictures and" "$folder/stderr"'
  run predict --checkpoint "$run" --input "$pictures" --csv "$folder/all.csv" --quiet
  holds "predict --csv FILE" eval '((status == 0)) && (($(wc -l <"$folder/all.csv") == 41))'
  echo "no picture" >"$pictures/class 1/bad.png"
  refuses "train on a bad picture" 2 "class 1/bad\.png" train --data "$pictures" --out "$run-2"
  run predict --checkpoint "$run" --input "$pictures" --quiet
  holds "predict with a bad picture: reported, the others predicted, exit code 2" \
    eval '((status == 2)) && grep -q "1/bad.png" "$folder/stderr" && grep -q "1 of 41" "$folder/stderr" &&
      (($(wc -l <"$folder/stdout") == 41))'
  run data "$pictures"
  holds "data lists bad pictures, exit code 2" \
    eval '((status == 2)) && grep -q "class 1/bad\.png" "$folder/stdout"'
}

check_inference
check_pictures
finish
