"""What result tables say about the machine."""


def cpu_field(name):
    """The value of a line of /proc/cpuinfo, such as "model name"."""
    with open("/proc/cpuinfo") as file:
        return next((line.split(":", 1)[1].strip() for line in file
                     if line.split(":")[0].strip() == name), "unknown")
