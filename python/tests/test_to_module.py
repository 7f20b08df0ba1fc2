"""Networks as modules of PyTorch: the numbers of the fp32 forward, gradients, names; skipped where
PyTorch is not there."""

import copy
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import mantissa as mt  # noqa: E402
import mantissa.torch  # noqa: E402
from torch.nn import functional  # noqa: E402

EXAMPLES = 6


def picture(*layers, size=(8, 8, 3)):
    """Pixels, a convolution, and then these layers."""
    h = mt.conv(mt.input(*size), 8, bias=True)
    for one in layers:
        h = one(h)
    return h


def pooled(*layers, **more):
    return mt.linear(mt.global_average_pool(picture(*layers, **more)), 3)


def rows(*layers, steps=7, features=8):
    h = mt.linear(mt.numbers(steps, features, largest=2), 8, least_bits=16)
    for one in layers:
        h = one(h)
    return h


def op(kind, **settings):
    return lambda x: mt.op(kind, x, **settings)


def attention(lengths=False, kv_heads=None, **more):
    def layer(x):
        inputs = [mt.linear(x, 8), *(mt.linear(x, 8 if kv_heads is None else 4) for _ in range(2))]
        if lengths:
            inputs.append(mt.indices(name="lengths"))
        return mt.op("attention", *inputs, heads=2, **more,
                     **({} if kv_heads is None else {"kv_heads": kv_heads}))
    return layer


def recurrent(kind, gates, lengths=False, start=False, **more):
    def layer(x):
        inputs = [mt.linear(x, gates * 8, least_bits=16)]
        if lengths:
            inputs.append(mt.indices(name="lengths"))
        if start:
            first = mt.linear(mt.reduce_mean(x), 8)
            inputs += [mt.tanh(first)] * (2 if kind == "lstm" else 1)
        return mt.op(kind, *inputs, **more)
    return layer


def skip(x):
    return x + mt.conv(x, 8)


def squeeze(x):
    return mt.multiply(x, mt.sigmoid(mt.linear(mt.global_average_pool(x), 8)))


def volume(*layers):
    x = mt.conv3d(mt.numbers(6, 5, 4, 2, exponent=-6), 8, bias=True)
    for one in layers:
        x = one(x)
    return x


NETWORKS = {
    "linear": lambda: mt.linear(mt.input(4, 4, 2), 3),
    "convolution": lambda: pooled(mt.layer(mt.conv, 8, stride=2, groups=4),
                                  mt.layer(mt.conv, 6, 3, dilation=2, padding=2)),
    "rectangles": lambda: pooled(op("convolution", channels=6, kernel=1, kernel_width=5,
                                    padding_width=2),
                                 op("overlapping_max_pool", window=2, window_width=3, stride=1,
                                    stride_width=2, padding=0, padding_width=1)),
    "transposed": lambda: picture(mt.layer(mt.transposed_conv, 5, 3, stride=2, padding=1,
                                           output_padding=1), mt.layer(mt.conv, 3, 1, bias=True)),
    "grouped_transposed": lambda: pooled(mt.layer(mt.transposed_conv, 12, groups=4),
                                         mt.layer(mt.transposed_conv, 12, 3, groups=12, padding=1),
                                         mt.layer(mt.transposed_conv, 4, 3, groups=2, bias=False)),
    "one_axis": lambda: mt.linear(mt.conv1d(rows(
        mt.layer(mt.conv1d, 6, 3, causal=True, dilation=2, bias=True),
        mt.layer(mt.transposed_conv, 6, 4, padding=1), op("overlapping_max_pool", window=3, stride=2),
        op("average_pool", window=2, stride=1, padding=1, count_padding=False),
        op("upsample", factor=2), op("bilinear_resize", width=9)), 8, 3, stride=2, groups=2), 3),
    "volumes": lambda: mt.linear(mt.global_average_pool(volume(
        mt.batch_norm, mt.relu, mt.layer(mt.max_pool3d, (3, 2, 1), stride=(1, 2, 1), padding=(1, 0, 0)),
        mt.layer(mt.conv3d, 8, (2, 3, 1), stride=(2, 1, 2), padding=(1, 1, 0), dilation=(2, 1, 1),
                 groups=8),
        mt.layer(mt.average_pool3d, (2, 1, 2)), op("pad", top=1, right=1),
        mt.layer(mt.transposed_conv, 6), mt.layer(mt.conv3d, 6, (1, 3, 3)))), 3),
    "volume_shapes": lambda: mt.linear(mt.reshape(volume(
        op("depth_taps", kernel=2, padding=1, padding_end=0), op("upsample", factor=2)),
        3, 20, 8, 16), 3),
    "batch_norm": lambda: pooled(mt.batch_norm, mt.relu, skip, mt.batch_norm),
    "group_norm": lambda: pooled(mt.layer(mt.group_norm, 4, epsilon=1e-3), mt.relu,
                                 mt.layer(mt.group_norm, 8)),
    "row_norms": lambda: mt.linear(mt.reduce_mean(rows(
        mt.layer_norm, mt.rms_norm, mt.layer(mt.rms_norm, heads=2),
        mt.layer(mt.layer_norm, heads=4))), 3),
    "functions": lambda: pooled(mt.relu6, mt.layer(mt.leaky_relu, 0.2), mt.tanh, mt.hard_sigmoid,
                                mt.hard_swish, mt.gelu, mt.gelu_tanh, mt.silu,
                                mt.layer(mt.elu, 0.7),
                                mt.layer(mt.scale, 1.5), mt.softplus, mt.mish, mt.sigmoid),
    "prelu": lambda: pooled(mt.prelu, mt.layer(mt.conv, 8), mt.layer(mt.prelu, shared=True)),
    "dropout": lambda: pooled(mt.layer(mt.dropout, 0.3), mt.relu),
    "pools": lambda: pooled(mt.layer(mt.max_pool, 2), op("average_pool", window=3, stride=1,
                                                       padding=1),
                            op("overlapping_max_pool", window=3, stride=2, ceil=True)),
    "reductions": lambda: mt.linear(mt.concat(
        mt.flatten(op("reduce_max", over="height")(x := picture())),
        mt.flatten(op("reduce_mean", over="width")(x)),
        mt.flatten(op("reduce_sum", over="channels")(x)), mt.reduce_max(x)), 3),
    "squeeze": lambda: pooled(squeeze, lambda x: x - mt.conv(x, 8), lambda x: x * mt.conv(x, 8)),
    "softmax": lambda: mt.linear(mt.concat(*(
        mt.flatten(op("reduce_sum", over=over)(x * mt.softmax(mt.conv(x, 8), over)))
        for x in (picture(),) for over in ("positions", "height", "width", "channels"))), 3),
    "moves": lambda: mt.linear(mt.flatten(mt.slice(picture(
        op("pad", top=1, left=2), op("channel_shuffle", groups=2)), 1, 5)), 3),
    "resizes": lambda: pooled(op("upsample", factor=2, factor_width=3),
                              mt.layer(mt.bilinear_resize, 11, 9),
                              mt.layer(mt.bilinear_resize, 20, 13, align_corners=True)),
    "concat": lambda: mt.linear(mt.global_average_pool(mt.concat(x := picture(), mt.conv(x, 4))), 3),
    "patches": lambda: mt.linear(mt.row(mt.layer_norm(attention()(mt.position_embedding(
        mt.prepend_rows(picture(lambda x: mt.reshape(x, 64, 8)), 2), 66))), 0), 3),
    "positions": lambda: mt.linear(mt.concat_positions(
        mt.sinusoidal_positions(x := mt.embedding(mt.indices(7, name="tokens"), 11, 8)),
        mt.position_embedding(x, 9),
        mt.sinusoidal_positions(x, base=100.0, interleaved=False)), 3),
    "rotary": lambda: mt.linear(rows(mt.layer(mt.rotary, heads=2), mt.layer(
        mt.rotary, heads=2, channels=2, interleaved=True, base=50.0), mt.layer(
            mt.rotary, heads=2, factors=[1.5, 8.0]), mt.layer(mt.rotary, factors=[2.5])), 3),
    "attention": lambda: mt.linear(rows(attention(), attention(causal=True)), 3),
    "grouped": lambda: mt.linear(rows(attention(kv_heads=1), attention(window=2),
                                      attention(window=3, causal=True)), 3),
    "rows": lambda: mt.linear(mt.scatter_rows(mt.linear(rows(mt.layer(
        mt.gather_rows, [6, 0, 0, 3, 1])), 8), [2, 0, 5, 3, 4], 7), 3),
    "columns": lambda: pooled(mt.layer(mt.gather_rows, [7, 7, 0]), mt.layer(
        mt.scatter_rows, [4, 0, 2], 5)),
    "given_rows": lambda: mt.linear(mt.scatter_rows(mt.linear(mt.gather_rows(
        rows(), mt.indices(5, name="from")), 8), mt.indices(5, name="to"), 6), 3),
    "biased": lambda: mt.linear(rows(attention(bias_width=7), attention(causal=True, bias_width=9),
                                     attention(bias_width=1, bias_height=7)), 3),
    "padded": lambda: mt.linear(rows(attention(lengths=True)), 3),
    "rnn": lambda: mt.linear(rows(recurrent("rnn", 1), op("reverse"), recurrent("rnn", 1)), 3),
    "lstm": lambda: mt.linear(rows(recurrent("lstm", 4, peepholes=True), recurrent("lstm", 4)), 3),
    "gru": lambda: mt.linear(rows(recurrent("gru", 3)), 3),
    "lengths": lambda: mt.linear(rows(recurrent("lstm", 4, lengths=True, start=True)), 3),
    "gru_start": lambda: mt.linear(rows(recurrent("gru", 3, lengths=True, start=True)), 3),
    "quantised": lambda: pooled(
        op("quantise", bits=3, exponent=-2, signed=True), mt.layer(mt.conv, 8), mt.batch_norm,
        op("quantise", bits=2, exponent=0, offset=True, learns="clip"), mt.layer(mt.conv, 8),
        op("rescale", bits=0)),
    "shared": lambda: pooled(lambda x: mt.conv(y := mt.conv(x, 8, name="twice"), 8, shares=y)),
}


# The least index of an input, and the first beyond the largest. Some places are none.
INDICES = {"lengths": (0, 8), "tokens": (0, 11), "from": (-1, 8), "to": (-1, 7)}


def network_of(name):
    result = NETWORKS[name]()
    loss = mt.cross_entropy(result, "labels")
    return mt.Network(result, loss=loss, name=name)


def batch_of(network, rng):
    """Arrays for all inputs: whole numbers, so that the network's rounding of them is exact."""
    arrays = {}
    for one in network.inputs:
        shape = (EXAMPLES, *one.shape)
        if one.elements == "uint8":
            arrays[one.name] = rng.integers(0, 256, shape, dtype=np.uint8)
        elif one.elements == "int16":
            arrays[one.name] = rng.integers(-64, 65, shape) / 64.0
        else:
            least, most = INDICES.get(one.name, (0, 3))
            arrays[one.name] = rng.integers(least, most, shape, dtype=np.int32)
    return arrays


def trainer_of(network, arrays, **settings):
    """A trainer whose parameters are no initial ones: offsets, slopes, ranges, statistics."""
    rng = np.random.default_rng(5)
    trainer = mt.Trainer(network, batch_size=EXAMPLES, seed=3, **settings)
    for one in network.parameters:
        numbers = trainer.values(one.name)
        noise = rng.uniform(0.05, 0.3, numbers.shape)
        trainer.set_values(one.name, numbers + noise)
    return trainer


def tensors_of(module, arrays):
    return [torch.as_tensor(arrays[name]) for name in module._inputs]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_module_computes_what_fp32_computes_and_gradients_flow(name):
    network = network_of(name)
    arrays = batch_of(network, np.random.default_rng(1))
    trainer = trainer_of(network, arrays, format="fp32", optimizer="sgd", weight_decay=0)
    module = trainer.to_module().eval()
    with torch.no_grad():
        found = module(*tensors_of(module, arrays)).numpy()
    inputs = {one: arrays[one] for one in module._inputs}
    expected = trainer.freeze(inputs).predict(inputs).reshape(found.shape)
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
    # The gradients of a step, in training mode; masks of dropout are not PyTorch's.
    if name == "dropout":
        return
    before = trainer.state_dict()
    loss = trainer.step(*(arrays[one.name] for one in network.inputs), learning_rate=1.0).loss
    module.train()
    logits = module(*tensors_of(module, arrays)).flatten(0, -2)
    theirs = functional.cross_entropy(logits, torch.as_tensor(arrays["labels"]).long().flatten())
    theirs.backward()
    assert loss == pytest.approx(theirs.item(), rel=1e-4)
    names = dict(module.named_parameters())
    assert {one.name for one in network.parameters} == set(module.state_dict())
    gradients = {one: before[one] - trainer.values(one) for one in names}
    floor = max(np.abs(gradient).max() for gradient in gradients.values()) / 100
    for one, gradient in gradients.items():
        difference = np.abs(gradient - names[one].grad.numpy()).max()
        assert difference <= 1e-3 * max(np.abs(gradient).max(), floor), one


def test_every_operator_is_expressed_or_refused_by_name():
    from mantissa._torch_operators import OPERATORS

    with open("docs/operators.md", encoding="utf-8") as file:
        text = file.read()
    known = set()
    for line in text.split("\n"):
        if line.startswith("| `"):
            known |= {word.strip("` ,") for word in line.split("|")[1].split("`") if word.strip("` ,")}
    covered = {node["op"] for name in NETWORKS for node in network_of(name).nodes}
    refused = {"scale_offset", "rescaled_convolution", "rescaled_linear", "add_half_up", "widen"}
    assert refused <= known
    assert set(OPERATORS) & refused == set()
    assert known - refused <= set(OPERATORS)
    forms_of_others = {"batch_norm_inverted", "norm_relu", "exact_average_pool",
                       "rescaled_global_average", "identity", "requantise"}
    assert set(OPERATORS) - forms_of_others <= covered


def test_names_are_the_networks_and_numbers_go_both_ways():
    network = network_of("batch_norm")
    arrays = batch_of(network, np.random.default_rng(1))
    trainer = trainer_of(network, arrays, format="bfp8")
    module = trainer.to_module()
    state = trainer.state_dict()
    assert list(state) == [one.name for one in network.parameters]
    assert {name: tensor.shape for name, tensor in module.state_dict().items()} == {
        name: array.shape for name, array in state.items()}
    for name, tensor in module.state_dict().items():
        assert (tensor.numpy() == state[name]).all(), name
    step = 2.0 ** trainer.exponents("convolution1.weights")[0]
    assert (state["convolution1.weights"] == trainer.mantissas("convolution1.weights") * step).all()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    module.train()(*tensors_of(module, arrays)).square().sum().backward()
    mean = module.state_dict()["batch_norm1.running_mean"].clone()
    optimizer.step()
    module(*tensors_of(module, arrays))
    assert (module.state_dict()["batch_norm1.running_mean"] != mean).any()
    taken = trainer.load_state_dict(module.state_dict())
    assert len(taken.taken) == len(state) and not taken.initial and not taken.left_over
    numbers = module.state_dict()["convolution1.weights"].numpy()
    step = 2.0 ** trainer.exponents("convolution1.weights")[0]
    assert np.abs(trainer.values("convolution1.weights") - numbers).max() <= step / 2


def test_a_state_is_checked_before_anything_changes():
    network = network_of("linear")
    trainer = mt.Trainer(network, batch_size=4)
    before, state = trainer.weights_sha256, trainer.state_dict()
    for wrong, text in (({}, "lacks linear1.weights, linear1.bias"),
                        ({**state, "more": np.zeros(2)}, "the network lacks, more"),
                        ({**state, "linear1.bias": np.zeros(4)}, r"is \[3\], and \[4\] is given"),
                        ({**state, "linear1.bias": np.array([1, np.nan, 0])}, "not finite")):
        with pytest.raises(mt.InvalidInput, match=text):
            trainer.load_state_dict(wrong)
    assert trainer.weights_sha256 == before
    taken = trainer.load_state_dict({"linear1.bias": np.ones(3), "more": np.zeros(2)}, strict=False)
    assert taken == mt.Taken(["linear1.bias [3]"], ["linear1.weights [3, 32]"], ["more"])
    assert (trainer.values("linear1.bias") == 1).all()


@pytest.mark.parametrize("format", ["bfp8", "dfp8", "bfp:block=channel"])
def test_a_state_is_rounded_as_a_run_rounds_what_it_starts_from(format, tmp_path):
    network = network_of("batch_norm")
    arrays = batch_of(network, np.random.default_rng(1))
    source = trainer_of(network, arrays, format="fp32")
    source.save(tmp_path / "checkpoint-00000000.safetensors")
    one, other = (mt.Trainer(network, format=format, batch_size=EXAMPLES) for _ in range(2))
    one.take(tmp_path / "checkpoint-00000000.safetensors")
    other.load_state_dict(source.state_dict())
    for name in source.state_dict():
        assert (one.values(name).astype(np.float32) == other.values(name).astype(np.float32)).all(), name


def test_modules_are_copied_moved_and_kept():
    network = network_of("batch_norm")
    arrays = batch_of(network, np.random.default_rng(1))
    module = mt.Trainer(network, batch_size=4).to_module().eval()
    expected = module(*tensors_of(module, arrays))
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(*tensors_of(module, arrays)), expected)
    doubled = copy.deepcopy(module).double()(*tensors_of(module, arrays))
    assert doubled.dtype == torch.float64
    assert (doubled - expected).abs().max() <= 1e-5 * expected.abs().max()
    with pytest.raises(mt.InvalidInput, match=r"takes 1 inputs \(pixels\), and there are 2"):
        module(torch.zeros(1), torch.zeros(1))


def test_names_of_layers_may_be_names_of_methods():
    h = mt.conv(mt.input(8, 8, 1), 4, name="train")
    h = mt.relu(mt.batch_norm(h, name="train.float"))
    network = mt.Network(mt.linear(mt.global_average_pool(h), 3, name="forward"))
    module = mt.Trainer(network, batch_size=4).to_module()
    assert {one.name for one in network.parameters} == set(module.state_dict())
    module.train()(torch.zeros(2, 8, 8, 1)).sum().backward()


def test_frozen_weights_stay_and_losses_are_no_part():
    network = network_of("batch_norm").frozen("convolution1.*")
    module = mt.Trainer(network, batch_size=4).to_module()
    for name, parameter in module.named_parameters():
        assert parameter.requires_grad != name.startswith("convolution1."), name
    assert module._inputs == ["pixels"] and "labels" in network.to_json()


def test_runs_checkpoints_models_and_files(idx_folder, tmp_path):
    folder, arrays = idx_folder
    out = tmp_path / "run"
    mt.train(model="lenet5", data=str(folder), steps=4, batch_size=50, out=str(out))
    x = arrays["t10k"][0]
    pixels = torch.as_tensor(x)
    run = mantissa.torch.to_module(out).eval()
    checkpoint = mantissa.torch.to_module(sorted(out.glob("checkpoint-*"))[-1]).eval()
    network = mantissa.torch.to_module(mt.Network.from_trained(out)).eval()
    with torch.no_grad():
        logits = run(pixels)
        assert torch.equal(logits, checkpoint(pixels)) and torch.equal(logits, network(pixels))
    found = mt.Model.load(out)
    expected = found.predict(x)
    assert np.abs(logits.numpy() - expected).max() <= 0.1 * np.abs(expected).max()
    with torch.no_grad():  # lenet5 has no batch norms
        again = found.to_module().eval()(pixels).numpy()
    assert np.abs(again - logits.numpy()).max() <= 1e-5 * np.abs(again).max()
    with pytest.raises(mt.InvalidInput, match="this network has no weights"):
        mantissa.torch.to_module(network_of("linear"))


def test_a_frozen_model_with_folded_norms_is_refused(trainer, digits):
    with pytest.raises(mt.InvalidInput, match="batch_norm1.scale.*give the run's folder, a checkpoint or"):
        trainer.freeze(digits).to_module()
