"""The types that the package declares are those that it has."""

import ast
import pathlib
import subprocess
import sys

import pytest

import mantissa
from mantissa import _core

ROOT = pathlib.Path(mantissa.__file__).parent
EXAMPLES = sorted((pathlib.Path(__file__).parents[2] / "examples/python").glob("*.py"))


def test_the_stub_names_all_of_the_module():
    declared = set()
    for node in ast.parse((ROOT / "_core.pyi").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            declared.add(node.name)
        elif isinstance(node, ast.ClassDef):
            declared |= {f"{node.name}.{one.name}" for one in node.body
                         if isinstance(one, ast.FunctionDef) and one.name != "__init__"}
            declared |= {f"{node.name}.{one.target.id}" for one in node.body
                         if isinstance(one, ast.AnnAssign)}
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
                  ["mypy", "--strict", "-p", "mantissa"],
                  ["mypy", "--strict", *EXAMPLES]):
        done = subprocess.run([sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True,
                              cwd=pathlib.Path(__file__).parents[2])
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path, tmp_path):
    pytest.importorskip("sklearn")
    words = ["--epochs", "2"] if path.stem == "digits" else []
    done = subprocess.run([sys.executable, path, *words], stdout=subprocess.PIPE, text=True,
                          cwd=tmp_path)
    assert done.returncode == 0 and (" %" in done.stdout or "R2 0.9" in done.stdout)
