"""Models of tables: rows as the file has them."""

import warnings

import numpy as np
import pytest

import mantissa as mt


def write(path, columns):
    names = list(columns)
    rows = zip(*columns.values())
    path.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]) + "\n")


@pytest.fixture(scope="module")
def prices(tmp_path_factory):
    """A run that predicts a price of about 200 from sizes of about 1000; and the table's columns."""
    folder = tmp_path_factory.mktemp("prices")
    rng = np.random.default_rng(1)
    columns = {"size": rng.integers(500, 1500, 400), "age": rng.uniform(0, 1, 400).round(4)}
    columns["price"] = (0.2 * columns["size"] + 50 * columns["age"] - 20).round(2)
    write(folder / "t.csv", columns)
    mt.train(model="mlp", hidden="32", data=folder / "t.csv", epochs=60, batch_size=20,
             optimizer="adam", learning_rate=0.01, out=folder / "run", threads=1)
    return folder, columns


def test_raw_rows_give_numbers_in_the_units_of_the_file(prices):
    folder, columns = prices
    model = mt.Model.load(folder / "run")
    rows = np.stack([columns["size"], columns["age"]], axis=1)
    found = model.predict(rows)
    assert found.shape == (400, 1)
    assert np.abs(found[:, 0] - columns["price"]).mean() < 5  # of 100 to 330
    for same in (rows.astype(object), rows.tolist(), (rows,), {"numbers": rows}, mt.Data(rows),
                 {"age": columns["age"], "size": columns["size"]}, rows.astype(">f8"),
                 np.asfortranarray(rows)):
        assert (model.predict(same) == found).all()
    assert (mt.Model.load(folder / "run" / "model.safetensors").predict(rows) == found).all()
    assert model.class_names == [] and [one["name"] for one in model.table["columns"]] == [
        "size", "age"]


def test_predictions_are_those_of_the_command_line(prices, program, tmp_path):
    import subprocess
    folder, columns = prices
    subprocess.run([program, "predict", "--checkpoint", folder / "run", "--input", folder / "t.csv",
                    "--csv", tmp_path / "p.csv"], check=True, stdout=subprocess.DEVNULL)
    lines = [line.split(",") for line in (tmp_path / "p.csv").read_text().splitlines()]
    place = next(i for i, name in enumerate(lines[0]) if "predict" in name or name == "price")
    theirs = np.array([float(line[place]) for line in lines[1:]])
    ours = mt.Model.load(folder / "run").predict(columns)[:, 0]
    assert ours == pytest.approx(theirs, rel=1e-5)


def test_evaluation_takes_targets_of_the_file(prices):
    folder, columns = prices
    model = mt.Model.load(folder / "run")
    rows = np.stack([columns["size"], columns["age"]], axis=1)
    loss = model.evaluate(columns).loss
    assert loss == model.evaluate((rows, columns["price"])).loss < 0.05
    assert model.evaluate((rows, columns["price"][:, None])).loss == loss
    data = mt.Data.load(folder / "t.csv")
    assert model.evaluate(data.test).loss < 0.05
    assert np.abs(model.predict(data.train) - (data.train.arrays["targets"] * 2.0**-10
                                               * data.target_deviation + data.target_mean)).mean() < 5
    with pytest.raises(mt.InvalidInput, match="'price'"):
        model.evaluate(rows)


def test_what_is_no_row_of_the_table_is_refused(prices, tmp_path):
    folder, columns = prices
    model = mt.Model.load(folder / "run")
    rows = np.stack([columns["size"], columns["age"]], axis=1)
    for wrong, words in ((rows[:, :1], "size, age"), (rows[0], "size, age"),
                         ({"size": columns["size"]}, "no column 'age'"),
                         ({"size": columns["size"], "age": columns["age"][:9]}, "'age' has 9"),
                         ({"size": ["big"], "age": [1]}, "'size' is of numbers, and has 'big'")):
        with pytest.raises(mt.InvalidInput, match=words):
            model.predict(wrong)
    # Numbers that came through another table's columns.
    write(tmp_path / "u.csv", {name: values * 3 for name, values in columns.items()})
    other = mt.Data.load(tmp_path / "u.csv")
    for wrong in (other.train, other.train[:5], other.train.arrays):
        with pytest.raises(mt.InvalidInput, match="another table"):
            model.predict(wrong)
    with pytest.raises(mt.InvalidInput, match=r"\.train"):
        model.predict(other)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """A run on a table with a column of texts, which are one-hot."""
    folder = tmp_path_factory.mktemp("answers")
    rng = np.random.default_rng(2)
    columns = {"colour": rng.choice(["red", "green", "blue"], 300), "x": rng.normal(500, 100, 300),
               "flag": rng.choice([True, False], 300)}
    columns["answer"] = np.where((columns["colour"] == "red") ^ columns["flag"], "yes", "no")
    write(folder / "t.csv", columns)
    mt.train(model="mlp", hidden="32", data=folder / "t.csv", epochs=30, batch_size=20,
             optimizer="adam", learning_rate=0.01, out=folder / "run", threads=1)
    return mt.Model.load(folder / "run"), columns


def test_columns_of_texts(answers):
    model, columns = answers
    assert model.class_names == ["no", "yes"]
    found = np.array(model.class_names)[model.predict(columns).argmax(axis=1)]
    assert (found == columns["answer"]).mean() > 0.95
    assert model.evaluate(columns).accuracy > 0.95
    rows = list(zip(columns["colour"], columns["x"], columns["flag"]))
    assert (model.predict(rows) == model.predict(columns)).all()
    with pytest.warns(UserWarning, match="1 texts are none of the training rows' categories"):
        model.predict({"colour": ["pink"], "x": [500.0], "flag": [True]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (model.predict({"colour": [None], "x": [np.nan], "flag": [""]})
                == model.predict({"colour": ["?"], "x": [""], "flag": [None]})).all()


def test_frames(answers, prices):
    pandas = pytest.importorskip("pandas")
    model, columns = answers
    frame = pandas.DataFrame(columns)
    found = model.predict(columns)
    for same in (frame, frame[["flag", "x", "colour"]], frame.assign(more=1),
                 frame.astype({"colour": "category", "flag": "boolean", "x": "Float64"}),
                 frame.astype({"colour": "string"})):
        assert (model.predict(same) == found).all()
    with pytest.raises(mt.InvalidInput, match="no column 'x'"):
        model.predict(frame.drop(columns="x"))
    missing = frame.astype({"x": "Float64"}).iloc[:3].copy()
    missing.loc[0, "x"] = pandas.NA
    assert (model.predict(missing)[1:] == found[1:3]).all()
    folder, raw = prices
    loaded = mt.Model.load(folder / "run")
    assert (loaded.predict(pandas.read_csv(folder / "t.csv")) == loaded.predict(raw)).all()
    arrow = pytest.importorskip("pyarrow")
    assert (loaded.predict(arrow.table(raw)) == loaded.predict(raw)).all()
    assert (loaded.predict(pandas.DataFrame(raw).convert_dtypes(dtype_backend="pyarrow"))
            == loaded.predict(raw)).all()


def test_a_saved_model_keeps_its_columns(prices, tmp_path):
    import pickle
    folder, columns = prices
    model = mt.Model.load(folder / "run")
    found = model.predict(columns)
    model.save(tmp_path / "m.safetensors")
    for same in (mt.Model.load(tmp_path / "m.safetensors"), pickle.loads(pickle.dumps(model))):
        assert (same.predict(columns) == found).all()


def test_data_sets_are_taken_by_their_parts(tmp_path, idx_folder):
    data = mt.Data.load(idx_folder[0])
    net = mt.models.lenet5(data)
    assert net == mt.models.lenet5(data.train)
    whole, part = (mt.Trainer(net, batch_size=60, learning_rate=0.01) for _ in range(2))
    whole.fit(data, epochs=1, progress=False)
    part.fit(data.train, epochs=1, progress=False)
    assert whole.weights_sha256 == part.weights_sha256
    model = whole.freeze(data)
    assert model.evaluate(data.test).examples == 100
    for call in (model.evaluate, model.predict,
                 lambda d: whole.fit(d, epochs=1, progress=False, validation=d)):
        with pytest.raises(mt.InvalidInput, match=r"\.train, \.test"):
            call(data)
