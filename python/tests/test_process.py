"""Signals, threads and processes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import mantissa as mt

TRAINING = """
import sys, numpy as np, mantissa as mt
x = np.random.default_rng(1).integers(0, 255, (2000, 16, 16, 1), dtype=np.uint8)
net = mt.models.resnet8(pixels=(16, 16, 1), means=[100])
trainer = mt.Trainer(net, batch_size=32, learning_rate=0.01, threads=1)
trainer.fit((x[:64], np.zeros(64, int)), steps=1, progress=False)
print("ready", flush=True)
try:
    trainer.fit((x, np.zeros(2000, int)), epochs=10_000, checkpoint=sys.argv[1], progress=False)
except KeyboardInterrupt:
    print("stopped", trainer.steps_done, flush=True)
"""


def test_ctrl_c_ends_the_step_and_saves(tmp_path):
    state = tmp_path / "state.safetensors"
    child = subprocess.Popen([sys.executable, "-c", TRAINING, state], stdout=subprocess.PIPE,
                             text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    begin = time.monotonic()
    child.send_signal(signal.SIGINT)
    word, steps = child.stdout.readline().split()
    seconds = time.monotonic() - begin
    assert child.wait() == 0 and word == "stopped" and int(steps) > 1
    assert state.exists()
    assert seconds < 2  # 0.2 and a step on a quiet machine


def test_other_threads_go_on(trainer, digits):
    ticks, running = [0], True

    def tick():
        while running:
            ticks[0] += 1
            time.sleep(0.0005)
    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    trainer.fit(digits, epochs=60, progress=False)
    seconds = time.monotonic() - begin
    running = False
    thread.join()
    assert ticks[0] / seconds > 100  # 500 and more on a quiet machine


@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_child_trains(network, digits, threads):
    x, y = digits
    trainer = mt.Trainer(network, batch_size=40, threads=threads)
    trainer.step(x[:40], y[:40], learning_rate=0.05)
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            report = trainer.step(x[40:80], y[40:80], learning_rate=0.05)
            os.write(writable, json.dumps([report.loss, trainer.weights_sha256]).encode())
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as file:
        loss, sha = json.loads(file.read())
    os.waitpid(child, 0)
    report = trainer.step(x[40:80], y[40:80], learning_rate=0.05)
    assert (report.loss, trainer.weights_sha256) == (loss, sha)


def test_the_module_shows_one_symbol():
    import mantissa._core
    listed = subprocess.run(["nm", "-D", "--defined-only", mantissa._core.__file__], check=True,
                            stdout=subprocess.PIPE, text=True).stdout.split("\n")
    assert [line.split()[-1] for line in listed if line] == ["PyInit__core"]


def test_import_brings_no_numpy():
    code = "import sys, mantissa; print('numpy' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE,
                          text=True)
    assert done.stdout == "False False\n"
