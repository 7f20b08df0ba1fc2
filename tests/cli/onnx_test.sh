#!/usr/bin/env bash
# ONNX networks on the command line: run, info, and files that are made to take the memory or the
# time of whoever reads them.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")

python3 -B - "$folder" "$here" <<'PYTHON'
import os, struct, sys
sys.path.insert(0, sys.argv[2])
from onnx_files import *
os.chdir(sys.argv[1])

def put(name, data):
    with open(name + ".onnx", "wb") as file:
        file.write(data)

weights = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
gemm = (node("Gemm", ["x", "w"], ["y"], "dense") + tensor("w", [3, 2], part(9, weights)) +
        value(11, "x", ["batch", 3]) + value(12, "y", ["batch", 2]))
put("net", model(gemm))
external = part(13, part(1, "location") + part(2, "net.data")) + number(14, 1)
put("external", model(
    node("Gemm", ["x", "w"], ["y"]) + tensor("w", [3, 2], external) +
    value(11, "x", ["batch", 3]) + value(12, "y", ["batch", 2])))
open("net.data", "wb").write(weights)
put("escapes", model(tensor("w", [1], part(13, part(1, "location") + part(2, "../passwd")) +
                            number(14, 1))))
put("open", model(node("Relu", ["x"], ["y"]) + value(11, "x", ["batch", 3, "height"]) +
                  value(12, "y", [])))
put("strange", model(node("Sort", ["x"], ["a"], "first") + node("Elu", ["a"], ["b"], "second") +
                     node("NoSuch", ["b"], ["y"], "third") + value(11, "x", ["batch", 3]) +
                     value(12, "y", [])))
put("half", model(node("Add", ["x", "one"], ["y"]) +
                  tensor("one", [1], part(9, struct.pack("<e", 1)), 10) +
                  value(11, "x", ["batch"], 10) + value(12, "y", ["batch"], 10)))
put_npz("half.npz", {"x": array([2], [0.5, 2048], "<f2")})
put_npz("in.npz", {"x": array([2, 3], [1, 0, 0, 0, 1, 1])})
put_npz("wrong.npz", {"x": array([2, 4], [0] * 8)})
put_npz("surplus.npz", {"x": array([1, 3], [0] * 3), "z": array([1], [0])})
put_npz("other.npz", {"x": array([1, 3], [0] * 3, "<i8")})

# Bombs: small files, or large ones of things without end.
x = value(11, "x", [1])
put("attributes", model(part(1, part(5, b"") * 5_000_000)))
put("nodes", model(part(1, b"") * 1_000_000))
put("tensors", model(part(5, b"") * 1_000_000))
put("inputs", model(part(1, part(1, b"") * 5_000_000)))
put("values", model(part(11, b"") * 5_000_000))
put("fields", model(number(30, 1) * 20_000_000))
put("strings", model(part(1, part(5, part(9, b"") * 9_000_000))))
put("integers", model(part(1, part(5, part(8, b"\1" * 60_000_000)))))
put("metadata", model(x) + b"".join(part(14, part(1, str(i))) for i in range(1_000_000)))
put("dims", model(tensor("w", [2**62, 2**62], b"")))
put("negative", model(tensor("w", [-1], b"")))
put("less", model(tensor("w", [4], part(9, b"1234"))))
put("name", model(part(5, part(8, "x" * 30_000_000))))
deep = b""
for _ in range(5_000):
    deep = node("If", ["x"], ["y"], "", part(5, part(1, "then_branch") + part(6, deep)))
put("deep", model(x + deep))
put("cycle", model(node("Add", ["x", "b"], ["a"]) + node("Relu", ["a"], ["b"]) + x))
put("twice", model(node("Relu", ["x"], ["a"]) + node("Abs", ["x"], ["a"]) + x))
put("missing", model(node("Relu", ["nothing"], ["a"]) + x))
shape = lambda *dims: tensor("s", [len(dims)], b"".join(number(7, d) for d in dims), 7)
fill = node("ConstantOfShape", ["s"], ["a"])
y = value(12, "y", [])
put("constant", model(x + shape(2**14, 2**14) + fill + node("Abs", ["a"], ["y"]) + y))
put("product", model(x + shape(4000, 4000) + fill + node("MatMul", ["a", "a"], ["y"]) + y))
put("many", model(x + shape(4000, 4000) + fill + y + node("ReduceMax", ["a"], ["y"]) +
                  b"".join(node("ReduceMax", ["a"], [f"r{i}"]) for i in range(10_000))))
open("zeros.onnx", "wb").truncate(4 << 30)
PYTHON

net=$folder/net.onnx in=$folder/in.npz out=$folder/out.npz

check_run() {
  accepts "run" "^y  float32  2 x 2" run "$net" --inputs "$in" --out "$out"
  holds "its outputs" python3 -B - "$folder" "$here" <<'PYTHON'
import sys
sys.path.insert(0, sys.argv[2])
from onnx_files import get_npz
numbers, header = get_npz(sys.argv[1] + "/out.npz", "y")
sys.exit(numbers != [1, 2, 8, 10] or "'<f4'" not in header or "(2, 2)" not in header)
PYTHON
  cp "$out" "$folder/first.npz"
  run run "$net" --inputs "$in" --out "$out" --threads 1 --quiet
  holds "the same with one thread" cmp -s "$out" "$folder/first.npz"
  prints_json "run --json" run "$net" --inputs "$in" --out "$out" --json
  run run "$folder/external.onnx" --inputs "$in" --out "$out"
  holds "weights in a file of their own" cmp -s "$out" "$folder/first.npz"
  run run "$folder/half.onnx" --inputs "$folder/half.npz" --out "$out"
  holds "float16, rounded to its 11 bits" python3 -B -c 'import sys; sys.path.insert(0, sys.argv[1])
from onnx_files import get_npz
numbers, header = get_npz(sys.argv[2], "y")
sys.exit(numbers != [1.5, 2048] or "<f4" not in header)' "$here" "$out"
  check_links
}

# The cache of a download: a snapshot of links to blobs beside it.
check_links() {
  local cache=$folder/models--net
  local snapshot=$cache/snapshots/0123/onnx
  mkdir -p "$cache/blobs" "$snapshot" "$folder/elsewhere"
  cp "$folder/external.onnx" "$cache/blobs/aa"
  cp "$folder/net.data" "$cache/blobs/bb"
  ln -s ../../../blobs/aa "$snapshot/model.onnx"
  ln -s ../../../blobs/bb "$snapshot/net.data"
  run run "$snapshot/model.onnx" --inputs "$in" --out "$out"
  holds "links of a download's cache" cmp -s "$out" "$folder/first.npz"
  cp "$folder/net.data" "$folder/elsewhere/net.data"
  ln -sf "$folder/elsewhere/net.data" "$snapshot/net.data"
  refuses "a link that leaves the cache" 2 "may lead out of the folder.*cp -rL" \
    run "$snapshot/model.onnx" --inputs "$in" --out "$out"
  mkdir "$folder/linked"
  cp "$folder/external.onnx" "$folder/linked"
  ln -s "$folder/net.data" "$folder/linked/net.data"
  refuses "a link in no cache" 2 "may lead out of the folder.*cp -rL" \
    run "$folder/linked/external.onnx" --inputs "$in" --out "$out"
  cp -rL "$folder/linked" "$folder/copied"
  run run "$folder/copied/external.onnx" --inputs "$in" --out "$out"
  holds "the command that the message names helps" cmp -s "$out" "$folder/first.npz"
}

check_refusals() {
  local word
  refuses "no inputs" 2 "name a file with the inputs: --inputs" run "$net" --out "$out"
  refuses "no out" 2 "name a file for the outputs: --out" run "$net" --inputs "$in"
  refuses "a wrong shape" 2 'input "x" has the shape \[2, 4\], but \["batch", 3\] is wanted' \
    run "$net" --inputs "$folder/wrong.npz" --out "$out"
  refuses "a wrong type" 2 'input "x" has the type int64, but float is wanted' \
    run "$net" --inputs "$folder/other.npz" --out "$out"
  refuses "a surplus input" 2 'has no input "z"; its inputs: "x"' \
    run "$net" --inputs "$folder/surplus.npz" --out "$out"
  refuses "an ONNX file as inputs" 2 "net.onnx" run "$net" --inputs "$net" --out "$out"
  refuses "no file" 2 "nothing.onnx.*No such file" run "$folder/nothing.onnx" --inputs "$in" --out "$out"
  refuses "data from elsewhere" 2 "may lead out of the folder" \
    run "$folder/escapes.onnx" --inputs "$in" --out "$out"
  refuses "all that is not supported" 2 '2 nodes are not supported: "Sort".*first.*"NoSuch".*third' \
    run "$folder/strange.onnx" --inputs "$in" --out "$out"
}

check_info() {
  accepts "info" "^dense +Gemm +1 x 2 +6 +6" info "$net"
  accepts "info with a shape" "^dense +Gemm +5 x 2 +6 +30" info "$net" --shape x=5x3
  prints_json "info --json" info "$net" --json
  accepts "info names open sizes" "input 'x' has open sizes.*--shape x=1x3x64" info "$folder/open.onnx"
  holds "and knows no multiply-adds" grep -qE "^ *all .*unknown" "$folder/stdout"
  accepts "info names what is not supported" "first \(Sort\): no such operator" info "$folder/strange.onnx"
  refuses "a shape of no input" 2 "no input 'z'" info "$net" --shape z=1
  refuses "a shape that is none" 2 "not as in x=1x3x224x224" info "$net" --shape x
  refuses "a shape of a run" 2 "--shape is for ONNX networks" info "$folder" --shape x=1
}

# hostile NAME PATTERN: both commands refuse it (info shows problems of nodes instead), with less than
# 256 MiB and soon, on a busy machine too.
hostile() {
  refuses "hostile: $1" 2 "$2" run "$folder/$1.onnx" --inputs "$in" --out "$out"
  holds "hostile: $1 in little memory and time" python3 - "$MANTISSA" "$folder/$1.onnx" <<'PYTHON'
import resource, subprocess, sys, time
start = time.time()
subprocess.run([sys.argv[1], "info", sys.argv[2]], capture_output=True, timeout=200)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = used.ru_utime + used.ru_stime
print(f"{used.ru_maxrss >> 10} MiB, {seconds:.2f} s, {time.time() - start:.2f} s by the clock")
sys.exit(used.ru_maxrss > 256 << 10 or seconds > 5)
PYTHON
}

check_hostile() {
  put_single_input
  hostile attributes "more than 2000000 attributes"
  hostile nodes "more than 200000 nodes"
  hostile tensors "more than 200000 tensors"
  hostile inputs "5000000 inputs and outputs"
  hostile values "more than 1000000 descriptions"
  hostile fields "more than 16000000 fields"
  hostile strings "more than 1000000 strings"
  hostile integers "bytes of description"
  hostile metadata "bytes of description"
  hostile dims "negative or too large"
  hostile negative "negative or too large"
  hostile less "has 4 bytes, but its type and dims need 16"
  hostile name "element type 0|bytes of description"
  hostile deep "more than 16 deep"
  hostile cycle "which nothing before it makes"
  hostile twice "which is there already"
  hostile missing "which nothing before it makes"
  hostile constant "constants outgrow the file"
  hostile product "constants"
  hostile many "too much computing"
  hostile zeros "4.0 GiB; at most 2.0 GiB"
}

# The inputs of the networks above.
put_single_input() {
  in=$folder/one.npz
  python3 -B -c 'import sys; sys.path.insert(0, sys.argv[2]); from onnx_files import *
put_npz(sys.argv[1] + "/one.npz", {"x": array([1], [0])})' "$folder" "$here"
}

check_run
check_refusals
check_info
check_hostile
finish
