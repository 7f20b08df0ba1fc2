"""The Markdown file of compare_speed: a row per case and table, kept from one run to the next."""

import os
import statistics

TITLE = "# Time of a training step against PyTorch"
TEXT = """\
Forward, backward and update with momentum and weight decay, on one batch of noise in memory: bytes,
which the step itself normalises. Mantissa's 16-bit and 8-bit gradients are `--format bfp8` and
`--format bfp:g=8`. The runs of all contestants of a case alternate. Times are medians over runs of
the median step, in brackets the fastest and the slowest run; ratios are of the medians, above 1
where Mantissa is faster or smaller. Both networks have the same number of parameters and
multiply-adds; that is checked. PyTorch has, per case, the fastest setting of those tried: layout,
how OpenMP waits, torch.compile, whether malloc keeps its memory, and in bf16 autocast or a
model in bfloat16. Where bf16 is over four times as slow as fp32 to begin with, that is all that
is measured of it."""

TABLES = {
    "Step time": (
        "case", "network, picture, batch", "Mantissa 16-bit ms", "Mantissa 8-bit ms",
        "PyTorch fp32 ms", "PyTorch bf16 ms", "fp32 / 16-bit", "fp32 / 8-bit", "bf16 / 16-bit",
        "bf16 / 8-bit", "PyTorch settings", "measured"),
    "Mantissa's threads and exponents": (
        "case", "1 thread ms", "all threads ms", "1 thread / all", "exact exponents ms",
        "predicted exponents ms", "exact / predicted"),
    "Peak memory": (
        "case", "Mantissa 16-bit MiB", "Mantissa 8-bit MiB", "PyTorch fp32 MiB",
        "PyTorch bf16 MiB", "fp32 / 16-bit", "bf16 / 8-bit", "data set MiB"),
}
TABLE_TEXT = {
    "Mantissa's threads and exponents": "`bfp8`, and `bfp:exponents=exact` with all threads.",
    "Peak memory": "Resident at the peak minus resident when started (PyTorch: imported). "
                   "`mantissa train`, evaluation and checkpoint included, and PyTorch's steps read "
                   "the same data set, which is counted.",
}


def times(values):
    return f"{statistics.median(values):.2f} [{min(values):.2f}–{max(values):.2f}]"


def ratio(above, below):
    return f"{above / below:.2f}" if above and below else "–"


def median_ratio(above, below):
    return ratio(statistics.median(above), statistics.median(below))


def mebibytes(count):
    return f"{count / 2**20:.1f}" if count else "–"


def alignment(column):
    """Numbers to the right."""
    return "---:" if column.endswith((" ms", " MiB")) or " / " in column else "---"


def rows(case, measured):
    """The lines' cells by table. `measured` has times (of lists), peaks, settings and where."""
    ms, peak = measured["times"], measured["peaks"]
    width = f" width {case.width}," if case.width != 1 else ""
    network = f"{case.model},{width} {case.input_size}, {case.batch_size}"
    settings = "; ".join(measured["settings"])
    # With one thread in all there is nothing to compare.
    one = ms.get("one thread")
    return {
        "Step time": (
            case.name, network, *(times(ms[who]) for who in ("bfp8", "g8", "fp32", "bf16")),
            *(median_ratio(ms[theirs], ms[ours])
              for theirs in ("fp32", "bf16") for ours in ("bfp8", "g8")),
            settings, measured["measured"]),
        "Mantissa's threads and exponents": (
            case.name, times(one) if one else "–", times(ms["bfp8"]),
            median_ratio(one, ms["bfp8"]) if one else "–", times(ms["exact"]), times(ms["bfp8"]),
            median_ratio(ms["exact"], ms["bfp8"])),
        "Peak memory": (
            case.name, *(mebibytes(peak[who]) for who in ("bfp8", "g8", "fp32", "bf16")),
            ratio(peak["fp32"], peak["bfp8"]), ratio(peak["bf16"], peak["g8"]),
            mebibytes(measured["data_bytes"])),
    }


class OtherMachine(Exception):
    """The file has measurements that ours must not be mixed with."""


class Report:
    """The file at `path`; `machine` are the lines that all its rows share."""

    def __init__(self, path, machine, command, replace):
        self.path, self.machine, self.command = path, machine, command
        self.rows = {title: {} for title in TABLES}
        if path.exists() and not replace:
            self.read(path.read_text())

    def read(self, text):
        """Takes over the rows of an earlier run."""
        lines = text.splitlines()
        missing = [line for line in self.machine if f"- {line}" not in lines]
        if missing:
            raise OtherMachine(f"{self.path} was not made under these conditions: "
                               f"{'; '.join(missing)}")
        title = None
        for line in lines:
            if line.startswith("## "):
                title = line[3:]
            cells = tuple(cell.strip() for cell in line.split("|")[1:-1])
            if title not in TABLES or len(cells) != len(TABLES[title]):
                continue
            if cells != TABLES[title] and not cells[0].startswith("--"):
                self.rows[title][cells[0]] = cells

    def has(self, name):
        return all(name in rows_of for rows_of in self.rows.values())

    def add(self, case, measured):
        for title, cells in rows(case, measured).items():
            self.rows[title][case.name] = cells

    def text(self, order, date):
        lines = [TITLE, "", TEXT, "", *(f"- {line}" for line in self.machine),
                 f"- Written {date} by `{self.command}`"]
        for title, columns in TABLES.items():
            lines += ["", f"## {title}", ""]
            lines += [TABLE_TEXT[title], ""] if title in TABLE_TEXT else []
            lines += [f"| {' | '.join(columns)} |", f"|{'|'.join(map(alignment, columns))}|"]
            known = [name for name in order if name in self.rows[title]]
            others = [name for name in self.rows[title] if name not in order]
            lines += [f"| {' | '.join(self.rows[title][name])} |" for name in known + others]
        return "\n".join(lines) + "\n"

    def write(self, order, date):
        """Replaces the file at once: an interruption leaves the old or the new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(self.path.name + ".new")
        new.write_text(self.text(order, date))
        os.replace(new, self.path)
