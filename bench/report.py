"""What scripts that write result tables share."""


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
