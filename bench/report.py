"""What scripts that write result tables share."""

import datetime
import json


def cpu_field(name):
    """The value of a line of /proc/cpuinfo, such as "model name"."""
    with open("/proc/cpuinfo") as file:
        return next((line.split(":", 1)[1].strip() for line in file
                     if line.split(":")[0].strip() == name), "unknown")


def kept_sections(report):
    """The sections of a report by their headings, which are their first lines; {} without one."""
    if not report.exists():
        return {}
    texts = report.read_text().split("\n## ")[1:]
    return {text.split("\n", 1)[0]: text.rstrip() for text in texts}


def read_results(path):
    """Results by the words that name them, of a JSON file; {} without one."""
    return json.loads(path.read_text()) if path.exists() else {}


def add_result(path, key, result):
    """Notes a result, with CPU and date. Read anew: another process may measure other rows."""
    results = read_results(path)
    results[key] = {**result, "cpu": cpu_field("model name"), "date": str(datetime.date.today())}
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    temporary.replace(path)


def measured_on(results):
    """The CPUs and the days of results."""
    days = sorted({result["date"] for result in results})
    cpus = sorted({result["cpu"] for result in results})
    return f"{' and '.join(cpus)}, {' to '.join(days[:1] + days[1:][-1:])}"
