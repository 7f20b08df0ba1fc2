"""A residual network on scikit-learn's digits: trained, stopped early, kept, loaded.

  pip install scikit-learn
  python3 digits.py [--format bfp8] [--epochs 12]
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import mantissa as mt


def block(x: mt.Var, channels: int, stride: int = 1) -> mt.Var:
    h = mt.relu(mt.batch_norm(mt.conv(x, channels, stride=stride)))
    h = mt.batch_norm(mt.conv(h, channels))
    if x.shape != h.shape:
        x = mt.batch_norm(mt.conv(x, channels, 1, stride=stride))
    return mt.relu(h + x)


def network() -> mt.Network:
    h = block(block(mt.input(8, 8, 1), 16), 32, stride=2)
    return mt.Network(mt.linear(mt.global_average_pool(h), 10), name="digits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", default="bfp8")
    parser.add_argument("--epochs", type=int, default=12)
    arguments = parser.parse_args()

    digits = load_digits()
    pictures = (16 * digits.images).clip(0, 255).astype(np.uint8)[..., np.newaxis]
    parts = train_test_split(pictures, digits.target, test_size=0.2, random_state=1)
    train, test = mt.Data(parts[0], parts[2]), mt.Data(parts[1], parts[3])

    trainer = mt.Trainer(network(), format=arguments.format, batch_size=50, learning_rate=0.05)
    print(trainer.plan)
    trainer.fit(train, epochs=arguments.epochs, validation=test, callbacks=[mt.EarlyStop(4)])
    trainer.freeze(train).save("digits.safetensors")

    model = mt.Model.load("digits.safetensors")
    print(f"{100 * model.evaluate(test).accuracy:.2f} % of {len(test)} test examples")


if __name__ == "__main__":
    main()
