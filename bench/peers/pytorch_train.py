#!/usr/bin/env python3
"""The built-in networks trained by PyTorch on the CPU: the peer of bench/peers/compare_speed.

  pytorch_train.py speed --model resnet20 --input-size 32x32x3 --batch-size 128 --threads 2
  pytorch_train.py speed --model resnet20 --precision bf16-autocast --channels-last
  pytorch_train.py speed --model mlp --data DIR
  pytorch_train.py train --model resnet8 --epochs 8 --augment shift,flip

speed measures steps on one batch of noise, as `mantissa bench` does, or on batches drawn from a
folder of IDX files; either way pictures are bytes that the step makes floats. Prints one JSON
object to standard output.
"""

import argparse
import gzip
import json
import math
import os
import statistics
import struct
import sys
import time

sys.dont_write_bytecode = True

import numpy
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint_sequential

import pytorch_networks

DATA = "/usr/share/datasets/fashion-mnist"
DEVIATION = 64  # of natural pictures' pixels; Mantissa scales by the same
PRECISIONS = ("fp32", "bf16-autocast", "bf16-model")


def read_idx(path):
    """An IDX file of bytes, gzipped or not, as a numpy array."""
    if not os.path.exists(path):
        path += ".gz"
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        dimensions = file.read(4)[3]
        shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        pixels = numpy.empty(shape, numpy.uint8)  # filled in place: no second copy
        file.readinto(memoryview(pixels).cast("B"))
    return pixels


class Pictures:
    """Pixels as bytes [n, channels, height, width], labels, and the mean of each channel."""

    def __init__(self, pixels, labels, memory_format):
        pixels = torch.from_numpy(pixels)
        pixels = pixels.unsqueeze(3) if pixels.dim() == 3 else pixels
        self.pixels = pixels.permute(0, 3, 1, 2).contiguous(memory_format=memory_format)
        self.labels = torch.from_numpy(labels.astype(numpy.int64))

    def means(self):
        return torch.tensor([float(self.pixels[:, channel].sum(dtype=torch.int64)) /
                             self.pixels[:, channel].numel()
                             for channel in range(self.pixels.shape[1])]).round()

    def size(self):
        _, channels, height, width = self.pixels.shape
        return height, width, channels

    def bytes(self):
        return self.pixels.numel() + self.labels.numel() * 8


def load(folder, part, memory_format):
    """Part `train` or `t10k` of a folder of IDX files; pictures [n, h, w] or [n, h, w, c]."""
    return Pictures(read_idx(os.path.join(folder, f"{part}-images-idx3-ubyte")),
                    read_idx(os.path.join(folder, f"{part}-labels-idx1-ubyte")), memory_format)


def noise(count, size, classes, memory_format):
    generator = numpy.random.default_rng(1)
    return Pictures(generator.integers(0, 256, (count, *size), numpy.uint8),
                    generator.integers(0, classes, count, numpy.uint8), memory_format)


def make_optimizer(model, learning_rate):
    """Momentum 0.9; weight decay on weights only, not on biases and batch norm."""
    weights = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    return torch.optim.SGD(
        [{"params": weights, "weight_decay": 5e-4}, {"params": others, "weight_decay": 0.0}],
        lr=learning_rate, momentum=0.9)


def memory(key):
    """A size of /proc/self/status in bytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))


def layout(arguments):
    return torch.channels_last if arguments.channels_last else torch.contiguous_format


class Trainer:
    """One training step, in the layout and precision that the flags ask for.

    bf16-model, the fastest choice, holds weights and velocities in bfloat16, too: updates below
    1/256 of a weight are lost. bf16-autocast keeps them in fp32.
    """

    def __init__(self, arguments, pictures):
        self.format = layout(arguments)
        self.autocasts = arguments.precision == "bf16-autocast"
        self.type = torch.bfloat16 if arguments.precision == "bf16-model" else torch.float32
        self.offset = (-pictures.means() / DEVIATION).view(-1, 1, 1)
        self.model = pytorch_networks.build(arguments.model, pictures.size(), arguments.classes,
                                            arguments.width)
        self.model = self.model.to(self.type, memory_format=self.format).train()
        self.optimizer = make_optimizer(self.model, arguments.learning_rate)
        if getattr(arguments, "compile", False):
            self.model = torch.compile(self.model)
        self.segments = getattr(arguments, "checkpoint", 0)

    def run(self, images):
        if self.segments == 0 or not self.model.training:
            return self.model(images)
        # The output of a checkpoint needs a gradient only if its input does.
        return checkpoint_sequential(self.model, self.segments, images.requires_grad_())

    def forward(self, pixels):
        images = torch.add(self.offset, pixels, alpha=1 / DEVIATION)
        images = images.to(self.type).contiguous(memory_format=self.format)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocasts):
            return self.run(images).float()

    def step(self, pixels, labels):
        loss = functional.cross_entropy(self.forward(pixels), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def describe(arguments, trainer, size):
    keys = "model width batch_size threads channels_last precision"
    environment = {name: value for name, value in os.environ.items()
                   if name.startswith(("OPENBLAS_", "OMP_", "ATEN_", "MALLOC_"))}
    return {**{key: getattr(arguments, key) for key in keys.split()}, "input_size": size,
            "parameters": sum(p.numel() for p in trainer.model.parameters()),
            "torch": torch.__version__, "environment": environment}


def batches(arguments, pictures):
    """Pixels and labels of one batch after the other."""
    if arguments.data == "synthetic":
        while True:
            yield pictures.pixels, pictures.labels
    count = len(pictures.labels) // arguments.batch_size
    order = torch.randperm(len(pictures.labels))[: count * arguments.batch_size]
    while True:
        for picked in order.split(arguments.batch_size):
            yield pictures.pixels[picked], pictures.labels[picked]


def speed(arguments):
    # The peak of importing torch is above its idle size: start the measurement anew.
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    idle = memory("VmRSS")
    # After many steps on one batch gradients could be denormal, which is slow.
    torch.set_flush_denormal(True)
    if arguments.data == "synthetic":
        held = [noise(arguments.batch_size, arguments.input_size, arguments.classes,
                      layout(arguments))]
    else:
        held = [load(arguments.data, part, layout(arguments)) for part in ("train", "t10k")]
    trainer = Trainer(arguments, held[0])
    source, times, losses = batches(arguments, held[0]), [], []
    for _ in range(arguments.warmup + arguments.steps):
        start = time.perf_counter()
        losses.append(trainer.step(*next(source)))
        times.append((time.perf_counter() - start) * 1000)
    peak = memory("VmHWM")
    times = times[arguments.warmup :]
    median, size = statistics.median(times), held[0].size()
    if not math.isfinite(losses[-1]):
        sys.exit(f"pytorch_train: the loss became {losses[-1]}")
    counted = pytorch_networks.build(arguments.model, size, arguments.classes, arguments.width)
    return {**describe(arguments, trainer, size), "steps": arguments.steps,
            "multiply_adds": arguments.batch_size * pytorch_networks.multiply_adds(counted, size),
            "step_ms_median": round(median, 4), "step_ms_min": round(min(times), 4),
            "examples_per_second": round(arguments.batch_size / median * 1000, 1),
            "first_loss": losses[0], "last_loss": losses[-1],
            "peak_rss_above_idle_bytes": peak - idle,
            "data_bytes": sum(pictures.bytes() for pictures in held)}


def augmented(pixels, kinds):
    """Each picture shifted by up to 2 pixels in each direction, or mirrored, at random."""
    count, channels, height, width = pixels.shape
    if "shift" in kinds:
        padded = functional.pad(pixels, (2, 2, 2, 2))
        rows = torch.randint(0, 5, (count, 1)) + torch.arange(height)
        columns = torch.randint(0, 5, (count, 1)) + torch.arange(width)
        pixels = padded[torch.arange(count)[:, None, None, None],
                        torch.arange(channels)[None, :, None, None],
                        rows[:, None, :, None], columns[:, None, None, :]]
    if "flip" in kinds:
        mirrored = torch.rand(count, 1, 1, 1) < 0.5
        pixels = torch.where(mirrored, pixels.flip(3), pixels)
    return pixels


def one_cycle(step, steps):
    """The factor of the learning rate, Mantissa's: a linear rise from 1/25, then a linear fall."""
    rise = round(0.2 * steps)
    if step < rise:
        return 1 / 25 + (1 - 1 / 25) * (step + 1) / rise
    return 1 - (step - rise) / (steps - rise)


def cosine(step, steps):
    return 0.5 * (1 + math.cos(math.pi * step / steps))


def evaluate(trainer, pictures):
    trainer.model.eval()
    with torch.no_grad():
        correct = sum(int((trainer.forward(x).argmax(1) == y).sum())
                      for x, y in zip(pictures.pixels.split(500), pictures.labels.split(500)))
    trainer.model.train()
    return correct / len(pictures.labels)


def train(arguments):
    data = load(arguments.data, "train", layout(arguments))
    test = load(arguments.data, "t10k", layout(arguments))
    trainer = Trainer(arguments, data)
    kinds = [kind for kind in arguments.augment.split(",") if kind]
    count = len(data.labels) // arguments.batch_size
    total, step, times = arguments.epochs * count, 0, []
    for epoch in range(arguments.epochs):
        order, losses = torch.randperm(len(data.labels)), []
        for picked in order[: count * arguments.batch_size].split(arguments.batch_size):
            start = time.perf_counter()
            factor = {"one-cycle": one_cycle, "cosine": cosine}[arguments.lr_schedule]
            for group in trainer.optimizer.param_groups:
                group["lr"] = arguments.learning_rate * factor(step, total)
            losses.append(trainer.step(augmented(data.pixels[picked], kinds), data.labels[picked]))
            times.append((time.perf_counter() - start) * 1000)
            step += 1
        print(f"epoch {epoch + 1}: loss {statistics.mean(losses):.4f}, test accuracy "
              f"{evaluate(trainer, test):.4f}", file=sys.stderr)
    median = statistics.median(times)
    return {**describe(arguments, trainer, data.size()), "epochs": arguments.epochs,
            "seed": arguments.seed, "learning_rate": arguments.learning_rate,
            "lr_schedule": arguments.lr_schedule, "augment": arguments.augment,
            "step_ms_median": round(median, 4),
            "examples_per_second": round(arguments.batch_size / median * 1000, 1),
            "test_accuracy": evaluate(trainer, test)}


def input_size(text):
    """HxWxC, such as 32x32x3."""
    height, width, channels = (int(word) for word in text.split("x"))
    return height, width, channels


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--model", choices=pytorch_networks.NETWORKS, required=True)
    common.add_argument("--width", type=float, default=1.0, help="multiplies the channels")
    common.add_argument("--classes", type=int, default=10)
    common.add_argument("--batch-size", type=int, default=128)
    common.add_argument("--seed", type=int, default=1)
    common.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    common.add_argument("--channels-last", action="store_true")
    common.add_argument("--precision", choices=PRECISIONS, default="fp32")
    mode = modes.add_parser("speed", parents=[common], help="time steps, and how much memory")
    mode.add_argument("--data", default="synthetic", help="synthetic, or a folder of IDX files")
    mode.add_argument("--input-size", type=input_size, default=(28, 28, 1),
                      help="HxWxC of synthetic pictures")
    mode.add_argument("--learning-rate", type=float, default=0.01)
    mode.add_argument("--steps", type=int, default=30)
    mode.add_argument("--warmup", type=int, default=5)
    mode.add_argument("--compile", action="store_true", help="by torch.compile")
    mode.add_argument("--checkpoint", type=int, default=0, metavar="SEGMENTS",
                      help="keep only what goes into each of so many segments of the network, and "
                      "compute the rest again (0: keep all)")
    mode = modes.add_parser("train", parents=[common], help="train and test")
    mode.add_argument("--data", default=DATA, help="folder of the four IDX files")
    mode.add_argument("--learning-rate", type=float, default=0.1)
    mode.add_argument("--epochs", type=int, default=3)
    mode.add_argument("--augment", default="", help="of shift, flip; separated by commas")
    mode.add_argument("--lr-schedule", choices=("one-cycle", "cosine"), default="one-cycle")
    arguments = parser.parse_args()
    if unknown := set(getattr(arguments, "augment", "").split(",")) - {"", "shift", "flip"}:
        parser.error(f"--augment: unknown {', '.join(sorted(unknown))} (known: shift, flip)")
    return arguments


def main():
    arguments = parse()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    print(json.dumps({"speed": speed, "train": train}[arguments.mode](arguments)))


if __name__ == "__main__":
    main()
