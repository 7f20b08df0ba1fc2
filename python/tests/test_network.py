import pickle

import numpy as np
import pytest

import mantissa as mt


def test_shapes_are_known_at_once():
    image = mt.input(9, 9, 3)
    assert mt.conv(image, 16, stride=2).shape == (5, 5, 16)
    assert mt.conv(image, 16, 1, padding=0).shape == (9, 9, 16)
    assert mt.flatten(mt.max_pool(mt.conv(image, 4))).shape == (64,)
    assert mt.concat(mt.conv(image, 4), mt.conv(image, 3)).shape == (9, 9, 7)
    assert mt.linear(mt.conv(image, 4), 10).shape == (10,)


def test_errors_arise_where_the_operator_is_called():
    image = mt.input(6, 6, 1)
    with pytest.raises(mt.InvalidInput, match="kernel of 9 does not fit"):
        mt.conv(image, 3, 9, padding=0)
    with pytest.raises(mt.InvalidInput, match="'stem'.*chanels"):
        mt.op("convolution", image, name="stem", chanels=3)
    with pytest.raises(mt.InvalidInput, match="no value of a network"):
        mt.relu(3)
    with pytest.raises(mt.InvalidInput):
        mt.conv(image, 4) + mt.conv(image, 5)
    with pytest.raises(ValueError):  # InvalidInput is one
        mt.numbers(3)


def test_a_failed_call_leaves_the_values_usable():
    image = mt.input(8, 8, 1)
    h = mt.conv(image, 4)
    with pytest.raises(mt.InvalidInput):
        mt.max_pool(h, 20)
    net = mt.Network(mt.linear(mt.global_average_pool(h), 3))
    assert [node["op"] for node in net.nodes] == [
        "input", "normalise_input", "convolution", "global_average_pool", "linear", "input",
        "softmax_cross_entropy"]


def test_only_what_outputs_need_is_part_of_the_network():
    image = mt.input(8, 8, 1)
    h = mt.conv(image, 4)
    mt.conv(h, 99)
    net = mt.Network(mt.linear(mt.global_average_pool(h), 3))
    assert sum(node["op"] == "convolution" for node in net.nodes) == 1


def test_several_inputs_outputs_and_losses():
    picture, extra = mt.input(8, 8, 1), mt.numbers(3, largest=4, name="extra")
    h = mt.concat(mt.flatten(mt.relu(mt.conv(picture, 2))), mt.relu(mt.linear(extra, 8)))
    kind, size = mt.linear(h, 5), mt.linear(h, 1)
    net = mt.Network(kind, size, loss=[mt.cross_entropy(kind, "kind"),
                                       mt.squared_error(size, "size", largest=10)])
    assert [one.name for one in net.inputs] == ["pixels", "extra", "kind", "size"]
    assert net.inputs[1].elements == "int16" and net.inputs[1].exponent == -12


def test_shared_parameters_are_one():
    image = mt.input(8, 8, 4)
    first = mt.conv(image, 4, name="once")
    again = mt.conv(first, 4, shares=first)
    net = mt.Network(mt.linear(mt.global_average_pool(again), 2))
    weights = [one.name for one in net.parameters if one.name.endswith("weights")]
    assert len(weights) == 2


def test_sequential_is_a_function():
    block = mt.Sequential(mt.layer(mt.conv, 8), mt.batch_norm, mt.relu)
    body = mt.Sequential(block, block, mt.global_average_pool, mt.layer(mt.linear, 10))
    assert body(mt.input(8, 8, 1)).shape == (10,)


def test_json_pickle_and_equality(network, tmp_path):
    assert mt.Network.from_json(network.to_json()) == network
    (tmp_path / "net.json").write_text(network.to_json())
    assert mt.Network.read(tmp_path / "net.json") == network
    assert pickle.loads(pickle.dumps(network)) == network
    assert network.frozen("convolution1*,batch_norm1*") != network


def test_how_it_is_shown(network):
    assert "corners: 1," in repr(network)
    assert "convolution2 = convolution(relu1, channels=16, stride=2" in repr(network)
    assert "<table>" in network._repr_html_()


def test_built_in_networks():
    assert "resnet20" in mt.models.names() and "resnet20" in dir(mt.models)
    net = mt.models.resnet8(pixels=(32, 32, 3), classes=7, means=[1, 2, 3])
    assert net.inputs[0].shape == (32, 32, 3)
    with pytest.raises(AttributeError, match="resnet8"):
        mt.models.resnet9  # noqa: B018


def test_formats_are_texts_or_objects(network):
    assert str(mt.bfp()) == "bfp8" and str(mt.fp32) == "fp32"
    narrow = mt.bfp(weights=4, activations=4, unsigned=True)
    assert str(narrow) == "bfp:w=4,a=4,unsigned=yes" and narrow == mt.bfp(w=4, a=4, unsigned=True)
    assert str(narrow.replace(activations=8)) == "bfp:w=4,a=8,unsigned=yes"
    hashes = {mt.Trainer(network, format=one, batch_size=8).weights_sha256
              for one in (narrow, str(narrow))}
    assert len(hashes) == 1
    with pytest.raises(mt.InvalidInput, match="wights"):
        mt.Trainer(network, format=mt.bfp(wights=4))


def gates(name, count):
    return mt.linear(mt.embedding(mt.indices(count, name=name), 5, 8), 32, least_bits=16)


def test_recurrent_layers_take_lengths_and_states():
    """A decoder that starts with the last h of an encoder."""
    length, all_positions = mt.indices(name="length"), mt.indices(name="positions")
    encoded = mt.lstm(gates("source", 6), lengths=length, peepholes=True)
    last = mt.slice(mt.op("reshape", encoded, channels=48), 40, 8)
    decoded = mt.lstm(gates("target", 4), lengths=all_positions, start=last,
                      start_cell=mt.linear(last, 8))
    assert encoded.shape == (6, 8) and last.shape == (8,) and decoded.shape == (4, 8)
    net = mt.Network(mt.linear(decoded, 5))
    assert mt.Network.from_json(net.to_json()) == net
    with pytest.raises(mt.InvalidInput, match="h and the cell, or with neither"):
        mt.lstm(gates("source", 6), lengths=length, start=last)
    with pytest.raises(mt.InvalidInput, match="wants lengths too"):
        mt.lstm(gates("source", 6), start=last, start_cell=last)
    with pytest.raises(mt.InvalidInput, match=r"wants a state of \[8\] at the start, got \[5\]"):
        mt.lstm(gates("source", 6), lengths=length, start=last, start_cell=mt.linear(last, 5))


def test_norms_slopes_and_reductions_of_pictures():
    """Where a bright square is: up or down."""
    x = mt.input(8, 8, 1)
    h = mt.prelu(mt.group_norm(mt.conv(x, 8), 4))
    gate = mt.mish(mt.conv(mt.elu(mt.layer_norm(h)), 8))
    h = mt.softplus(gate - h)
    rows = mt.reduce_mean(h, "width")
    assert rows.shape == (8, 1, 8) and mt.reduce_max(h).shape == (8,)
    assert mt.reduce_sum(h, "channels").shape == (8, 8, 1)
    net = mt.Network(mt.linear(rows, 2), name="up_or_down")
    pixels = np.zeros((64, 8, 8, 1), np.uint8)
    labels = np.arange(64, dtype=np.int32) % 2
    for i in range(64):
        top = i // 2 % 2 + 4 * labels[i]
        pixels[i, top:top + 3, i % 5:i % 5 + 3] = 200
    trainer = mt.Trainer(net, optimizer="adam", learning_rate=0.01, batch_size=16)
    history = trainer.fit({"pixels": pixels, "labels": labels}, epochs=15, progress=False)
    assert history[-1].accuracy > 0.95


def test_positions_without_parameters():
    x = mt.linear(mt.embedding(mt.indices(6, name="tokens"), 9, 8), 12)
    for turned in (mt.rotary(x, heads=2), mt.rotary(x, heads=3, channels=2, base=500, interleaved=True),
                   mt.sinusoidal_positions(x), mt.sinusoidal_positions(x, base=50, interleaved=False)):
        net = mt.Network(mt.linear(turned, 9))
        assert mt.Network.from_json(net.to_json()) == net and turned.shape == (6, 12)
    with pytest.raises(mt.InvalidInput, match="turns pairs of a head's 3 channels"):
        mt.rotary(x, heads=4)
    with pytest.raises(mt.InvalidInput, match="wants an even number of channels"):
        mt.sinusoidal_positions(mt.linear(x, 7))


def test_softmax_and_rows():
    """Which of four rows is the bright one, by sums whose weights are a softmax."""
    x = mt.input(4, 6, 1)
    rows = mt.linear(mt.reshape(x, 4, 6), 8)
    shares = mt.softmax(mt.linear(rows, 8), "positions")
    assert shares.shape == (4, 8) and mt.softmax(mt.conv(x, 4), "width").shape == (4, 6, 4)
    pooled = mt.reduce_sum(rows * shares)
    taken = mt.gather_rows(rows, [3, 0, 0, 2, 1])
    assert taken.shape == (5, 8)
    put = mt.scatter_rows(taken, [6, 2, 0, 1, 3], 7)
    assert put.shape == (7, 8)
    net = mt.Network(mt.linear(mt.concat(pooled, mt.flatten(put)), 4), name="bright_row")
    assert mt.Network.from_json(net.to_json()) == net
    pixels = np.random.default_rng(2).integers(0, 60, (256, 4, 6, 1), np.uint8)
    labels = np.arange(256, dtype=np.int32) % 4
    pixels[np.arange(256), labels] += 150
    trainer = mt.Trainer(net, optimizer="adam", learning_rate=0.01, batch_size=32)
    history = trainer.fit({"pixels": pixels, "labels": labels}, epochs=10, progress=False)
    assert history[-1].accuracy > 0.95
    with pytest.raises(mt.InvalidInput, match="names row 4 of 4 positions"):
        mt.gather_rows(rows, [0, 4])
    with pytest.raises(mt.InvalidInput, match="two rows at position 1"):
        mt.scatter_rows(rows, [0, 1, 1, 2], 5)


def test_rows_by_indices_of_each_example():
    """The label is the class of the row that the example points at."""
    x = mt.numbers(5, 4, name="x", largest=1)
    chosen = mt.gather_rows(x, mt.indices(1, name="place"))
    assert chosen.shape == (1, 4)
    assert mt.scatter_rows(chosen, mt.indices(1, name="to"), 3).shape == (3, 4)
    net = mt.Network(mt.linear(mt.flatten(chosen), 4))
    random = np.random.default_rng(3)
    kinds = random.integers(0, 4, (256, 5))
    data = {"x": np.eye(4, dtype=np.float32)[kinds],
            "place": random.integers(0, 5, (256, 1)).astype(np.int32)}
    data["labels"] = kinds[np.arange(256), data["place"][:, 0]].astype(np.int32)
    trainer = mt.Trainer(net, optimizer="adam", learning_rate=0.02, batch_size=32)
    assert trainer.fit(data, epochs=12, progress=False)[-1].accuracy > 0.95


def test_biased_attention_and_grouped_upsampling():
    picture = mt.input(4, 6, 1)
    up = mt.transposed_conv(mt.conv(picture, 8), 12, groups=4)
    assert up.shape == (8, 12, 12)
    rows = mt.reshape(mt.conv(up, 8, kernel=2, stride=2, padding=0), 24, 8)
    q, k, v = (mt.linear(rows, 8) for _ in range(3))
    for bias, numbers in ((True, 47), (30, 59), ((4, 6), 77)):
        net = mt.Network(mt.linear(mt.flatten(mt.attention(q, k, v, heads=2, bias=bias)), 3))
        shapes = {p.name: tuple(p.shape) for p in net.parameters}
        assert [shape for name, shape in shapes.items() if name.startswith("attention")] == [
            (2, numbers)]
        assert mt.Network.from_json(net.to_json()) == net
    with pytest.raises(mt.InvalidInput, match="has biases for 5 x 5 positions, and 24 of them"):
        mt.attention(q, k, v, heads=2, bias=(5, 5))
    with pytest.raises(mt.InvalidInput, match="wants groups that divide 8 input and 10 output"):
        mt.transposed_conv(mt.conv(picture, 8), 10, groups=4)


def test_a_vision_transformer_learns():
    picture = mt.input(8, 8, 1)
    patches = mt.reshape(mt.conv(picture, 16, kernel=4, stride=4, padding=0), 4, 16)
    h = mt.position_embedding(mt.prepend_rows(patches, least_bits=16), 5, least_bits=16)
    q, k, v = mt.linear(mt.layer_norm(h), 16), mt.linear(h, 8), mt.linear(h, 8)
    h = mt.add(h, mt.linear(mt.attention(q, k, v, heads=4, kv_heads=2, window=4), 16, least_bits=16),
               least_bits=16)
    assert mt.concat_positions(h, patches).shape == (9, 16)
    net = mt.Network(mt.linear(mt.flatten(mt.row(mt.layer_norm(h))), 4))
    assert mt.Network.from_json(net.to_json()) == net
    labels = np.arange(256) % 4
    pictures = np.random.default_rng(1).integers(0, 60, (256, 8, 8, 1), np.uint8)
    for picture, label in zip(pictures, labels):
        picture[4 * (label // 2):][:4, 4 * (label % 2):][:, :4] += 120
    trainer = mt.Trainer(net, optimizer="adam", learning_rate=0.01, batch_size=32)
    history = trainer.fit({"pixels": pictures, "labels": labels.astype(np.int32)}, epochs=8,
                          progress=False)
    assert history[-1].accuracy > 0.95
    with pytest.raises(mt.InvalidInput, match="wants position 9"):
        mt.row(h, 9)
    with pytest.raises(mt.InvalidInput, match="one to four sizes"):
        mt.reshape(h, 1, 1, 1, 5, 16)


def test_layers_of_volumes_name_what_does_not_fit():
    volume = mt.numbers(6, 8, 10, 3, exponent=-6)
    assert mt.conv3d(volume, 4, (3, 1, 5), stride=(2, 1, 1)).shape == (3, 8, 10, 4)
    assert mt.max_pool3d(volume, (3, 2, 1), stride=(1, 2, 1), padding=(1, 0, 0)).shape == (6, 4, 10, 3)
    with pytest.raises(mt.InvalidInput, match="wants .depth, height, width, channels."):
        mt.conv3d(mt.input(8, 8, 1), 4)
    with pytest.raises(mt.InvalidInput, match="dilations of height and width, 1 and 2"):
        mt.conv3d(volume, 4, dilation=(1, 1, 2))
    with pytest.raises(mt.InvalidInput, match="does not fit a depth of 6"):
        mt.op("depth_taps", volume, kernel=7)


def test_a_sequence_model_learns():
    """The next token of 0 1 2 3 0 1 2 3 ..., from anywhere."""
    tokens = mt.indices(12, name="tokens")
    h = mt.position_embedding(mt.embedding(tokens, 4, 16), 12, least_bits=16)
    q, k, v = (mt.linear(mt.layer_norm(h), 16) for _ in range(3))
    h = mt.add(h, mt.linear(mt.attention(q, k, v, heads=2, causal=True), 16, least_bits=16),
               least_bits=16)
    up = mt.gelu(mt.linear(mt.rms_norm(h), 32, least_bits=16))
    h = mt.add(h, mt.linear(up, 16, least_bits=16), least_bits=16)
    net = mt.Network(mt.linear(mt.layer_norm(h), 4), name="counter")
    starts = np.arange(64) % 4
    sequence = (starts[:, None] + np.arange(13)) % 4
    trainer = mt.Trainer(net, optimizer="adam", learning_rate=0.01, batch_size=16)
    history = trainer.fit({"tokens": sequence[:, :-1].copy(), "labels": sequence[:, 1:].copy()},
                          epochs=20, progress=False)
    assert history[-1].accuracy > 0.95
