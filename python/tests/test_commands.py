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


def test_settings_are_listed():
    rows = {one.name: one for one in mt.settings("train")}
    assert rows["batch-size"].default == "128" and rows["resume"].is_switch
    assert mt.info()["version"] == mt.__version__
