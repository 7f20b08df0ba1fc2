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
    # Steps take batches: an example of weight 2 is not one that is drawn twice. Some checks set
    # max_iter, which must not stand beside epochs.
    batches = {"check_sample_weight_equivalence_on_dense_data": "weights act within batches"}
    results = check_estimator(kind(batch_size=16, max_iter=60), on_fail=None,
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


def problem(count=600):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(count, 4))
    return x, (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(int)


def accuracy(x, y):
    return Classifier((32,), epochs=30).fit(x[:400], y[:400]).score(x[400:], y[400:])


def test_a_column_of_one_number_but_for_rounding():
    x, y = problem()
    plain = accuracy(x, y)
    for value in (0.1, 1e6, -3e-9):
        column = np.full(600, value)
        column[7] = np.nextafter(column[7], 1e9)  # one of 600 is 25 deviations away
        assert accuracy(np.column_stack([x, column]), y) == pytest.approx(plain, abs=0.03)
    noise = 20 + 4e-15 * np.random.default_rng(1).integers(-1, 2, 600)
    model = Classifier((32,), epochs=5).fit(np.column_stack([x, noise]), y)
    # It is left out: whatever stands there later changes nothing.
    other = np.column_stack([x, np.linspace(-1e6, 1e6, 600)])
    assert (model.predict_proba(other) == model.predict_proba(np.column_stack([x, noise]))).all()


def test_a_column_that_reaches_far_leaves_the_others_their_bits():
    x, y = problem()
    plain = accuracy(x, y)
    far = np.zeros(600)
    far[3] = 1e12
    assert accuracy(np.column_stack([x, far]), y) == pytest.approx(plain, abs=0.03)
    lognormal = np.exp(6 * np.random.default_rng(3).normal(size=600))
    assert accuracy(np.column_stack([x, lognormal]), y) == pytest.approx(plain, abs=0.05)


@pytest.mark.parametrize("offset", [1e4, 1e5, -3e5])
def test_float32_far_from_zero(offset):
    x, y = problem()
    wide = (x + offset).astype(np.float32)
    assert accuracy(wide, y) == pytest.approx(accuracy(wide.astype(np.float64), y), abs=0.01)
    assert accuracy(wide, y) > accuracy(x, y) - 0.05


@pytest.mark.parametrize("unit", [1e-200, 1e-30, 1e150])
def test_units_change_nothing(unit):
    x, y = problem()
    assert accuracy(x * unit, y) == pytest.approx(accuracy(x, y), abs=0.02)
    targets = Regressor((16,), epochs=40).fit(x, x[:, 0] * unit).predict(x) / unit
    assert np.abs(targets - x[:, 0]).mean() < 0.2


def test_numbers_without_a_mean_are_refused():
    x, y = problem()
    with pytest.raises(mt.InvalidInput, match="column 2"):
        Classifier(epochs=1).fit(np.column_stack([x[:, :2], np.full(600, 1.5e308)]), y)


def test_targets_far_from_zero_and_of_one_number():
    x, _ = problem()
    for y in (1e9 + x[:, 0], (1e5 + x[:, 0]).astype(np.float32), (1e12 + 1000 * x[:, 0]).astype(int)):
        assert Regressor((16,), epochs=30).fit(x, y).score(x, y) > 0.9
    found = Regressor((16,), epochs=2).fit(x, np.full(600, 1e9 + 0.1)).predict(x)
    assert (found == 1e9 + 0.1).all()


def test_frames_of_targets_and_of_columns():
    pandas = pytest.importorskip("pandas")
    x, y = problem()
    frame = pandas.DataFrame(x, columns=list("abcd"))
    targets = pandas.DataFrame({"u": x[:, 0], "v": -x[:, 1]})
    both = Regressor((16,), epochs=20).fit(frame, targets)
    assert both.predict(frame).shape == (600, 2) and both.score(frame, targets) > 0.8
    again = Regressor((16,), epochs=20).fit(x, np.asfortranarray(targets.to_numpy()))
    assert (both.predict(frame) == again.predict(x)).all()
    assert Regressor((8,), epochs=1).fit(frame, targets["u"]).predict(frame).shape == (600,)
    expected = Classifier((16,), epochs=2).fit(x, y).predict_proba(x)
    for kind in ("Float64", "float64[pyarrow]"):
        if "arrow" in kind:
            pytest.importorskip("pyarrow")
        nullable = frame.astype(kind)
        model = Classifier((16,), epochs=2).fit(nullable, pandas.Series(y, dtype="Int64"))
        assert (model.predict_proba(nullable) == expected).all()
        nullable.loc[3, "c"] = pandas.NA
        for call in (model.predict, lambda f: Classifier(epochs=1).fit(f, y)):
            with pytest.raises(mt.InvalidInput, match="column 'c' has 1 missing"):
                call(nullable)
    for values in (["u"] * 600, pandas.Categorical(["u"] * 600),
                   pandas.to_datetime(["2020-01-01"] * 600)):
        with pytest.raises(mt.InvalidInput, match="column 'b' has elements of"):
            Classifier(epochs=1).fit(frame.assign(b=values), y)
    whole = pandas.DataFrame({"a": (100 * x[:, 0]).astype(int), "b": x[:, 1] > 0})
    assert Classifier((16,), epochs=20).fit(whole, x[:, 0] > 0).score(whole, x[:, 0] > 0) > 0.9


def test_weights_too_small_to_count_are_said():
    x, y = problem()
    weights = np.ones(600)
    weights[:5] = 1e-6
    with pytest.warns(UserWarning, match="5 weights"):
        Classifier((8,), epochs=1).fit(x, y, sample_weight=weights)
    for wrong in (np.full(600, np.nan), -np.ones(600), np.full(600, np.inf), np.ones(599),
                  np.zeros(600)):
        with pytest.raises(ValueError):
            Classifier((8,), epochs=1).fit(x, y, sample_weight=wrong)


def test_hidden_may_be_a_number():
    x, y = load_digits(return_X_y=True)
    one, several = (Classifier(hidden, epochs=2, seed=3).fit(x, y) for hidden in (30, (30,)))
    assert (one.predict(x) == several.predict(x)).all()
    for wrong in (0, 2.5, "100", True, (10, 0)):
        with pytest.raises(mt.InvalidInput, match="hidden"):
            Classifier(wrong, epochs=1).fit(x, y)


def test_scikit_learns_names():
    x, y = load_digits(return_X_y=True)
    ours = Classifier((30,), epochs=4, seed=7, learning_rate=0.01).fit(x, y)
    theirs = Classifier(hidden_layer_sizes=(30,), max_iter=4, random_state=7,
                        learning_rate_init=0.01).fit(x, y)
    assert (ours.decision_function(x) == theirs.decision_function(x)).all()
    assert theirs.n_iter_ == 4 and clone(theirs).max_iter == 4
    search = GridSearchCV(Classifier(max_iter=3), {"hidden_layer_sizes": [10, 20]}, cv=2).fit(x, y)
    assert search.best_params_["hidden_layer_sizes"] in (10, 20)
    with pytest.raises(mt.InvalidInput, match="epochs and max_iter are one setting"):
        Classifier(epochs=4, max_iter=5).fit(x, y)
    drawn = Classifier(max_iter=1, random_state=np.random.RandomState(3)).fit(x, y)
    again = Classifier(max_iter=1, random_state=np.random.RandomState(3)).fit(x, y)
    assert (drawn.decision_function(x) == again.decision_function(x)).all()


def test_early_stopping_and_verbose(capfd):
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(400, 8)), generator.integers(2, size=400)  # nothing to learn
    model = Classifier(max_iter=60, early_stopping=True, n_iter_no_change=2, verbose=True).fit(x, y)
    assert 2 <= model.n_iter_ < 60
    assert model.history_.kept is not None and model.history_.epochs[-1].validation_loss is not None
    assert capfd.readouterr().err.count("epoch") >= model.n_iter_
    Regressor(max_iter=1).fit(x, x[:, 0])
    assert capfd.readouterr().err == ""
