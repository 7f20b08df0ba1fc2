#!/usr/bin/env bash
# The Python package: a wheel of this build, installed into an empty environment; its tests; mypy; and
# the code in docs/python.md.
#
# MANTISSA names the program; the library beside it goes into the module. Packages come from PyPI into
# environments in build/python, which stay for the next time.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
MANTISSA=$(readlink -f "${MANTISSA:-$root/build/dev/mantissa}")
export MANTISSA
build=$(dirname "$MANTISSA")
work=$root/build/python
mkdir -p "$work"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1 PYTHONDONTWRITEBYTECODE=1

# without_packages PIP: skips if no package can be had, else fails.
without_packages() {
  rm -rf "$work/probe"
  if "$1" download --no-deps --dest "$work/probe" wheel >/dev/null 2>&1; then exit 1; fi
  echo "skipped: pip reaches no index of packages"
  exit 77
}

# try_environment NAME PACKAGE...: made once for these packages; fails if they cannot be had.
try_environment() {
  local folder=$work/$1 wanted="${*:2}"
  [[ ! -f $folder/wanted || $(<"$folder/wanted") != "$wanted" ]] || return 0
  rm -rf "$folder"
  python3 -m venv "$folder" || exit 1
  "$folder/bin/pip" install "${@:2}" || return 1
  printf '%s' "$wanted" >"$folder/wanted"
}

environment() { try_environment "$@" || without_packages "$work/$1/bin/pip"; }

environment tools build "nanobind>=2.4" "scikit-build-core>=0.11"
rm -rf "$work/prefix" "$work/wheel"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
# The same wheel as `pip wheel .` makes, but from the library that is built already.
prefixes="$work/prefix;$("$work/tools/bin/python" -m nanobind --cmake_dir)"
CMAKE_PREFIX_PATH=${prefixes//;/:} "$work/tools/bin/python" -m build --wheel --no-isolation \
  --outdir "$work/wheel" -Ccmake.source-dir=python -Cbuild-dir="$work/module" \
  "$root" >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log"; exit 1; }
wheel=("$work"/wheel/mantissa-*.whl)
ls -l "${wheel[0]}"

# Into an empty environment, with its dependencies alone.
rm -rf "$work/empty"
python3 -m venv "$work/empty"
"$work/empty/bin/pip" install "${wheel[0]}"
(cd "$work" && "$work/empty/bin/python" - <<'PYTHON')
import mantissa as mt, numpy as np
net = mt.Network(mt.linear(mt.input(4, 4, 1), 2))
data = (np.eye(16, dtype=np.uint8).reshape(16, 4, 4, 1), np.arange(16) % 2)
mt.Trainer(net, batch_size=8).fit(data, epochs=1, progress=False)
PYTHON

"$root/tools/notebooks" --check
environment test pytest mypy scikit-learn pandas pyarrow matplotlib numpy
"$work/test/bin/pip" install --force-reinstall --no-deps "${wheel[0]}"
cd "$root"
"$work/test/bin/python" -m pytest -q -p no:cacheprovider python/tests

# PyTorch takes 200 MB to fetch. Without it all tests have run except its own.
if try_environment torch "torch==2.13.0" onnx onnxscript pytest numpy; then
  "$work/torch/bin/pip" install --force-reinstall --no-deps "${wheel[0]}"
  "$work/torch/bin/python" -m pytest -q -p no:cacheprovider python/tests/test_torch.py \
    python/tests/test_from_module.py python/tests/test_to_module.py
else
  echo "PyTorch cannot be had here: the tests of mantissa.torch did not run"
fi
