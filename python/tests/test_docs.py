"""The Python in the documents runs, each page from top to bottom."""

import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "python.md", *sorted(DOCS.glob("recipes/*.md"))]
BLOCK = re.compile(r"(<!-- not run: .*? -->\n)?```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for skipped, code in BLOCK.findall(page.read_text()):
        if not skipped:
            exec(compile(code, str(page), "exec"), names)
