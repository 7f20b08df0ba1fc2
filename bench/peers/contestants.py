"""Contestants of compare_speed: Mantissa and PyTorch as commands; search for PyTorch's best."""

import collections
import itertools
import json
import os
import pathlib
import random
import shlex
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
from torch_environment import torch_python  # noqa: E402

PYTORCH = ROOT / "bench/peers/pytorch_train.py"
CLASSES = 10
MEMORY_STEPS = 3
HOPELESS = 4  # times as slow as another precision: no setting makes up for that

Case = collections.namedtuple("Case", "name model input_size batch_size width", defaults=(1,))

# Settings of PyTorch. precision: of pytorch_train.py; wait: how OpenMP's threads wait; compiles:
# torch.compile; keeps: malloc gives nothing back to the system, which saves page faults.
Setting = collections.namedtuple("Setting", "precision channels_last wait compiles keeps")


class Failure(Exception):
    """A command failed, or the two do not run the same network."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_json(command, environment=None):
    """The JSON object that a command prints."""
    command = [str(word) for word in command]
    done = subprocess.run(command, env={**os.environ, **(environment or {})}, cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise Failure(f"exit code {done.returncode} of: {shlex.join(command)}\n"
                      f"{done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout)


def cpu_flags():
    with open("/proc/cpuinfo") as file:
        return set(next((line.split(":", 1)[1].split() for line in file
                         if line.startswith("flags")), []))


class Mantissa:
    """One format and number of threads of Mantissa."""

    def __init__(self, program, number_format, threads):
        self.program, self.format, self.threads = program, number_format, threads

    def arguments(self, case):
        return ["--model", case.model, "--width", case.width, "--format", self.format,
                "--batch-size", case.batch_size, "--threads", self.threads, "--json", "--quiet"]

    def measure(self, case, steps):
        return run_json([self.program, "bench", *self.arguments(case), "--input-size",
                         case.input_size, "--classes", CLASSES, "--steps", steps,
                         "--warmup", warmup(steps)])

    @staticmethod
    def step_ms(result):
        return result["step"]["median_us"] / 1000

    @staticmethod
    def network(result):
        """(parameters, multiply-adds forward)"""
        return (result["run"]["parameters"],
                sum(row["multiply_adds"] for row in result["by_phase"]
                    if row["phase"] == "forward"))

    def peak_bytes(self, case, folder):
        """Above the process as it started; with the data set."""
        summary = run_json([self.program, "train", *self.arguments(case), "--data", folder,
                            "--steps", MEMORY_STEPS, "--overwrite", "--out", f"{folder}/out"])
        return summary["peak_rss_bytes"]


class PyTorch:
    """One setting of PyTorch."""

    def __init__(self, setting, threads):
        self.setting, self.threads = setting, threads

    def run(self, case, *arguments):
        flags = ["--channels-last"] if self.setting.channels_last else []
        flags += ["--compile"] if self.setting.compiles else []
        environment = {"OMP_WAIT_POLICY": self.setting.wait, "OMP_NUM_THREADS": str(self.threads)}
        if self.setting.keeps:
            environment |= {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
        return run_json([torch_python(), PYTORCH, "speed", "--model", case.model, "--width", case.width,
                         "--classes", CLASSES, "--batch-size", case.batch_size,
                         "--threads", self.threads, "--precision", self.setting.precision,
                         *flags, *arguments], environment)

    def measure(self, case, steps):
        return self.run(case, "--input-size", case.input_size, "--steps", steps,
                        "--warmup", warmup(steps))

    @staticmethod
    def step_ms(result):
        return result["step_ms_median"]

    @staticmethod
    def network(result):
        return result["parameters"], result["multiply_adds"]

    def peak_bytes(self, case, folder):
        """Without torch.compile, which takes memory of its own for a while."""
        eager = PyTorch(self.setting._replace(compiles=False), self.threads)
        result = eager.run(case, "--data", folder, "--steps", MEMORY_STEPS, "--warmup", 0)
        return result["peak_rss_above_idle_bytes"]


def warmup(steps):
    return max(1, steps // 8)


def describe(setting):
    words = [setting.precision, "channels last" if setting.channels_last else "contiguous",
             f"{setting.wait} wait"]
    return ", ".join(words + (["compiled"] if setting.compiles else []) +
                     (["memory kept"] if setting.keeps else []))


def best_pytorch(case, precisions, threads, probe, limit_ms):
    """PyTorch in its fastest setting, the steps of a run (0: not worth one), and a step's ms.

    Tries precision and layout together, then one thing at a time; probe(contestant) says how many
    steps to measure and how long one takes. Tries nothing else if that is over limit_ms.
    """
    start = Setting(precisions[0], False, "passive", False, False)
    steps, ms = probe(PyTorch(start, threads))
    if ms > limit_ms:
        say(f"{case.name}: PyTorch {describe(start)}: {ms:.2f} ms; other settings are not tried")
        return PyTorch(start, threads), 0, ms
    times = {}

    def best_of(settings):
        for setting in settings:
            if setting in times:
                continue
            contestant = PyTorch(setting, threads)
            times[setting] = contestant.step_ms(contestant.measure(case, steps))
            say(f"{case.name}: PyTorch {describe(setting)}: {times[setting]:.2f} ms")
        return min(times, key=times.get)

    best = best_of(start._replace(precision=precision, channels_last=last)
                   for precision, last in itertools.product(precisions, (False, True)))
    for name, values in (("wait", ("active",)), ("compiles", (True,)), ("keeps", (True,))):
        best = best_of(best._replace(**{name: value}) for value in values)
    return PyTorch(best, threads), steps, times[best]


def write_idx(path, shape, content):
    header = bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape)
    path.write_bytes(header + content)


def write_data_set(case, folder, train_count, test_count):
    """Noise as the IDX files that both read; returns its bytes."""
    size = tuple(int(word) for word in case.input_size.split("x"))
    values = random.Random(1)
    total = 0
    for part, count in (("train", train_count), ("t10k", test_count)):
        shape = (count, *size)
        pixels = values.randbytes(count * size[0] * size[1] * size[2])
        labels = bytes(index % CLASSES for index in range(count))
        write_idx(folder / f"{part}-images-idx3-ubyte", shape, pixels)
        write_idx(folder / f"{part}-labels-idx1-ubyte", (count,), labels)
        total += len(pixels) + len(labels)
    return total
