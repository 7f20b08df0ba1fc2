"""Mantissa's built-in networks in PyTorch, layer by layer as src/models builds them.

build() takes the picture's size as (height, width, channels), as Mantissa's --input-size does.
"""

import torch
from torch import nn
from torch.nn import functional


def scaled(channels, width):
    return max(1, int(channels * width + 0.5))


def relu():
    return nn.ReLU(inplace=True)


def convolution(inputs, outputs, kernel, stride=1, groups=1):
    """Without bias, because batch norm follows; returns both."""
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs)]


def flattened(layers, size):
    """How many values a picture has become after `layers`."""
    height, width, channels = size
    network = nn.Sequential(*layers, nn.Flatten()).eval()
    with torch.no_grad():
        return network(torch.zeros(1, channels, height, width)).shape[1]


def perceptron(size, channels, classes):
    sizes = [size[0] * size[1] * size[2], *channels]
    layers = [nn.Flatten()]
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), relu()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], classes))


def mlp(size, classes, _):
    return perceptron(size, (200, 100, 50), classes)


def linear_blocks(size, classes, width):
    return perceptron(size, [scaled(channels, width) for channels in (768, 3072, 768)], classes)


def lenet5(size, classes, _):
    layers = [nn.Conv2d(size[2], 6, 5, padding=2), nn.MaxPool2d(2), relu(),
              nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), relu()]
    inputs = flattened(layers, size)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(inputs, 120), relu(),
                         nn.Linear(120, 84), relu(), nn.Linear(84, classes))


def vgg8b(size, classes, width):
    layers, channels = [], size[2]
    for step in (128, 256, "pool", 256, 512, "pool", 512, "pool", 512, "pool"):
        if step == "pool":
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [*convolution(channels, scaled(step, width), 3), relu()]
        channels = scaled(step, width)
    inputs, hidden = flattened(layers, size), scaled(1024, width)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(inputs, hidden, bias=False),
                         nn.BatchNorm1d(hidden), relu(), nn.Linear(hidden, classes))


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a projection where the shape changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Sequential(*convolution(inputs, outputs, 3, stride), relu())
        self.second = nn.Sequential(*convolution(outputs, outputs, 3))
        nn.init.zeros_(self.second[1].weight)  # a block starts as the identity
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(*convolution(inputs, outputs, 1, stride))

    def forward(self, x):
        y = self.second(self.first(x)).add_(self.shortcut(x))
        return functional.relu(y, inplace=True)


class InvertedResidual(nn.Module):
    """Expands the channels six-fold, convolves each on its own, projects; adds if shapes agree."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        wide = 6 * inputs
        self.branch = nn.Sequential(
            *convolution(inputs, wide, 1), relu(),
            *convolution(wide, wide, 3, stride, groups=wide), relu(),
            *convolution(wide, outputs, 1))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        y = self.branch(x)
        return y.add_(x) if self.adds else y


class Bottleneck(nn.Module):
    """1x1 down, 3x3 with the stride, 1x1 to four times the channels, and a shortcut."""

    def __init__(self, inputs, channels, stride):
        super().__init__()
        outputs = 4 * channels
        self.branch = nn.Sequential(
            *convolution(inputs, channels, 1), relu(),
            *convolution(channels, channels, 3, stride), relu(),
            *convolution(channels, outputs, 1))
        nn.init.zeros_(self.branch[-1].weight)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(*convolution(inputs, outputs, 1, stride))

    def forward(self, x):
        return functional.relu(self.branch(x).add_(self.shortcut(x)), inplace=True)


def blocks_network(kind, stem, blocks, size, classes):
    """A stem, blocks of (channels, stride), the average over the picture and a classifier."""
    layers, inputs = [nn.Sequential(*convolution(size[2], stem, 3), relu())], stem
    for outputs, stride in blocks:
        layers.append(kind(inputs, outputs, stride))
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(inputs, classes))


def stages(table, width):
    """(channels, stride) of each block, from rows of (channels, blocks, stride of the first)."""
    return [(scaled(channels, width), stride if block == 0 else 1)
            for channels, blocks, stride in table for block in range(blocks)]


def resnet(depth):
    count = (depth - 2) // 6
    table = ((16, count, 1), (32, count, 2), (64, count, 2))
    return lambda size, classes, width: blocks_network(
        ResidualBlock, scaled(16, width), stages(table, width), size, classes)


def resnet50(size, classes, width):
    """For pictures of 224 pixels, where Mantissa's stem is torchvision's."""
    inputs = scaled(64, width)
    layers = [nn.Sequential(*convolution(size[2], inputs, 7, 2), relu()), nn.MaxPool2d(3, 2, 1)]
    for channels, stride in stages(((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)), width):
        layers.append(Bottleneck(inputs, channels, stride))
        inputs = 4 * channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(inputs, classes))


def relu6():
    return nn.ReLU6(inplace=True)


class MobileBlock(nn.Module):
    """MobileNetV2's: as InvertedResidual with ReLU6, without expansion by 1."""

    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        wide = expansion * inputs
        expand = [*convolution(inputs, wide, 1), relu6()] if expansion > 1 else []
        self.branch = nn.Sequential(*expand, *convolution(wide, wide, 3, stride, groups=wide),
                                    relu6(), *convolution(wide, outputs, 1))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        y = self.branch(x)
        return y.add_(x) if self.adds else y


def mobilenet_v2(size, classes, width):
    """For pictures of 224 pixels, as torchvision has it."""
    inputs = scaled(32, width)
    layers = [nn.Sequential(*convolution(size[2], inputs, 3, 2), relu6())]
    for expansion, channels, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2),
                                                (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                                (6, 320, 1, 1)):
        for block in range(blocks):
            outputs = scaled(channels, width)
            layers.append(MobileBlock(inputs, outputs, stride if block == 0 else 1, expansion))
            inputs = outputs
    head = scaled(1280, width)
    return nn.Sequential(*layers, nn.Sequential(*convolution(inputs, head, 1), relu6()),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(head, classes))


def vgg16_bn(size, classes, width):
    """For pictures of 224 pixels, without dropout."""
    layers, channels = [], size[2]
    for step in (64, 64, "pool", 128, 128, "pool", 256, 256, 256, "pool", 512, 512, 512, "pool",
                 512, 512, 512, "pool"):
        if step == "pool":
            layers.append(nn.MaxPool2d(2))
        else:
            layers.append(nn.Sequential(*convolution(channels, scaled(step, width), 3), relu()))
            channels = scaled(step, width)
    inputs, hidden = flattened(layers, size), scaled(4096, width)
    return nn.Sequential(*layers, nn.Flatten(), nn.Sequential(nn.Linear(inputs, hidden), relu()),
                         nn.Sequential(nn.Linear(hidden, hidden), relu()),
                         nn.Linear(hidden, classes))


def units(inputs, layers, stride=1):
    """Convolutions of (channels, kernel) with batch norm and ReLU; the last one has the stride."""
    result = []
    for index, (outputs, kernel) in enumerate(layers):
        last = index == len(layers) - 1
        result += [*convolution(inputs, outputs, kernel, stride if last else 1), relu()]
        inputs = outputs
    return nn.Sequential(*result)


class Branches(nn.Module):
    """Computed side by side, their channels one after the other."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def inception_small(size, classes, width):
    """For pictures of 224 pixels."""
    def block(inputs, channels, squeezed, pooled):
        channels, squeezed, pooled = (scaled(c, width) for c in (channels, squeezed, pooled))
        return 3 * channels + pooled, Branches(
            units(inputs, [(channels, 1)]), units(inputs, [(squeezed, 1), (channels, 5)]),
            units(inputs, [(squeezed, 1), (channels, 3), (channels, 3)]),
            nn.Sequential(nn.AvgPool2d(3, 1, 1), units(inputs, [(pooled, 1)])))

    def reduction(inputs, channels, squeezed):
        channels, squeezed = scaled(channels, width), scaled(squeezed, width)
        return inputs + 2 * channels, Branches(
            units(inputs, [(channels, 3)], 2),
            units(inputs, [(squeezed, 1), (channels, 3), (channels, 3)], 2),
            nn.MaxPool2d(3, 2, 1))

    first, inputs = scaled(32, width), scaled(48, width)
    layers = [units(size[2], [(first, 3)], 2), units(first, [(inputs, 3)]), nn.MaxPool2d(3, 2, 1)]
    for part, *channels in ((block, 32, 24, 32), (block, 32, 24, 32), (reduction, 48, 32),
                            (block, 56, 40, 56), (block, 56, 40, 56), (reduction, 72, 48),
                            (block, 80, 48, 80)):
        inputs, layer = part(inputs, *channels)
        layers.append(layer)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(inputs, classes))


def resnet18_blocks(size, classes, width):
    return blocks_network(ResidualBlock, scaled(64, width), stages(((64, 2, 1),), width), size,
                          classes)


def mobilenet_blocks(size, classes, width):
    table = ((24, 2, 1), (32, 2, 2), (64, 3, 2), (96, 2, 1))
    return blocks_network(InvertedResidual, scaled(16, width), stages(table, width), size, classes)


class VisionTransformer(nn.Module):
    """Weights as Mantissa begins: uniform within 1 / sqrt(inputs), tables too."""

    def __init__(self, size, classes, width):
        super().__init__()
        channels = 4 * scaled(16, width)
        patch = min(max(1, max(size[:2]) // 7), 16)
        positions = (size[0] // patch) * (size[1] // patch) + 1
        self.patches = nn.Conv2d(size[2], channels, patch, patch)
        self.token = nn.Parameter(torch.empty(1, 1, channels).uniform_(-1, 1) / channels ** 0.5)
        self.positions = nn.Parameter(
            torch.empty(1, positions, channels).uniform_(-1, 1) / channels ** 0.5)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(channels, 4, 4 * channels, dropout=0, activation="gelu",
                                       batch_first=True, norm_first=True) for _ in range(4))
        self.norm, self.head = nn.LayerNorm(channels), nn.Linear(channels, classes)
        for block in self.blocks:
            for layer in (block.self_attn.out_proj, block.linear1, block.linear2):
                layer.reset_parameters()
            nn.init.uniform_(block.self_attn.in_proj_weight, -channels ** -0.5, channels ** -0.5)
        self.begins_as_it_is = True

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


NETWORKS = {
    "vit_tiny": VisionTransformer,
    "mlp": mlp,
    "inception_small": inception_small,
    "lenet5": lenet5,
    "vgg8b": vgg8b,
    "resnet8": resnet(8),
    "resnet20": resnet(20),
    "resnet50": resnet50,
    "mobilenet_v2": mobilenet_v2,
    "vgg16_bn": vgg16_bn,
    "resnet18_blocks": resnet18_blocks,
    "mobilenet_blocks": mobilenet_blocks,
    "linear_blocks": linear_blocks,
}


def build(name, size, classes, width):
    """The network with He's weights; biases are 0."""
    network = NETWORKS[name](size, classes, width)
    if getattr(network, "begins_as_it_is", False):
        return network
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return network


def multiply_adds(network, size):
    """Of the convolutions and linear layers, forward, for one picture."""
    height, width, channels = size
    counts = []

    def count(module, _, output):
        if isinstance(module, nn.Conv2d):
            pixels = output.shape[2] * output.shape[3]
            counts.append(pixels * module.weight.numel())
        else:
            counts.append(module.weight.numel())

    hooks = [module.register_forward_hook(count) for module in network.modules()
             if isinstance(module, (nn.Conv2d, nn.Linear))]
    training = network.training
    with torch.no_grad():
        network.eval()(torch.zeros(1, channels, height, width))
    network.train(training)
    for hook in hooks:
        hook.remove()
    return sum(counts)
