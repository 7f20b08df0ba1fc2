#!/usr/bin/env bash
# A training step of the integer formats executes no floating-point arithmetic. The test looks
# through the instructions of every object file of formats, kernels, operators and runtime. Data
# that only passes through floating-point registers is not arithmetic. Exceptions are listed below
# with their reasons, and in docs/where-floats-remain.md. Folders that a step does not execute,
# quantise and train among them, compute as they like: tools/check_layers keeps these from them.
#
# Objects: those of the program MANTISSA.
set -euo pipefail
command -v objdump >/dev/null || { echo "objdump (binutils) is missing"; exit 77; }
objects=$(dirname "$MANTISSA")/CMakeFiles
[[ ! -d $objects/mantissa_plan.dir/Unity ]] ||
  { echo "skipped: objects of several files at once (cmake --preset release-tests has others)"; exit 77; }
[[ $(uname -m) == x86_64 ]] || { echo "this test knows the instructions of x86-64"; exit 77; }

python3 - "$objects" <<'PYTHON'
import pathlib, re, subprocess, sys

# Folder or file: why it may compute in floating point.
ALLOWED = {
    "numerics/format.cpp": "parses r_max",
    "numerics/nearest_fraction.cpp": "real attributes as whole ones, before the first step",
    "graph/attributes.cpp": "ranges of attributes, when a network is built",
    "graph/graph.cpp": "compares attributes, when a network is built",
    "kernels/floats/": "loops of the reference format",
    "kernels/peak/": "measures the machine",
    "kernels/rescale/avx2.cpp": "products that are proven integers, of frozen networks",
    "kernels/rescale/avx512vnni.cpp": "products that are proven integers, of frozen networks",
    "kernels/update/avx2.cpp": "Adam's exact roots and quotients, not in dynamic fixed point",
    "kernels/update/avx512vnni.cpp": "Adam's exact roots and quotients, not in dynamic fixed point",
    "ops/fp32/": "the reference format",
    "ops/losses/distilled_attributes.cpp": "real attributes as whole ones, before the first step",
    "ops/losses/loss_choice.cpp": "losses of several outputs in one unit, for comparisons of epochs",
    "ops/pointwise/scale.cpp": "real attributes as whole ones, before the first step",
    "plan/programs/program_text.cpp": "programs as text",
    "plan/retention/compile_training.cpp": "estimated times, which decide what is kept",
    "plan/retention/value_decisions.cpp": "estimated times, for reports",
    "plan/retention/gradient_rows.cpp": "estimated times, which decide what is kept",
    "plan/retention/recompute_model.cpp": "estimated times, which decide what is kept",
    "plan/stages/stage_layers.cpp": "estimated times, which divide a network among stages",
    "plan/retention/exact_retention.cpp": "estimated times, which decide what is kept",
    "plan/retention/integer_program.cpp": "linear programmes, which decide what is kept",
    "plan/retention/retention.cpp": "estimated times, which decide what is kept",
    "plan/retention/retention_evaluator.cpp": "estimated times, which decide what is kept",
    "runtime/named_parameters.cpp": "weights that a run starts from, before the first step",
    "runtime/state.cpp": "initial weights",
    "runtime/weight_blocks.cpp": "weights that a run starts from, before the first step",
    "runtime/executor.cpp": "mean loss and accuracy, for reports",
    "runtime/stages/pipeline.cpp": "mean loss, accuracy and idle time, for reports",
    "runtime/stages/replica_exchange.cpp": "sums of gradients over replicas, in fp32 alone",
}
# Vector and scalar arithmetic, comparisons and conversions of SSE, AVX and AVX-512; x87.
ARITHMETIC = re.compile(
    r"v?(add|addsub|sub|mul|div|sqrt|max|min|cmp\w*|comi|ucomi|round|rndscale|hadd|hsub|dp|rcp\w*|"
    r"rsqrt\w*|f?n?m(add|sub|addsub|subadd)\w*|fn?m\w*|scalef|getexp|getmant|range|reduce)[ps][sdh]|"
    r"v?cvt\w+|f(add|sub|mul|div|sqrt|ild|ist|com|ucom|prem|rndint|scale|2xm1|yl2x)\w*")
FOLDERS = ("reference", "numerics", "tensor", "graph", "kernels", "ops", "plan", "runtime")


def source_of(folder, path):
    return str(path.relative_to(folder / "src")).removesuffix(".o")


def arithmetic(path):
    """Functions of the object file with floating-point arithmetic, each with an instruction."""
    text = subprocess.run(["objdump", "-dC", "--no-show-raw-insn", path], check=True,
                          capture_output=True, text=True).stdout
    found, function = {}, ""
    for line in text.splitlines():
        if head := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            function = head[1]
        elif (code := re.match(r" +[0-9a-f]+:\t(\S+)", line)) and ARITHMETIC.fullmatch(code[1]):
            found.setdefault(function, line.split("\t", 1)[1].strip())
    return found


bad, seen, used = [], 0, set()
for name in FOLDERS:
    folder = pathlib.Path(sys.argv[1]) / f"mantissa_{name}.dir"
    for path in sorted((folder / "src").rglob("*.o")):
        seen += 1
        source = source_of(folder, path)
        found = arithmetic(path)
        reason = next((key for key in ALLOWED if source.startswith(key)), None)
        if reason is None:
            bad += [f"{source}: {function}: {code}" for function, code in found.items()]
        elif found:
            used.add(reason)
unused = set(ALLOWED) - used
print(f"{seen} object files, {len(bad)} functions with floating-point arithmetic beyond the "
      f"{len(ALLOWED)} places that are allowed")
for line in bad:
    print("  " + line)
for key in unused:
    print(f"  allowed, but without floating-point arithmetic: {key}")
# With fewer object files than this, they were not found.
sys.exit(1 if bad or unused or seen < 50 else 0)
PYTHON
