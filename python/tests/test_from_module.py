"""Kinds of networks that PyTorch brings without a file: the same outputs in fp32, and back as a
module. Skipped where PyTorch is not there."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
import mantissa as mt  # noqa: E402
import mantissa.torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

EXAMPLES, CLASSES = 3, 4


class Of(nn.Module):
    """A module of parts and a function of them."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def head(channels, outputs=CLASSES):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, outputs)]


def pictures(function=nn.ReLU, norm=nn.BatchNorm2d, outputs=CLASSES):
    return nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), norm(8), function(), nn.Conv2d(8, 16, 3, 2, 1),
                         function(), *head(16, outputs))


def u_net(up):
    def level(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
    ups = {"transposed": lambda: nn.ConvTranspose2d(16, 8, 2, 2),
           "nearest": lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(16, 8, 1)),
           "bilinear": lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"),
                                             nn.Conv2d(16, 8, 1))}

    def forward(m, x):
        one = m.one(x)
        y = m.up(m.deep(functional.max_pool2d(one, 2)))
        return m.head(m.back(torch.cat([y, one], 1)))
    return Of(forward, one=level(1, 8), deep=level(8, 16), up=ups[up](), back=level(16, 8),
              head=nn.Conv2d(8, CLASSES, 1))


class ConvNext(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.depth, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c)
        self.wide, self.narrow = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.scale = nn.Parameter(torch.full((c,), 0.3))

    def forward(self, x):
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        y = self.scale * self.narrow(functional.gelu(self.wide(y)))
        return x + y.permute(0, 3, 1, 2)


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, 16, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.positions = nn.Parameter(torch.randn(1, 17, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.body(x))[:, 0])


def recurrent(kind, **more):
    return Of(lambda m, x: m.head(m.body(x)[0]), body=kind(6, 8, batch_first=True, **more),
              head=nn.Linear(16 if more.get("bidirectional") else 8, CLASSES))


def encoder(**more):
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True, **more)
    return Of(lambda m, x: m.head(m.body(x).mean(1)),
              body=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
              head=nn.Linear(8, CLASSES))


def signals():
    return nn.Sequential(nn.Conv1d(6, 8, 5, padding=2), nn.BatchNorm1d(8), nn.ReLU(),
                         nn.MaxPool1d(2), nn.Conv1d(8, 16, 3, padding=2, dilation=2), nn.ReLU(),
                         nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, CLASSES))


def volumes():
    return nn.Sequential(
        nn.Conv3d(2, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2),
        nn.Conv3d(8, 16, 3, (1, 2, 2), 1, groups=2), nn.ReLU(), nn.AvgPool3d((1, 2, 2)),
        nn.Conv3d(16, 16, 3, padding=2, dilation=2, groups=16), nn.ReLU(), nn.AdaptiveAvgPool3d(1),
        nn.Flatten(), nn.Linear(16, CLASSES))


# The module, the shape of an example, and settings of the import.
MODULES = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, CLASSES)), (12,)),
    "norm of a perceptron": (lambda: nn.Sequential(
        nn.Linear(12, 16), nn.BatchNorm1d(16), nn.Dropout(0.1), nn.Linear(16, CLASSES)), (12,)),
    "one axis": (signals, (6, 32)),
    "one axis, transposed": (lambda: nn.Sequential(
        nn.Conv1d(6, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose1d(8, 8, 4, 2, 1), nn.ReLU(),
        nn.Conv1d(8, CLASSES, 1)), (6, 32)),
    "three axes": (volumes, (2, 6, 8, 12)),
    "three axes, flattened": (lambda: nn.Sequential(
        nn.Conv3d(2, 4, (2, 3, 3), 2), nn.ReLU(), nn.MaxPool3d((2, 1, 1)), nn.Flatten(),
        nn.Linear(36, CLASSES)), (2, 5, 8, 8)),
    "three axes, a class for each place": (lambda: nn.Sequential(
        nn.Conv3d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv3d(8, CLASSES, 1)), (2, 3, 4, 5)),
    "pictures": (pictures, (1, 16, 16)),
    "group norm": (lambda: pictures(norm=lambda c: nn.GroupNorm(4, c)), (1, 16, 16)),
    "prelu": (lambda: pictures(nn.PReLU), (1, 16, 16)),
    "elu": (lambda: pictures(nn.ELU), (1, 16, 16)),
    "mish": (lambda: pictures(nn.Mish), (1, 16, 16)),
    "softplus": (lambda: pictures(nn.Softplus), (1, 16, 16)),
    "u-net, transposed": (lambda: u_net("transposed"), (1, 16, 16)),
    "u-net, nearest": (lambda: u_net("nearest"), (1, 16, 16)),
    "u-net, bilinear": (lambda: u_net("bilinear"), (1, 16, 16)),
    "u-net, dice": (lambda: u_net("bilinear"), (1, 16, 16), {"loss": "dice-cross-entropy"}),
    "convnext": (lambda: nn.Sequential(nn.Conv2d(1, 8, 2, 2), ConvNext(8), *head(8)), (1, 16, 16)),
    "vit": (Vit, (1, 16, 16)),
    "gru": (lambda: recurrent(nn.GRU), (7, 6)),
    "lstm, both directions": (lambda: recurrent(nn.LSTM, bidirectional=True), (7, 6)),
    "rnn, two layers": (lambda: recurrent(nn.RNN, num_layers=2), (7, 6)),
    "encoder": (encoder, (7, 8)),
    "encoder, norms first": (lambda: encoder(norm_first=True, activation="gelu"), (7, 8)),
    "one logit": (lambda: pictures(outputs=1), (1, 16, 16), {"loss": "sigmoid"}),
    "labels": (lambda: nn.Sequential(*pictures(outputs=5), nn.Sigmoid()), (1, 16, 16)),
}


def settled(module, shape):
    """No bias of 0, no norm of 1, no statistics of the beginning."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.rand_like(parameter) * 0.4 - 0.1)
        for _ in range(10):
            module.train()(torch.randn(16, *shape))
    return module


def examples_of(shape):
    """The same inputs for the engine and for PyTorch. 1/16: the network rounds no number."""
    rng = np.random.default_rng(2)
    if len(shape) == 3:
        x = rng.integers(0, 256, (EXAMPLES, *shape[1:], shape[0]), dtype=np.uint8)
        return x, torch.tensor(x).permute(0, 3, 1, 2) / 255
    x = (rng.integers(-48, 48, (EXAMPLES, *shape)) / 16).astype(np.float32)
    return x, torch.tensor(x)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_comes_with_its_numbers_and_goes_back(name):
    make, shape, *settings = MODULES[name]
    torch.manual_seed(4)
    module = settled(make(), shape)
    given = settings[0] if settings else {}
    if len(shape) == 3:
        given = {"input_mean": "0", "input_std": "1", **given}
    x, inputs = examples_of(shape)
    net = mantissa.torch.from_module(module, torch.zeros(1, *shape), **given).network
    if inputs.dim() in (3, 5) and net.inputs[0].shape != shape:  # positions before channels
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    assert net.inputs[0].shape == x.shape[1:]
    trainer = mt.Trainer(net, format="fp32", batch_size=EXAMPLES)
    with torch.no_grad():
        expected = module.eval()(inputs)
        if name == "labels":  # the loss computes the sigmoid
            expected = torch.logit(expected)
        expected = (expected if expected.dim() < 3 or expected.shape[1] != CLASSES
                    else expected.movedim(1, -1)).reshape(EXAMPLES, -1).numpy()
        again = trainer.to_module().eval()(torch.tensor(x)).reshape(EXAMPLES, -1).numpy()
    found = trainer.freeze((x,)).predict(x)
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()
    assert np.abs(again - found).max() <= 1e-5 * np.abs(found).max()
    labels = np.zeros((EXAMPLES, *net.inputs[1].shape), np.int32)
    before = trainer.state_dict()
    trainer.step(x, labels, learning_rate=0.01)
    changed = {one for one in before if (trainer.state_dict()[one] != before[one]).any()}
    assert any(one.endswith(".weights") for one in changed)


def test_an_imported_network_gets_another_loss_and_keeps_its_numbers():
    torch.manual_seed(4)
    module = settled(u_net("transposed"), (1, 16, 16))
    imported = mantissa.torch.from_module(module, torch.zeros(1, 1, 16, 16), input_mean="0",
                                          input_std="1", loss="dice").network
    assert imported.nodes[-1]["op"] == "dice_loss"
    trainers = [mt.Trainer(net, format="fp32", batch_size=EXAMPLES)
                for net in (imported, imported.with_loss(lambda z: mt.dice(z, "classes", smooth=3)))]
    states = [trainer.state_dict() for trainer in trainers]
    assert states[0].keys() == states[1].keys()
    assert all((states[0][name] == states[1][name]).all() for name in states[0])
    assert [one.name for one in trainers[1].network.inputs] == ["pixels", "classes"]
    x, _ = examples_of((1, 16, 16))
    labels = np.random.default_rng(1).integers(0, CLASSES, (EXAMPLES, 16, 16), dtype=np.int32)
    assert trainers[1].step(x, labels, learning_rate=0.01).loss > 0
