"""Numbers from numbers: the same network in integers and in fp32, from the same weights.

  python3 regression.py
"""

import numpy as np

import mantissa as mt


def network(features: int) -> mt.Network:
    h = mt.numbers(features, largest=8, name="features")
    for channels in (64, 32):
        h = mt.relu(mt.linear(h, channels))
    result = mt.linear(h, 1)
    return mt.Network(result, loss=mt.squared_error(result, "target", largest=8))


def main() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 5)).clip(-7, 7)
    y = np.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3] / 2 + rng.normal(size=(4000, 1)) / 10
    train, test = slice(0, 3000), slice(3000, 4000)
    for number_format in (mt.bfp(), mt.dfp(), mt.fp32):
        trainer = mt.Trainer(network(5), format=number_format, optimizer="adam",
                             learning_rate=0.01, batch_size=50)
        trainer.fit({"features": x[train], "target": y[train]}, epochs=20, progress=False)
        model = trainer.freeze({"features": x[train]})
        error = model.predict({"features": x[test]}) - y[test]
        print(f"{number_format!s:6} R2 {1 - error.var() / y[test].var():.4f}")


if __name__ == "__main__":
    main()
