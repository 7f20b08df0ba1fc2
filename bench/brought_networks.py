"""Networks as people write them in PyTorch, and their data: what bench/brought trains."""

import collections
import pathlib
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = ROOT / "runs/brought"
AEON = "aeon==1.6.0"
MEAN, DEVIATION = 0.286, 0.353  # of Fashion-MNIST's pixels
Task = collections.namedtuple("Task", "network data batch epochs further_epochs what")
TASKS = {
    "vit": Task("vit", "fashion-mnist", 128, 3, 1, "Fashion-MNIST"),
    "convnext": Task("convnext", "fashion-mnist", 128, 3, 1, "Fashion-MNIST"),
    "unet": Task("unet", "shapes", 128, 10, 3, "drawn shapes, mean IoU"),
    "tcn-vowels": Task("tcn", "JapaneseVowels_eq", 32, 40, 15, "JapaneseVowels"),
    "tcn-power": Task("tcn", "ItalyPowerDemand", 32, 100, 30, "ItalyPowerDemand"),
    "tcn-leaves": Task("tcn", "OSULeaf", 32, 60, 20, "OSULeaf"),
}


def make_network(name, channels, classes):
    import torch
    from torch import nn
    from torch.nn import functional

    class Vit(nn.Module):
        def __init__(self, width=64):
            super().__init__()
            self.patches = nn.Conv2d(channels, width, 4, 4)
            self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
            self.positions = nn.Parameter(torch.randn(1, 50, width) * 0.02)
            layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True,
                                               norm_first=True)
            self.body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
            return self.head(self.norm(self.body(x))[:, 0])

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.depth, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.scale = nn.Parameter(torch.full((width,), 0.1))

        def forward(self, x):
            y = self.norm(self.depth(x).permute(0, 2, 3, 1))
            return x + (self.scale * self.narrow(functional.gelu(self.wide(y)))).permute(0, 3, 1, 2)

    class ConvNext(nn.Module):
        def __init__(self, width=48):
            super().__init__()
            self.stem, self.blocks = nn.Conv2d(channels, width, 4, 4), nn.Sequential(*map(Block, [width] * 3))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

        def forward(self, x):
            return self.head(self.norm(self.blocks(self.stem(x)).mean((2, 3))))

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()

            def level(i, o):
                return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(),
                                     nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
            self.one, self.two, self.deep = level(channels, 8), level(8, 16), level(16, 32)
            self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
            self.back2, self.back1, self.head = level(32, 16), level(16, 8), nn.Conv2d(8, classes, 1)

        def forward(self, x):
            one = self.one(x)
            two = self.two(functional.max_pool2d(one, 2))
            y = self.up2(self.deep(functional.max_pool2d(two, 2)))
            y = self.up1(self.back2(torch.cat([y, two], 1)))
            return self.head(self.back1(torch.cat([y, one], 1)))

    class Residual(nn.Module):
        def __init__(self, i, o, dilation):
            super().__init__()

            def layer(i, o):
                return [nn.Conv1d(i, o, 5, padding=2 * dilation, dilation=dilation), nn.BatchNorm1d(o)]
            self.body = nn.Sequential(*layer(i, o), nn.ReLU(), *layer(o, o))
            self.skip = nn.Conv1d(i, o, 1) if i != o else nn.Identity()

        def forward(self, x):
            return functional.relu(self.body(x) + self.skip(x))

    if name == "tcn":
        return nn.Sequential(Residual(channels, 32, 1), Residual(32, 32, 2), Residual(32, 32, 4),
                             nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, classes))
    return {"vit": Vit, "convnext": ConvNext, "unet": UNet}[name]()


def read_pictures():
    sys.path.insert(0, str(ROOT / "bench/peers"))
    from pytorch_train import DATA, read_idx
    return {f"{kind}_{part}": read_idx(f"{DATA}/{name}-{file}")
            for part, name in (("train", "train"), ("test", "t10k"))
            for kind, file in (("x", "images-idx3-ubyte"), ("y", "labels-idx1-ubyte"))}


def draw_shapes():
    """Squares, discs, triangles on noise, one to three a picture; a class for each pixel, 0 outside."""
    import numpy as np
    rng = np.random.default_rng(7)
    arrays = {}
    for part, count in (("train", 6000), ("test", 1000)):
        pictures = rng.integers(0, 120, (count, 28, 28)).astype(np.uint8)
        masks = np.zeros((count, 28, 28), np.int64)
        for picture, mask in zip(pictures, masks):
            for _ in range(rng.integers(1, 4)):
                kind, y, x, size = rng.integers(1, 4), *rng.integers(0, 20, 2), rng.integers(6, 12)
                rows, columns = np.mgrid[:28, :28]
                down, right = rows - y, columns - x
                inside = (down >= 0) & (right >= 0) & (down < size) & (right < size)
                if kind == 2:
                    inside = (down - size / 2) ** 2 + (right - size / 2) ** 2 < size * size / 4
                if kind == 3:
                    inside &= down + right < size
                noise = rng.integers(-40, 40, inside.sum())
                picture[inside], mask[inside] = np.clip(rng.integers(110, 200) + noise, 0, 255), kind
        arrays |= {f"x_{part}": pictures, f"y_{part}": masks}
    return arrays


def read_series(name):
    """A data set of aeon; each channel brought to mean 0 and deviation 1, as the program does."""
    import numpy as np
    wheel = RUNS / "aeon"
    if not list(wheel.glob("*.whl")):
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", AEON, "-d", wheel],
                       check=True)
    arrays, classes = {}, None
    with zipfile.ZipFile(next(wheel.glob("*.whl"))) as file:
        for part in ("train", "test"):
            stem = name.removesuffix("_eq")
            text = file.read(f"aeon/datasets/data/{stem}/{name}_{part.upper()}.ts").decode()
            lines = text[text.lower().index("@data") + 5:].strip().splitlines()
            rows = [line.strip().split(":") for line in lines]
            classes = classes or sorted({row[-1] for row in rows})
            arrays[f"y_{part}"] = np.array([classes.index(row[-1]) for row in rows])
            series = [[[float(v) for v in channel.split(",")] for channel in row[:-1]] for row in rows]
            arrays[f"x_{part}"] = np.array(series).transpose(0, 2, 1)
    mean, deviation = arrays["x_train"].mean((0, 1)), arrays["x_train"].std((0, 1))
    for part in ("train", "test"):
        arrays[f"x_{part}"] = ((arrays[f"x_{part}"] - mean) / deviation).astype(np.float32)
    return arrays


def read_arrays(task):
    """The arrays, and the NPZ file or the name that the program reads."""
    import numpy as np
    if task.data == "fashion-mnist":
        return read_pictures(), "fashion-mnist"
    path = RUNS / f"{task.data}.npz"
    arrays = draw_shapes() if task.data == "shapes" else read_series(task.data)
    if not path.exists():
        RUNS.mkdir(parents=True, exist_ok=True)
        np.savez(path, **arrays)
    return arrays, path


def as_torch(x):
    import torch
    if x.dtype == "uint8":
        return torch.from_numpy(x[:, None] / 255).sub(MEAN).div(DEVIATION).float()
    return torch.from_numpy(x.transpose(0, 2, 1).copy())


def start(task, arrays, seed):
    """The network with the weights of the seed, and the file that has them."""
    import torch
    torch.manual_seed(seed)
    x = as_torch(arrays["x_train"][:2])
    net = make_network(task.network, x.shape[1], int(arrays["y_train"].max()) + 1)
    path = RUNS / f"{task.network}-{task.data}-{seed}.onnx"
    if not path.exists():
        RUNS.mkdir(parents=True, exist_ok=True)
        torch.onnx.export(net, x, str(path), dynamo=False, input_names=["x"], do_constant_folding=False,
                          training=torch.onnx.TrainingMode.PRESERVE, dynamic_axes={"x": {0: "batch"}})
    return net, path
