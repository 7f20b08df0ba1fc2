#!/usr/bin/python3
"""The built-in networks trained by PyTorch on the CPU: the peer of bench/peers/compare_speed.

  pytorch_train.py speed --model resnet20 --batch-size 128 --threads 2
  pytorch_train.py train --model resnet8 --epochs 8 --augment shift,flip

Prints one JSON object to standard output. Runs with Debian's python3-torch (1.13) and later.
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

import numpy
import torch
from torch import nn
from torch.nn import functional

DATA = "/usr/share/datasets/fashion-mnist"
MEAN, DEVIATION = 0.2860, 0.3530  # of Fashion-MNIST's training images


def read_idx(path):
    """An IDX file of bytes, gzipped or not, as a numpy array."""
    if not os.path.exists(path):
        path += ".gz"
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        content = file.read()
    dimensions = content[3]
    shape = struct.unpack(f">{dimensions}I", content[4 : 4 + 4 * dimensions])
    return numpy.frombuffer(content, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape)


def load(directory, part):
    """(images, labels) of part `train` or `t10k`; images float32 [n, 1, 28, 28], normalised."""
    images = read_idx(os.path.join(directory, f"{part}-images-idx3-ubyte"))
    labels = read_idx(os.path.join(directory, f"{part}-labels-idx1-ubyte"))
    images = torch.from_numpy(images.astype(numpy.float32)).unsqueeze(1)
    images.div_(255).sub_(MEAN).div_(DEVIATION)
    return images, torch.from_numpy(labels.astype(numpy.int64))


def scaled(channels, width):
    return max(1, round(channels * width))


def mlp(classes, width):
    sizes = [784] + [scaled(size, width) for size in (200, 100, 50)]
    layers = [nn.Flatten()]
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], classes))


def lenet5(classes, width):
    c1, c2, c3, hidden = (scaled(size, width) for size in (6, 16, 120, 84))
    return nn.Sequential(
        nn.Conv2d(1, c1, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(c1, c2, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(c2, c3, 5), nn.ReLU(), nn.Flatten(),
        nn.Linear(c3, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def vgg8b(classes, width):
    layers, channels = [], 1
    for step in (128, 256, "pool", 256, 512, "pool", 512, "pool", 512, "pool"):
        if step == "pool":
            layers.append(nn.MaxPool2d(2))
            continue
        outputs = scaled(step, width)
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False),
                   nn.BatchNorm2d(outputs), nn.ReLU()]
        channels = outputs
    hidden = scaled(1024, width)
    # 28x28 has become 1x1 after four poolings.
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, hidden, bias=False),
                         nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, classes))


class Block(nn.Module):
    """Two 3x3 convolutions with batch norm, and a projection where the shape changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        nn.init.zeros_(self.norm2.weight)  # a block starts as the identity
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                          nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)), inplace=True)
        y = self.norm2(self.conv2(y))
        return functional.relu(y + self.shortcut(x), inplace=True)


def resnet(depth, classes, width):
    channels = [scaled(size, width) for size in (16, 32, 64)]
    layers = [nn.Conv2d(1, channels[0], 3, padding=1, bias=False), nn.BatchNorm2d(channels[0]),
              nn.ReLU(inplace=True)]
    inputs = channels[0]
    for stage, outputs in enumerate(channels):
        for index in range((depth - 2) // 6):
            layers.append(Block(inputs, outputs, 2 if stage > 0 and index == 0 else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(inputs, classes))


MODELS = {
    "mlp": mlp,
    "lenet5": lenet5,
    "vgg8b": vgg8b,
    "resnet8": lambda classes, width: resnet(8, classes, width),
    "resnet20": lambda classes, width: resnet(20, classes, width),
}


def build(arguments):
    model = MODELS[arguments.model](arguments.classes, arguments.width)
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model


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


class Trainer:
    """One training step, and the layout and precision that the flags ask for."""

    def __init__(self, arguments):
        self.format = (torch.channels_last if arguments.channels_last
                       else torch.contiguous_format)
        self.bf16 = arguments.bf16
        self.model = build(arguments).to(memory_format=self.format).train()
        self.optimizer = make_optimizer(self.model, arguments.learning_rate)

    def forward(self, images):
        images = images.contiguous(memory_format=self.format)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            return self.model(images).float()

    def step(self, images, labels):
        loss = functional.cross_entropy(self.forward(images), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def describe(arguments):
    keys = "model width batch_size threads channels_last bf16"
    environment = {name: os.environ[name] for name in
                   ("OPENBLAS_CORETYPE", "OMP_WAIT_POLICY", "ATEN_CPU_CAPABILITY")
                   if name in os.environ}
    return {**{key: getattr(arguments, key) for key in keys.split()},
            "torch": torch.__version__, "environment": environment}


def speed(arguments):
    # The peak of importing torch is above its idle size: start the measurement anew.
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    idle = memory("VmRSS")
    images, labels = load(arguments.data, "train")
    trainer = Trainer(arguments)
    times = []
    order = torch.randperm(len(images))
    batches = len(order) // arguments.batch_size
    for step in range(arguments.warmup + arguments.steps):
        first = step % batches * arguments.batch_size
        start = time.perf_counter()
        picked = order[first : first + arguments.batch_size]
        trainer.step(images[picked], labels[picked])
        times.append((time.perf_counter() - start) * 1000)
    times = times[arguments.warmup :]
    median = statistics.median(times)
    return {**describe(arguments), "steps": arguments.steps, "step_ms_median": round(median, 4),
            "step_ms_min": round(min(times), 4),
            "examples_per_second": round(arguments.batch_size / median * 1000, 1),
            "peak_rss_above_idle_bytes": memory("VmHWM") - idle,
            "data_bytes": images.numel() * images.element_size() + labels.numel() * 8}


def augmented(images, kinds):
    """Each picture shifted by up to 2 pixels in each direction, or mirrored, at random."""
    count, _, height, width = images.shape
    if "shift" in kinds:
        black = -MEAN / DEVIATION
        padded = functional.pad(images, (2, 2, 2, 2), value=black)
        rows = torch.randint(0, 5, (count, 1)) + torch.arange(height)
        columns = torch.randint(0, 5, (count, 1)) + torch.arange(width)
        images = padded[torch.arange(count)[:, None, None], 0, rows[:, :, None],
                        columns[:, None, :]].unsqueeze(1)
    if "flip" in kinds:
        mirrored = torch.rand(count, 1, 1, 1) < 0.5
        images = torch.where(mirrored, images.flip(3), images)
    return images


def one_cycle(position):
    """The factor of the learning rate at position 0..1: a linear rise, then half a cosine."""
    rise = 0.15
    if position < rise:
        return 0.1 + 0.9 * position / rise
    return 0.5 * (1 + math.cos(math.pi * (position - rise) / (1 - rise)))


def cosine(position):
    return 0.5 * (1 + math.cos(math.pi * position))


def evaluate(trainer, images, labels):
    trainer.model.eval()
    with torch.no_grad():
        correct = sum(int((trainer.forward(x).argmax(1) == y).sum())
                      for x, y in zip(images.split(500), labels.split(500)))
    trainer.model.train()
    return correct / len(labels)


def train(arguments):
    images, labels = load(arguments.data, "train")
    test = load(arguments.data, "t10k")
    trainer = Trainer(arguments)
    kinds = [kind for kind in arguments.augment.split(",") if kind]
    batches = len(images) // arguments.batch_size
    total, step, times = arguments.epochs * batches, 0, []
    for epoch in range(arguments.epochs):
        order, losses = torch.randperm(len(images)), []
        for batch in range(batches):
            start = time.perf_counter()
            factor = {"one-cycle": one_cycle, "cosine": cosine}[arguments.lr_schedule]
            for group in trainer.optimizer.param_groups:
                group["lr"] = arguments.learning_rate * factor(step / total)
            picked = order[batch * arguments.batch_size : (batch + 1) * arguments.batch_size]
            losses.append(trainer.step(augmented(images[picked], kinds), labels[picked]))
            times.append((time.perf_counter() - start) * 1000)
            step += 1
        print(f"epoch {epoch + 1}: loss {statistics.mean(losses):.4f}, test accuracy "
              f"{evaluate(trainer, *test):.4f}", file=sys.stderr)
    median = statistics.median(times)
    return {**describe(arguments), "epochs": arguments.epochs, "seed": arguments.seed,
            "learning_rate": arguments.learning_rate, "lr_schedule": arguments.lr_schedule,
            "augment": arguments.augment, "step_ms_median": round(median, 4),
            "examples_per_second": round(arguments.batch_size / median * 1000, 1),
            "test_accuracy": evaluate(trainer, *test)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--model", choices=MODELS, required=True)
    common.add_argument("--data", default=DATA, help="folder of the four IDX files")
    common.add_argument("--width", type=float, default=1.0, help="multiplies the channels")
    common.add_argument("--classes", type=int, default=10)
    common.add_argument("--batch-size", type=int, default=128)
    common.add_argument("--learning-rate", type=float, default=0.1)
    common.add_argument("--seed", type=int, default=1)
    common.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    common.add_argument("--channels-last", action="store_true")
    common.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    mode = modes.add_parser("speed", parents=[common], help="time steps on real images")
    mode.add_argument("--steps", type=int, default=50)
    mode.add_argument("--warmup", type=int, default=10)
    mode = modes.add_parser("train", parents=[common], help="train and test")
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
