"""The Python with PyTorch that benchmarks compare with: $TORCH_VENV, or build/torch, which is made if
it is missing."""

import functools
import os
import pathlib
import subprocess
import sys

PACKAGES = ("torch==2.13.0", "numpy")
INSIDE = "MANTISSA_BENCH_TORCH"


@functools.cache
def torch_python(*further):
    """The path of its interpreter; `further` packages are installed, too."""
    root = pathlib.Path(__file__).resolve().parent.parent
    environment = pathlib.Path(os.environ.get("TORCH_VENV", root / "build/torch"))
    python = environment / "bin/python"
    is_new = not python.exists()
    if is_new:
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    if is_new or further:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES, *further], check=True)
    return str(python)


def go_on_inside(*further):
    """Runs the script again by this Python, unless it already does."""
    if os.environ.get(INSIDE):
        return
    python = torch_python(*further)
    os.environ[INSIDE] = "1"
    os.execv(python, [python, *sys.argv])
