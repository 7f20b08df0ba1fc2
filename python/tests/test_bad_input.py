"""Arrays that were spoilt in 260 ways: each is an exception that names the array, or is trained on."""

import numpy as np
import pytest

import mantissa as mt


def pictures():
    rng = np.random.default_rng(1)
    net = mt.Network(mt.linear(mt.global_average_pool(mt.conv(mt.input(6, 6, 1, name="pixels"), 4)), 3))
    return net, {"pixels": rng.integers(0, 255, (40, 6, 6, 1), dtype=np.uint8),
                 "labels": rng.integers(0, 3, 40).astype(np.int32)}


def numbers():
    rng = np.random.default_rng(2)
    result = mt.linear(mt.relu(mt.linear(mt.numbers(3, largest=8, name="features"), 8)), 1)
    net = mt.Network(result, loss=mt.squared_error(result, "target", largest=8, weights="weights"))
    return net, {"features": rng.normal(size=(40, 3)), "target": rng.normal(size=(40, 1)),
                 "weights": rng.uniform(0, 31, 40)}


def put(array, rng, value):
    spoilt = array.copy()
    spoilt.flat[rng.integers(spoilt.size)] = value
    return spoilt


def strided(array, rng):
    wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype) if array.ndim > 1 else (
        np.zeros(2 * len(array), array.dtype))
    return wide[..., ::2]


def readonly(array, rng):
    spoilt = array.copy()
    spoilt.flags.writeable = False
    return spoilt


def unaligned(array, rng):
    data = np.zeros(array.nbytes + 1, np.uint8)
    return np.frombuffer(data.data, array.dtype, array.size, offset=1).reshape(array.shape)


# A change of one array, and whether it must be refused: always, never, or for some arrays.
SPOIL = {
    "empty": (lambda a, rng: a[:0], "always"),
    "no dimension": (lambda a, rng: a.ravel()[0], "always"),
    "a dimension more": (lambda a, rng: np.stack([a, a], axis=-1), "always"),
    "fewer examples": (lambda a, rng: a[:rng.integers(1, 40)], "always"),
    "other sizes": (lambda a, rng: np.concatenate([a, a], axis=-1), "always"),
    "of objects": (lambda a, rng: a.astype(object), "always"),
    "of texts": (lambda a, rng: a.astype(str), "always"),
    "of complex numbers": (lambda a, rng: a.astype(complex), "always"),
    "of dates": (lambda a, rng: a.astype("int64").astype("datetime64[s]"), "always"),
    "records": (lambda a, rng: a.view([("field", a.dtype)]), "always"),
    "none": (lambda a, rng: None, "always"),
    "a dict": (lambda a, rng: {"array": a}, "always"),
    "backwards": (lambda a, rng: a[::-1], "some"),
    "strided": (strided, "some"),
    "transposed": (lambda a, rng: np.asfortranarray(a), "some"),
    "other byte order": (lambda a, rng: a.astype(a.dtype.newbyteorder(">")), "some"),
    "unaligned": (unaligned, "some"),
    "read only": (readonly, "never"),
    "masked": (lambda a, rng: np.ma.masked_array(a, mask=rng.integers(0, 2, a.shape)), "some"),
    "of truth values": (lambda a, rng: a.astype(bool), "some"),
    "of half floats": (lambda a, rng: a.astype(np.float16), "some"),
    "a NaN": (lambda a, rng: put(a.astype(float), rng, np.nan), "always"),
    "an infinity": (lambda a, rng: put(a.astype(float), rng, np.inf), "always"),
    "a huge number": (lambda a, rng: put(a.astype(float), rng, 1e300), "always"),
    "a large whole number": (lambda a, rng: put(a.astype(np.int64), rng, 2**40), "always"),
    "a negative number": (lambda a, rng: put(a.astype(np.int64), rng, -2), "some"),
}


def cases():
    for kind in (pictures, numbers):
        for name in kind()[1]:
            for spoil, (function, refused) in SPOIL.items():
                for seed in (1, 2):
                    yield kind, name, spoil, function, refused, seed


def trained(net, arrays):
    trainer = mt.Trainer(net, batch_size=10, learning_rate=0.01, threads=1)
    trainer.fit(arrays, epochs=1, progress=False)


def test_spoilt_arrays():
    count = 0
    for kind, name, spoil, function, refused, seed in cases():
        net, arrays = kind()
        arrays[name] = function(arrays[name], np.random.default_rng(seed))
        what = f"{name}: {spoil}"
        count += 1
        try:
            trained(net, arrays)
        except mt.Error as error:
            assert refused != "never", f"{what}: {error}"
            assert name in str(error), f"{what}: {error}"
            continue
        assert refused != "always", f"{what} was accepted"
    assert count >= 200


def test_the_remedy_is_named():
    net, arrays = pictures()
    with pytest.raises(mt.InvalidInput, match="copy=True"):
        trained(net, {**arrays, "pixels": arrays["pixels"][::-1]})
    with pytest.raises(mt.InvalidInput, match="labels.*3"):
        trained(net, {**arrays, "labels": arrays["labels"] + 1})
    net, arrays = numbers()
    with pytest.raises(mt.InvalidInput, match=r"weights.* below 2\^5"):
        trained(net, {**arrays, "weights": arrays["weights"] + 31})
