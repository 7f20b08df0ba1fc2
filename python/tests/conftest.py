import os
import pathlib

import numpy as np
import pytest

import mantissa as mt


@pytest.fixture(scope="session")
def digits():
    """Pictures of four bright corners, one for each class, in noise: uint8 and int32."""
    rng = np.random.default_rng(7)
    y = rng.integers(0, 4, 400).astype(np.int32)
    x = rng.integers(0, 60, (400, 8, 8, 1), dtype=np.uint8)
    for picture, label in zip(x, y):
        row, column = 4 * (label // 2), 4 * (label % 2)
        picture[row:row + 4, column:column + 4] += 120
    return x, y


@pytest.fixture(scope="session")
def network():
    image = mt.input(8, 8, 1)
    h = mt.relu(mt.batch_norm(mt.conv(image, 8)))
    h = mt.relu(mt.batch_norm(mt.conv(h, 16, stride=2)))
    return mt.Network(mt.linear(mt.global_average_pool(h), 4), name="corners")


@pytest.fixture
def trainer(network):
    return mt.Trainer(network, batch_size=40, learning_rate=0.05, seed=1)


@pytest.fixture(scope="session")
def program():
    """The command line's program, of the same build."""
    path = os.environ.get("MANTISSA")
    if not path:
        pytest.skip("MANTISSA does not name the program")
    return str(pathlib.Path(path).resolve())


@pytest.fixture(scope="session")
def idx_folder(tmp_path_factory):
    """A data set of 600 and 100 pictures as IDX files, and its arrays."""
    rng = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("idx")
    arrays = {}
    for name, count in (("train", 600), ("t10k", 100)):
        y = rng.integers(0, 10, count).astype(np.uint8)
        x = rng.integers(0, 100, (count, 28, 28), dtype=np.uint8)
        x[np.arange(count), 2 * y + 2] += 150
        for kind, content, magic in (("images-idx3", x, 3), ("labels-idx1", y, 1)):
            head = bytes([0, 0, 8, magic]) + b"".join(n.to_bytes(4, "big") for n in content.shape)
            (folder / f"{name}-{kind}-ubyte").write_bytes(head + content.tobytes())
        arrays[name] = (x[..., None], y.astype(np.int32))
    return folder, arrays
