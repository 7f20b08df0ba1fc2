"""Clients of mantissa serve of a language model, those of OpenAI's API and hostile ones.

    tests/cli/language_server.py MANTISSA FOLDER

Makes a small model in the folder. Prints a line for each check, and "all asked" at the end.
"""
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

mantissa, folder = sys.argv[1:]
model = os.path.join(folder, "a.gguf")
subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "language_model.py"), model,
                "llama.context_length=4096"], check=True)
server = subprocess.Popen([mantissa, "serve", "--checkpoint", model, "--port", "0", "--sequence",
                           "2048"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
port = int(server.stdout.readline().rsplit(":", 1)[1])


def check(name, holds, shown=""):
    print("ok: " + name if holds else f"FAILED: {name}: {shown}", flush=True)


def ask(path, body=None, raw=None, headers=None):
    """The status, the type and the text of an answer."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    data = raw if raw is not None else json.dumps(body).encode() if body is not None else None
    client.request("POST" if data is not None else "GET", path, data, headers or {})
    answer = client.getresponse()
    text = answer.read().decode()
    client.close()
    return answer.status, answer.getheader("Content-Type"), text


def asked(path, body):
    status, _, text = ask(path, body)
    assert status == 200, (status, text)
    return json.loads(text)


def refused(name, path, status, part, body=None, raw=None, headers=None):
    got, _, text = ask(path, body, raw, headers)
    try:
        error = json.loads(text)["error"]
        fits = set(error) == {"message", "type", "param", "code"} and part in error["message"]
    except (ValueError, KeyError, TypeError):
        fits = False
    check(name, got == status and fits, (got, text[:300]))


def events(path, body):
    """The objects of a stream, in the order in which they came; the last is [DONE]."""
    status, kind, text = ask(path, {**body, "stream": True})
    assert status == 200 and kind == "text/event-stream", (status, kind, text)
    parts = text.split("\n\n")
    assert parts[-1] == "" and all(p.startswith("data: ") for p in parts[:-1]), text
    assert parts[-2] == "data: [DONE]", text
    return [json.loads(p[6:]) for p in parts[:-2]]


TEXT, CHAT = "/v1/completions", "/v1/chat/completions"
check("it is ready", json.loads(ask("/health")[2]) == {"ready": True})
check("models", json.loads(ask("/v1/models")[2])["data"][0]["id"] == "a")

one = asked(TEXT, {"model": "a", "prompt": "An able", "max_tokens": 12, "seed": 4})
check("a completion", one["object"] == "text_completion" and one["choices"][0]["index"] == 0 and
      one["choices"][0]["finish_reason"] in ("length", "stop") and one["model"] == "a", one)
usage = one["usage"]
check("usage", 0 < usage["completion_tokens"] <= 12 and usage["prompt_tokens"] == 6 and
      usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"], usage)
again = asked(TEXT, {"prompt": ["An able"], "max_tokens": 12, "seed": 4, "top_p": 1, "n": 1,
                     "user": "me", "stop": None})
check("the same once more", again["choices"] == one["choices"], again)
few = [asked(TEXT, {"prompt": "An able", "max_tokens": 12, "seed": 4, **change})["choices"]
       for change in ({"temperature": 0}, {"top_p": 1e-6})]
check("the least nucleus is the likeliest token", few[0] == few[1] != one["choices"], few)
other = asked(TEXT, {"prompt": "An able", "max_tokens": 12, "seed": 5})
check("another seed", other["choices"] != one["choices"])
check("sixteen tokens at most", asked(TEXT, {"prompt": "a"})["usage"]["completion_tokens"] <= 16)
likely = asked(TEXT, {"prompt": "An able", "max_tokens": 12, "temperature": 0})
text = likely["choices"][0]["text"]
command = subprocess.run([mantissa, "generate", "--checkpoint", model, "--prompt", "An able",
                          "--length", "12", "--temperature", "0", "--json"],
                         capture_output=True, text=True, check=True)
check("as generate goes on", json.loads(command.stdout)["text"] == text, command.stdout)

streamed = events(TEXT, {"prompt": "An able", "max_tokens": 12, "temperature": 0})
check("a stream has the same text",
      "".join(e["choices"][0]["text"] for e in streamed) == text, streamed)
check("in pieces", len(streamed) > 4)
check("its last piece says why",
      streamed[-1]["choices"][0]["finish_reason"] == likely["choices"][0]["finish_reason"] and
      all(e["choices"][0]["finish_reason"] is None for e in streamed[:-1]), streamed[-1])
counted = events(TEXT, {"prompt": "a", "max_tokens": 3, "stream_options": {"include_usage": True}})
check("with its usage", counted[-1]["choices"] == [] and counted[-1]["usage"]["prompt_tokens"] == 1)

# A stop text within the text that comes: nothing of it is shown.
stop = text[3:6]
cut = asked(TEXT, {"prompt": "An able", "max_tokens": 12, "temperature": 0, "stop": [stop, "never"]})
check("a stop text", cut["choices"][0]["text"] == text[:text.index(stop)] and
      cut["choices"][0]["finish_reason"] == "stop", (text, cut))
cut = events(TEXT, {"prompt": "An able", "max_tokens": 12, "temperature": 0, "stop": stop})
check("of a stream", "".join(e["choices"][0]["text"] for e in cut) == text[:text.index(stop)], cut)

turns = [{"role": "system", "content": "S"}, {"role": "user", "content": "q"}]
chat = asked(CHAT, {"messages": turns, "max_tokens": 9, "seed": 2})
check("a chat", chat["object"] == "chat.completion" and
      chat["choices"][0]["message"]["role"] == "assistant" and
      chat["usage"]["completion_tokens"] <= 9, chat)
parts = [turns[0], {"role": "user", "content": [{"type": "text", "text": "q"}]}]
same = asked(CHAT, {"messages": parts, "max_completion_tokens": 9, "seed": 2})
check("a turn of parts", same["choices"] == chat["choices"])
streamed = events(CHAT, {"messages": turns, "max_tokens": 9, "seed": 2})
check("a streamed chat", streamed[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
      and "".join(e["choices"][0]["delta"].get("content", "") for e in streamed) ==
      chat["choices"][0]["message"]["content"], streamed)

refused("no JSON", TEXT, 400, "no JSON object", raw=b"{")
refused("no object", TEXT, 400, "no JSON object", raw=b"[1]")
refused("deep", TEXT, 400, "nested", raw=b"[" * 100000)
refused("deep within", TEXT, 400, "nested", raw=b'{"prompt":' + b"[" * 1000000)
refused("no UTF-8", TEXT, 400, "no JSON", raw=b'{"prompt": "\xff"}')
refused("a NUL byte", TEXT, 400, "NUL", {"prompt": "a\0b"})
refused("large", TEXT, 413, "1 MiB", {"prompt": "x" * (1 << 20)})
refused("no prompt", TEXT, 400, "prompt", {})
refused("an empty prompt", TEXT, 400, "prompt", {"prompt": ""})
refused("tokens as a prompt", TEXT, 400, "prompt: is no text", {"prompt": [1, 2]})
refused("several prompts", TEXT, 400, "prompt: is no text", {"prompt": ["a", "b"]})
refused("another entry", TEXT, 400, "'frequency' is not known", {"prompt": "a", "frequency": 1})
refused("messages of a completion", TEXT, 400, "'messages' is not known",
        {"prompt": "a", "messages": turns})
refused("no tokens", TEXT, 400, "max_tokens: is no whole number", {"prompt": "a", "max_tokens": 0})
refused("half a token", TEXT, 400, "max_tokens: is no", {"prompt": "a", "max_tokens": 1.5})
refused("far too many", TEXT, 400, "max_tokens: is no", {"prompt": "a", "max_tokens": 2**64 - 1})
refused("heat", TEXT, 400, "temperature: is no number", {"prompt": "a", "temperature": 3})
refused("no nucleus", TEXT, 400, "top_p: is no number above 0", {"prompt": "a", "top_p": 0})
refused("more than all", TEXT, 400, "top_p: is no number above 0", {"prompt": "a", "top_p": 1.5})
refused("several answers", TEXT, 400, "n: is not there", {"prompt": "a", "n": 2})
refused("probabilities", TEXT, 400, "logprobs", {"prompt": "a", "logprobs": 3})
refused("stop texts", TEXT, 400, "stop: has more than 4", {"prompt": "a", "stop": list("abcde")})
refused("an empty stop text", TEXT, 400, "stop: is no text", {"prompt": "a", "stop": ""})
refused("tools", CHAT, 400, "tools: is not there", {"messages": turns, "tools": [{}]})
refused("no messages", CHAT, 400, "messages", {"messages": []})
refused("another role", CHAT, 400, "role", {"messages": [{"role": "tool", "content": "a"}]})
refused("pictures", CHAT, 400, "no text",
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})
refused("a long prompt", TEXT, 400, "the model reads 2048", {"prompt": "x" * 3000})
check("has its code", json.loads(ask(TEXT, {"prompt": "x" * 3000})[2])["error"]["code"] ==
      "context_length_exceeded")
refused("a long conversation", CHAT, 400, "the model reads 2048",
        {"messages": [{"role": "user", "content": "y" * 3000}], "stream": True})
refused("another path", "/v1/embeddings", 404, "there are", {"input": "a"})
refused("another host", TEXT, 403, "Host header", {"prompt": "a"}, headers={"Host": "evil.example"})


def begin_stream(tokens):
    """A client that has asked for a stream, and reads nothing."""
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    body = json.dumps({"prompt": "a", "max_tokens": tokens, "stream": True, "temperature": 2,
                       "seed": 11}).encode()
    client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " +
                   str(len(body)).encode() + b"\r\n\r\n" + body)
    return client


# A stream comes while it is computed; other requests are answered meanwhile.
client = begin_stream(2000)
first = client.recv(4096)
check("a stream begins at once", b"200 OK" in first, first[:200])
check("others are answered meanwhile", json.loads(ask("/health")[2]) == {"ready": True})
client.close()
begin = time.monotonic()
asked(TEXT, {"prompt": "a", "max_tokens": 2})
check("a client that leaves ends its work", time.monotonic() - begin < 5)
for _ in range(20):  # clients that leave at once, and while they wait
    begin_stream(50).close()
waiting = [begin_stream(20) for _ in range(30)]
check("many at a time", asked(TEXT, {"prompt": "a", "max_tokens": 2})["choices"] is not None)
for client in waiting[:15]:
    client.close()
ends = []


def read_all(client):
    data = b""
    while piece := client.recv(65536):
        data += piece
        if b"[DONE]" in data and data.endswith(b"0\r\n\r\n"):
            break
    ends.append(b"[DONE]" in data)


threads = [threading.Thread(target=read_all, args=(client,)) for client in waiting[15:]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
check("each gets its end", ends == [True] * 15, ends)
client = begin_stream(2000)
client.recv(100)
begin = time.monotonic()
server.send_signal(signal.SIGTERM)
server.wait(20)
check("it ends within a second or so, streams or not", time.monotonic() - begin < 3)
check("in good order", server.returncode == 0, server.stderr.read())
print("all asked")
