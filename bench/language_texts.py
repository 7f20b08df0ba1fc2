"""The texts of benchmarks of language models: Debian's package anarchism, 15.3 (Markdown; apt-get
download fetches it), and pydoc of Python's modules. Every fifth section, or module, is for testing.
"""

import gzip
import pydoc
import re
import subprocess

TOKENS = "bfp:block=channel,blocks=token"  # integers with an exponent for each token
MODULES = """abc argparse array ast asyncio base64 bisect bz2 calendar cmath cmd codecs collections
    colorsys concurrent.futures configparser contextlib copy csv ctypes curses datetime dbm decimal
    difflib dis doctest email enum fileinput fnmatch fractions ftplib functools gc getopt gettext
    glob gzip hashlib heapq hmac html http.client imaplib importlib inspect io ipaddress itertools
    json keyword linecache locale logging lzma mailbox math mimetypes multiprocessing numbers
    operator optparse os pathlib pdb pickle platform poplib pprint profile queue random re sched
    secrets select shelve shlex shutil signal smtplib socket sqlite3 ssl statistics string struct
    subprocess tarfile""".split()


def prose_sections(folder):
    found = sorted(folder.rglob("markdown/*.md*"))
    if not found:
        subprocess.run(["apt-get", "download", "anarchism"], cwd=folder, check=True)
        package = next(folder.glob("anarchism_*.deb"))
        subprocess.run(["dpkg-deb", "-x", package, folder / "package"], check=True)
        found = sorted(folder.rglob("markdown/*.md*"))
    text = "".join(
        (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
        for path in found)
    sections = text.split("\n# ")
    return [sections[0]] + ["\n# " + section for section in sections[1:]]


def technical_sections(_):
    # Addresses differ from process to process.
    return [re.sub(r"(0x|handle )[0-9a-f]{6,}", r"\g<1>0", pydoc.plain(pydoc.render_doc(name)))
            for name in MODULES]


def write_texts(folder):
    """Each text twice, test sections and the others, and the text for smoothing."""
    for name, sections in ("prose", prose_sections), ("technical", technical_sections):
        if (folder / f"{name}-test.txt").exists():
            continue
        found = sections(folder)
        # Characters without tokens (bytes of control characters) are left out.
        clean = ["".join(c for c in text if c in "\n\t" or c.isprintable()) for text in found]
        (folder / f"{name}-train.txt").write_text(
            "".join(text for i, text in enumerate(clean) if i % 5 != 4))
        (folder / f"{name}-test.txt").write_text("".join(clean[4::5]))
    parts = [(folder / f"{name}-train.txt").read_text()[:400_000] for name in ("prose", "technical")]
    (folder / "smoothing.txt").write_text("".join(parts))
