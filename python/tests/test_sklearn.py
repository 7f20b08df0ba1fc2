import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.datasets import load_digits, make_friedman1  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

import mantissa as mt  # noqa: E402
from mantissa.sklearn import Classifier, Regressor  # noqa: E402


def test_classes_of_any_kind():
    x, y = load_digits(return_X_y=True)
    names = np.array([f"digit {label}" for label in y])
    train_x, test_x, train_y, test_y = train_test_split(x, names, random_state=0)
    model = make_pipeline(StandardScaler(), Classifier(epochs=30)).fit(train_x, train_y)
    assert model.score(test_x, test_y) > 0.96
    assert model.predict_proba(test_x).sum(axis=1) == pytest.approx(1)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(test_x) == model.predict(test_x)).all()


def test_numbers():
    x, y = make_friedman1(4000, noise=1.0, random_state=0)
    model = make_pipeline(StandardScaler(), Regressor()).fit(x[:3000], y[:3000])
    assert model.score(x[3000:], y[3000:]) > 0.93
    both = Regressor(epochs=20).fit(StandardScaler().fit_transform(x), np.stack([y, -y], axis=1))
    assert both.predict(x[:5]).shape == (5, 2)


def test_search_clone_and_jobs():
    x, y = load_digits(return_X_y=True)
    search = GridSearchCV(Classifier(epochs=5), {"hidden": [(20,), (50,)], "format": ["bfp8"]},
                          cv=2, n_jobs=2).fit(x / 16, y)
    assert search.best_score_ > 0.6 and clone(search.best_estimator_).hidden in [(20,), (50,)]
    assert cross_val_score(Classifier(epochs=5, body=lambda v: mt.relu(mt.linear(v, 9))), x / 16, y,
                           cv=2).min() > 0.3


@pytest.mark.parametrize("kind", [Classifier, Regressor])
def test_scikit_learns_own_checks(kind):
    # Steps take batches: an example of weight 2 is not one that is drawn twice.
    batches = {"check_sample_weight_equivalence_on_dense_data": "weights act within batches"}
    results = check_estimator(kind(batch_size=16, epochs=60), on_fail=None,
                              expected_failed_checks=batches)
    failed = {one["check_name"]: str(one["exception"]) for one in results
              if one["status"] == "failed"}
    assert failed == {}


def test_weights_of_classes_and_samples():
    generator = np.random.default_rng(1)
    x = generator.normal(size=(1000, 2))
    y = np.where(x[:, 0] + generator.normal(size=1000) > 2.2, "rare", "usual")

    def recall(model, **weights) -> float:
        found = model.fit(x, y, **weights).predict(x)
        return float((found[y == "rare"] == "rare").mean())

    plain = recall(Classifier((8,), epochs=10))
    balanced = recall(Classifier((8,), epochs=10, class_weight="balanced"))
    by_sample = recall(Classifier((8,), epochs=10), sample_weight=np.where(y == "rare", 10, 1))
    assert min(balanced, by_sample) > plain + 0.2
    heavy = Regressor((8,), epochs=20).fit(x[:, :1], x[:, 1], sample_weight=np.where(
        x[:, 1] > 0, 1, 0))
    assert heavy.predict(x[:, :1]).mean() > 0.4  # only what lies above 0 counted
