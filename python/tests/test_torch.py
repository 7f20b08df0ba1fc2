"""Modules, tensors and datasets of PyTorch; skipped where it is not there."""

import copy
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import mantissa as mt  # noqa: E402
import mantissa.torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.skip = nn.Identity() if (before, stride) == (after, 1) else nn.Sequential(
            nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        h = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(h)) + self.skip(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                                  nn.MaxPool2d(3, 2, 1))
        sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1),
                 (256, 512, 2), (512, 512, 1)]
        self.body = nn.Sequential(*(Block(*size) for size in sizes))
        self.classifier = nn.Linear(512, 10)

    def forward(self, x):
        return self.classifier(functional.adaptive_avg_pool2d(self.body(self.stem(x)), 1).flatten(1))


def test_a_resnet_18_computes_and_learns_as_in_pytorch():
    """Outputs, before the step, and its loss and gradients in fp32. Without a mean and a deviation of pixels, weights
    keep their scale in the first layer too."""
    torch.manual_seed(0)
    module = ResNet18()
    net = mantissa.torch.from_module(module, torch.zeros(2, 3, 64, 64), input_mean="0",
                                     input_std="1").network
    rate = 1.0
    trainer = mt.Trainer(net, format="fp32", optimizer="sgd", batch_size=8, weight_decay=0)
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (8, 64, 64, 3), dtype=np.uint8), rng.integers(0, 10, 8)
    pixels = torch.tensor(x).float().permute(0, 3, 1, 2) / 255
    outputs = trainer.freeze((x,)).predict(x)
    with torch.no_grad():
        expected = module.eval()(pixels).numpy()
    assert np.abs(outputs - expected).max() <= 1e-3 * np.abs(expected).max()
    before = {one.name: trainer.values(one.name).copy() for one in net.parameters}
    report = trainer.step(x, y, learning_rate=rate)
    module.train()
    loss = functional.cross_entropy(module(pixels), torch.tensor(y))
    loss.backward()
    assert report.loss == pytest.approx(loss.item(), rel=1e-5)
    last = module.classifier.weight
    gradient = (before["classifier.weights"] - trainer.values("classifier.weights")) / rate
    assert np.abs(gradient - last.grad.numpy()).max() <= 1e-3 * last.grad.abs().max()
    compared = 0
    for name, parameter in module.named_parameters():
        ours = name.replace(".weight", ".weights")
        if ours not in before or parameter.ndim != 4:
            continue
        gradient = (before[ours] - trainer.values(ours)) / rate
        theirs = parameter.grad.numpy().transpose(0, 2, 3, 1)
        if ours.startswith("stem"):  # reads pixels, not pixels / 255
            theirs = theirs * np.vdot(gradient, theirs) / np.vdot(theirs, theirs)
        assert np.linalg.norm(gradient - theirs) <= 1e-3 * np.linalg.norm(theirs), name
        compared += 1
    assert compared == 20


def test_weights_come_along_in_integers():
    module = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                           nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
    net = mantissa.torch.from_module(module, torch.zeros(1, 1, 8, 8)).network
    trainer = mt.Trainer(net, batch_size=8)
    name = next(one.name for one in net.parameters if one.shape == (3, 8))
    theirs = module[5].weight.detach().numpy()
    step = 2.0 ** trainer.exponents(name)[0]
    assert np.abs(trainer.mantissas(name) * step - theirs).max() <= step / 2


def test_tensors_datasets_and_loaders(network, digits):
    x, y = digits
    tensors = (torch.tensor(x), torch.tensor(y))
    data = mt.Data(*tensors)
    assert data.arrays["0"].ctypes.data == tensors[0].data_ptr()  # borrowed
    trainers = [mt.Trainer(network, batch_size=40, learning_rate=0.05) for _ in range(2)]
    for trainer, examples in zip(trainers, (tensors, digits)):
        trainer.fit(examples, epochs=1, progress=False)
    assert trainers[0].weights_sha256 == trainers[1].weights_sha256
    dataset = torch.utils.data.TensorDataset(*tensors)
    assert (mt.Data.from_iterable(dataset).arrays["0"] == x).all()
    loader = torch.utils.data.DataLoader(dataset, batch_size=40, shuffle=True)
    assert len(trainers[0].fit_batches(loader, learning_rate=0.01)) == 10


class Net(nn.Module):
    """Batch norms as layers and as a function, dropout, one pixel at the end; and what forward()
    changes besides: a buffer, a counter, all random numbers, the input."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.4)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(8)
        self.last = nn.Sequential(nn.Linear(8, 8, bias=False), nn.BatchNorm1d(8), nn.Linear(8, 3))
        self.register_buffer("seen", torch.zeros(1))
        self.runs = 0

    def forward(self, x):
        self.runs += 1
        self.seen += 1
        random.random(), np.random.rand()
        h = functional.relu(self.norm(self.conv(x)))
        h = self.conv2(self.drop(h))
        h = functional.relu(functional.batch_norm(
            h, self.norm2.running_mean, self.norm2.running_var, self.norm2.weight, self.norm2.bias,
            self.training))
        return self.last(functional.adaptive_avg_pool2d(h, 1).flatten(1))


def trained_module():
    torch.manual_seed(3)
    module = Net()
    for _ in range(10):
        module(3 * torch.rand(16, 1, 8, 8) + 1)
    return module


def state_of(module):
    return ({name: tensor.clone() for name, tensor in module.state_dict().items()}, module.runs,
            [part.training for part in module.modules()],
            [None if p.grad is None else p.grad.clone() for p in module.parameters()])


def random_state():
    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()


@pytest.mark.parametrize("mode", ["train", "eval", "mixed"])
def test_a_module_stays_as_it_is_and_its_network_computes_the_same(mode):
    module = trained_module()
    module(torch.rand(4, 1, 8, 8)).sum().backward()
    module.train(mode != "eval")
    if mode == "mixed":
        module.norm.eval()
        module.last.eval()
    example = torch.rand(1, 1, 8, 8)
    state, numbers, kept = state_of(module), random_state(), example.clone()
    x = np.random.default_rng(0).integers(0, 256, (8, 8, 8, 1), dtype=np.uint8)
    pixels = torch.tensor(x).float().permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        expected = copy.deepcopy(module).eval()(pixels).numpy()
    numbers = random_state()
    for _ in range(2):  # a second call finds what the first one left
        net = mantissa.torch.from_module(module, example, input_mean="0", input_std="1").network
        found = mt.Trainer(net, format="fp32", batch_size=8).freeze((x,)).predict(x)
        assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()
        ops = [node["op"] for node in net.nodes]
        assert ops.count("batch_norm") == 3 and "dropout" in ops
        after = state_of(module)
        assert all(torch.equal(after[0][name], tensor) for name, tensor in state[0].items())
        assert after[1:3] == state[1:3] and random_state() == numbers
        assert all(torch.equal(a, b) for a, b in zip(after[3], state[3]) if a is not None)
        assert torch.equal(example, kept)


def test_what_pytorch_runs_in_place_stays_too():
    module = nn.Sequential(nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(16, 3))
    example = torch.randn(1, 1, 4, 4)
    kept = example.clone()
    mantissa.torch.from_module(module, example)
    assert torch.equal(example, kept)


def test_a_weight_norm_is_copied_and_what_cannot_be_is_named():
    module = nn.Sequential(nn.Flatten(), torch.nn.utils.weight_norm(nn.Linear(16, 3)))
    module(torch.zeros(1, 1, 4, 4))

    class NoCopy:
        def __deepcopy__(self, memo):
            raise TypeError("one of a kind")
    plain = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    plain.held = NoCopy()
    with pytest.raises(mt.InvalidInput, match="cannot be copied: one of a kind"):
        mantissa.torch.from_module(plain, torch.zeros(1, 1, 4, 4))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    try:
        mantissa.torch.from_module(module, torch.zeros(1, 1, 4, 4))
    except mt.InvalidInput:
        pass  # the importer may not know the layer; the copy is made
    assert all(torch.equal(module.state_dict()[name], tensor) for name, tensor in before.items())


def test_tensors_that_cannot_be_read_are_named():
    for wrong in (torch.zeros(4, dtype=torch.bfloat16), torch.zeros(4).to_sparse(),
                  torch.zeros(4, dtype=torch.complex64), torch.zeros(4, device="meta")):
        with pytest.raises(mt.InvalidInput, match="'x'"):
            mt.Data(x=wrong)
    wanted = torch.arange(4.0, requires_grad=True)
    assert mt.Data(x=wanted).arrays["x"].tolist() == [0, 1, 2, 3]
    assert mt.Data(x=torch.arange(4, dtype=torch.int16)).arrays["x"].dtype == np.int16


def test_the_smaller_last_batch_of_a_loader_is_left_out(network, digits):
    tensors = (torch.tensor(digits[0][:100]), torch.tensor(digits[1][:100]))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*tensors), batch_size=40)
    trainer = mt.Trainer(network, batch_size=40)
    with pytest.warns(UserWarning, match="1 batches with fewer than 40 examples, 20 in all"):
        losses = trainer.fit_batches(loader, learning_rate=0.01)
    assert len(losses) == 2 == trainer.steps_done
    with pytest.raises(mt.InvalidInput, match="all batches have fewer"):
        mt.Trainer(network, batch_size=50).fit_batches(loader, learning_rate=0.01)
