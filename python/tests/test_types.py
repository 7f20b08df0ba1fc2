"""The types that the package declares are those that it has."""

import ast
import pathlib
import subprocess
import sys

import pytest

import mantissa
from mantissa import _core

ROOT = pathlib.Path(mantissa.__file__).parent


def test_the_stub_names_all_of_the_module():
    declared = set()
    for node in ast.parse((ROOT / "_core.pyi").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            declared.add(node.name)
        elif isinstance(node, ast.ClassDef):
            declared |= {f"{node.name}.{one.name}" for one in node.body
                         if isinstance(one, ast.FunctionDef) and one.name != "__init__"}
    there = set()
    for name in vars(_core):
        if name.startswith("_"):
            continue
        value = getattr(_core, name)
        if isinstance(value, type):
            there |= {f"{name}.{one}" for one in vars(value) if not one.startswith("_")}
        else:
            there.add(name)
    assert declared == there


def test_stubtest_and_mypy():
    pytest.importorskip("mypy")
    allowed = pathlib.Path(__file__).with_name("stubtest_allowed.txt")
    for words in (["mypy.stubtest", "mantissa", "--concise", "--allowlist", allowed,
                   "--ignore-unused-allowlist", "--mypy-config-file", "pyproject.toml"],
                  ["mypy", "--strict", "-p", "mantissa"]):
        done = subprocess.run([sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True,
                              cwd=pathlib.Path(__file__).parents[2])
        assert done.returncode == 0, done.stdout
