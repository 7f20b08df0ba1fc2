"""For mkdocs: links out of docs/ (to code, tests, tables of results) become their paths."""

import posixpath
import re

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)")


def on_page_markdown(markdown, page, **_):
    folder = posixpath.dirname(page.file.src_uri)

    def shown(match):
        text, target = match.group(1), match.group(2)
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        if path.startswith("docs/") and path.endswith(".md"):
            return match.group(0)
        return text if text == path else f"{text} (`{path}`)"
    return LINK.sub(shown, markdown)
