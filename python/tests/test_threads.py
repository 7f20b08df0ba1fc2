"""One trainer in several threads, and threads that are at work when the interpreter ends."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import mantissa as mt


def run_all(*functions):
    """Runs the functions in threads of their own, at once; returns what they raised."""
    raised, begin = [], threading.Barrier(len(functions))

    def run(function):
        begin.wait()
        try:
            function()
        except Exception as error:
            raised.append(error)
    threads = [threading.Thread(target=run, args=(one,)) for one in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_a_second_call_on_a_busy_trainer_is_refused(network, digits):
    x, y = digits
    plain, shared = (mt.Trainer(network, batch_size=40, learning_rate=0.05) for _ in range(2))
    plain.fit((x, y), epochs=20, progress=False)
    done = threading.Event()

    def fit():
        shared.fit((x, y), epochs=20, progress=False)
        done.set()

    calls = {
        "step": lambda: shared.step(x[:40], y[:40], learning_rate=0.05),
        "fit": lambda: shared.fit((x, y), epochs=1, progress=False),
        "freeze": lambda: shared.freeze((x,)),
        "observed_step": lambda: shared.observed_step(x[:40], y[:40], learning_rate=0.05),
        "set_numbers": lambda: shared.set_numbers("linear1.bias", np.zeros(4)),
        "numbers": lambda: shared.numbers("linear1.bias"),
        "load": lambda: shared.load("nowhere"),
        "save": lambda: shared.save("/nowhere/state"),
        "take": lambda: shared.take("nowhere"),
        "weights_sha256": lambda: shared.weights_sha256,
    }
    refused = set()

    def disturb():
        while shared.steps_done == 0:
            time.sleep(0.0005)
        for name, call in calls.items():
            if done.is_set():
                break
            try:
                call()
            except mt.Error as error:
                if "busy: another thread is in fit()" in str(error):
                    refused.add(name)
    assert run_all(fit, disturb) == []
    assert refused >= set(calls) - {"take"}  # it reads its file first
    assert shared.weights_sha256 == plain.weights_sha256
    assert shared.steps_done == 200


def test_many_threads_do_no_harm(network, digits):
    x, y = digits
    trainer = mt.Trainer(network, batch_size=40, threads=2)
    calls = [lambda: trainer.step(x[:40], y[:40], learning_rate=0.05),
             lambda: trainer.fit((x, y), steps=2, progress=False),
             lambda: trainer.freeze((x,)).predict(x), lambda: trainer.values("linear1.bias"),
             lambda: trainer.observed_step(x[:40], y[:40], learning_rate=0.05)]

    def use(first):
        for i in range(40):
            try:
                calls[(first + i) % len(calls)]()
            except mt.Error as error:
                assert "busy" in str(error)
                time.sleep(0.0002)
    assert run_all(*(lambda i=i: use(i) for i in range(4))) == []
    assert trainer.steps_done > 0 and np.isfinite(trainer.freeze((x,)).predict(x)).all()


def test_steps_of_two_threads_are_steps_one_after_the_other(network, digits):
    x, y = digits
    shared, plain = (mt.Trainer(network, batch_size=40, threads=2) for _ in range(2))

    def steps():
        done = 0
        while done < 25:
            try:
                shared.step(x[:40], y[:40], learning_rate=0.05)
                done += 1
            except mt.Error:
                time.sleep(0.0002)
    assert run_all(steps, steps, steps) == []
    for _ in range(75):
        plain.step(x[:40], y[:40], learning_rate=0.05)
    assert shared.weights_sha256 == plain.weights_sha256 and shared.steps_done == 75


def test_a_callback_may_use_the_trainer(network, digits):
    trainer = mt.Trainer(network, batch_size=40)
    seen = []

    class Look(mt.Callback):
        def on_epoch(self, trainer, epoch):
            seen.append((trainer.values("linear1.bias").shape, trainer.weights_sha256,
                         trainer.freeze(digits).evaluate(digits).accuracy))
    trainer.fit(digits, epochs=2, progress=False, callbacks=[Look()])
    assert len(seen) == 2 and seen[1][1] == trainer.weights_sha256
    trainer.fit(digits, epochs=1, progress=False)  # free again, after an error too

    class Fail(mt.Callback):
        def on_epoch(self, trainer, epoch):
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        trainer.fit(digits, epochs=1, progress=False, callbacks=[Fail()])
    assert run_all(lambda: trainer.fit(digits, epochs=1, progress=False)) == []


def test_a_model_predicts_in_many_threads(network, digits):
    x, y = digits
    trainer = mt.Trainer(network, batch_size=40)
    trainer.fit(digits, epochs=1, progress=False)
    model = trainer.freeze(digits)
    expected, score = model.predict(x), model.evaluate(digits).accuracy

    def use():
        for _ in range(10):
            assert (model.predict(x) == expected).all()
            assert model.evaluate(digits).accuracy == score
    assert run_all(use, use, use, use) == []


ENDING = """
import sys, threading, time
import numpy as np, mantissa as mt
x = np.random.default_rng(1).integers(0, 255, (2000, 16, 16, 1), dtype=np.uint8)
y = np.arange(2000) % 10
net = mt.models.resnet8(pixels=(16, 16, 1), means=[100])
trainer = mt.Trainer(net, batch_size=32, learning_rate=0.01, threads=THREADS)
begun = threading.Event()

class Tell(mt.Callback):
    def on_step(self, trainer, now):
        begun.set()

def work():
    WORK
    print("went on")

threading.Thread(target=work, daemon=True).start()
begun.wait(20)
print("ended", flush=True)
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("work", [
    "trainer.fit((x, y), epochs=1000, progress=False, callbacks=[Tell()])",
    "begun.set()\n    while True: trainer.fit((x, y), epochs=1, progress=False)",
    "begun.set()\n    while True: trainer.step(x[:32], y[:32], learning_rate=0.01)",
    "begun.set()\n    while True: trainer.freeze((x,)).predict(x)",
    "begun.set()\n    while True: mt.Trainer(net, batch_size=32, threads=THREADS)",
])
def test_a_daemon_thread_ends_with_the_interpreter(work, threads):
    code = ENDING.replace("WORK", work).replace("THREADS", str(threads))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


def test_a_command_in_a_daemon_thread_ends_too(idx_folder, tmp_path):
    code = f"""
import threading, mantissa as mt
begun = threading.Event()
def work():
    mt.train(model="lenet5", data={str(idx_folder[0])!r}, epochs=1000, batch_size=20, threads=1,
             out={str(tmp_path / "run")!r}, progress=lambda now: begun.set())
threading.Thread(target=work, daemon=True).start()
begun.wait(20)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_end_may_use_trainers():
    """At the end the main thread works on: exit handlers save, and a thread that is no daemon ends."""
    code = """
import atexit, threading
atexit.register(lambda: print(len(mt.Trainer(net, batch_size=2).weights_sha256)))
import numpy as np, mantissa as mt
logits = mt.linear(mt.numbers(2, largest=4, name="x"), 2)
net = mt.Network(logits, loss=mt.cross_entropy(logits, "y"))
data = {"x": np.ones((20, 2)), "y": np.arange(20) % 2}
def work():
    print(len(mt.Trainer(net, batch_size=2).fit(data, epochs=20, progress=False)))
threading.Thread(target=work).start()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "20\n64\n", "")
