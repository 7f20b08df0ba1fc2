import pytest

import mantissa as mt


def test_train_evaluate_plan_and_report(idx_folder, tmp_path):
    folder, _ = idx_folder
    steps = []
    run = tmp_path / "run"
    summary = mt.train(model="mlp", data=folder, epochs=2, batch_size=60, out=run,
                       progress=lambda now: steps.append(now.kind))
    assert summary["steps"] == 20 and "step" in steps and "evaluating" in steps
    assert 0 <= mt.evaluate(checkpoint=run)["accuracy"] <= 1
    assert "peak" in mt.plan(model="resnet8", data=folder).text
    assert mt.info(run)["step" if "step" in mt.info(run) else "kind"] is not None
    assert mt.report(run, out=tmp_path / "report.html").path.endswith("report.html")
    with pytest.raises(mt.InvalidInput, match="did you mean 'epochs'"):
        mt.train(epoch=1, out=run)
    with pytest.raises(mt.Error, match="overwrite"):
        mt.train(model="mlp", data=folder, out=run)


def test_quantize(idx_folder, tmp_path):
    folder, _ = idx_folder
    mt.train(model="resnet8", data=folder, epochs=1, batch_size=60, out=tmp_path / "run")
    summary = mt.quantize(from_=tmp_path / "run", weights=4, activations=4, data=folder,
                          calibration=128, reestimate=2, out=tmp_path / "w4")
    assert len(summary["weights_sha256"]) == 64
    notes = mt.export_onnx(tmp_path / "w4", tmp_path / "w4.onnx")
    assert isinstance(notes, list) and (tmp_path / "w4.onnx").exists()


def test_ctrl_c_in_a_callback(idx_folder, tmp_path):
    def stop(now):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        mt.train(model="mlp", data=idx_folder[0], epochs=1, out=tmp_path / "r", progress=stop)


def test_embed(tmp_path):
    import subprocess
    import sys
    from pathlib import Path

    import numpy as np
    maker = Path(__file__).resolve().parents[2] / "tests" / "make_encoder.py"
    subprocess.run([sys.executable, maker, tmp_path / "bert"], check=True)
    done = []
    texts = ["The cat sat.", "a dog runs", "", "the cat sat ."]
    vectors = mt.embed(tmp_path / "bert", texts, progress=done.append, batch_size=2)
    assert vectors.shape == (4, 16) and vectors.dtype == np.float32 and done[-1] == 4
    assert np.allclose((vectors ** 2).sum(1), 1, atol=1e-5)
    assert np.array_equal(vectors[0], vectors[3])
    rows = mt.embed(tmp_path / "bert", texts, format="bfp:block=channel,blocks=token")
    assert ((rows * vectors).sum(1) > .99).all()
    with pytest.raises(mt.InvalidInput, match="calibrated"):
        mt.embed(tmp_path / "bert", texts, format="bfp8")


def test_fill_mask(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("one and two and one and two. " * 400)
    mt.train(model="bert_tiny", data=text, sequence=16, width=0.25, steps=3, batch_size=4,
             out=tmp_path / "run")
    guesses = mt.fill_mask(tmp_path / "run", "on[MASK] a[MASK]d", top=3)
    assert len(guesses) == 2 and len(guesses[0]) == 3
    assert all(isinstance(token, str) and 0 <= p <= 1 for token, p in guesses[0])
    with pytest.raises(mt.InvalidInput, match="no .MASK"):
        mt.fill_mask(tmp_path / "run", "one")


def test_translate(tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"one {i % 7}\teins {i % 7}\tdocument {i % 60}\n" for i in range(400)))
    mt.train(model="transformer_nmt", data=pairs, tokens="characters", sequence=16, width=0.25,
             steps=3, batch_size=4, out=tmp_path / "run")
    done = []
    texts = mt.translate(tmp_path / "run", ["one 1", "", "one 2"], beam=2,
                         progress=lambda at: done.append(at.kind))
    assert len(texts) == 3 and texts[1] == "" and done == ["translating"]
    assert mt.translate(tmp_path / "run", "one 2", beam=2) == texts[2:]
    assert mt.translate(tmp_path / "run", []) == []
    with pytest.raises(mt.InvalidInput, match="several lines"):
        mt.translate(tmp_path / "run", ["one\none"])


def test_settings_are_listed():
    rows = {one.name: one for one in mt.settings("train")}
    assert rows["batch-size"].default == "128" and rows["resume"].is_switch
    assert mt.info()["version"] == mt.__version__
