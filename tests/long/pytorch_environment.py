"""Python with packages of PyPI, in a folder of its own, for scripts that compare with PyTorch."""
import os, pathlib, subprocess, sys, tempfile, venv


def enter(packages):
    """Runs the script again inside an environment that has the packages, unless it is inside. The
    folder, $MANTISSA_ONNX_FOLDER or a temporary one, is returned."""
    if os.environ.get("MANTISSA_ONNX_INSIDE") == "1":
        return pathlib.Path(os.environ["MANTISSA_ONNX_FOLDER"])
    folder = pathlib.Path(os.environ.get("MANTISSA_ONNX_FOLDER") or tempfile.mkdtemp())
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    os.environ.update(MANTISSA_ONNX_FOLDER=str(folder), MANTISSA_ONNX_INSIDE="1",
                      ORT_DISABLE_TELEMETRY="1")
    os.execv(python, [str(python), *sys.argv])
