"""Hostile clients of mantissa serve, and hostile servers for --from http://.

    tests/hostile_http.py MANTISSA RUN DATA

checks within seconds that each is held within limits; tests/long/hostile/serve_load measures with
the same functions, for longer. All traffic stays on 127.0.0.1, bounded in bytes and time.
"""
import gzip
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

MIB = 1 << 20
PIECE = 1 << 18


class Served:
    """mantissa serve of a run; `with` ends it by force if need be."""

    def __init__(self, mantissa, run):
        self.process = subprocess.Popen([mantissa, "serve", "--checkpoint", run, "--port", "0"],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])
        self.begun = self.memory("VmRSS")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def memory(self, name):
        return memory(self.process.pid, name)

    def growth(self):
        """The largest growth of memory, in MiB."""
        return self.memory("VmHWM") - self.begun

    def connect(self, seconds=60):
        return socket.create_connection(("127.0.0.1", self.port), timeout=seconds)

    def health(self, most=60):
        """Seconds until /health is answered; `most` if it is not."""
        begin = time.monotonic()
        try:
            with self.connect(most) as client:
                client.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                               b"Connection: close\r\n\r\n")
                if b"ready" in everything(client, most):
                    return time.monotonic() - begin
        except OSError:
            pass
        return most

    def stop(self, most=60):
        """Seconds that SIGTERM takes to end it."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(most)
        except subprocess.TimeoutExpired:
            pass
        return time.monotonic() - begin


def make_pictures(folder):
    """Pictures of ten classes as IDX files; gives the folder."""
    os.makedirs(folder)
    for name, count in ("train", 256), ("t10k", 64):
        with open(f"{folder}/{name}-labels-idx1-ubyte", "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count)))
        with open(f"{folder}/{name}-images-idx3-ubyte", "wb") as file:
            file.write(struct.pack(">IIII", 0x803, count, 28, 28))
            file.write(b"".join(bytes([20 * (i % 10)]) * 784 for i in range(count)))
    return folder


def memory(process, name):
    try:
        with open(f"/proc/{process}/status") as file:
            for line in file:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def everything(client, seconds=60):
    """All bytes that the other side sends until it ends the connection."""
    client.settimeout(seconds)
    end = time.monotonic() + seconds
    text = b""
    try:
        while time.monotonic() < end:
            piece = client.recv(PIECE)
            if not piece:
                break
            text += piece
    except OSError:
        pass
    return text


def pour(client, piece, most_bytes, seconds):
    """Sends piece after piece; gives the bytes sent before the server had enough."""
    end = time.monotonic() + seconds
    client.settimeout(1)
    sent = 0
    try:
        while sent < most_bytes and time.monotonic() < end:
            client.sendall(piece)
            sent += len(piece)
    except OSError:
        pass
    return sent


def request(head, *more):
    return "\r\n".join((head + " HTTP/1.1", "Host: 127.0.0.1") + more + ("", "")).encode()


# Each of these returns a sentence about the outcome; the server's memory tells the rest.

def endless_chunks(served, size, seconds, path="/nothing"):
    with served.connect() as client:
        client.sendall(request("POST " + path, "Transfer-Encoding: chunked"))
        piece = b"%x\r\n" % PIECE + bytes(PIECE) + b"\r\n"
        return f"{pour(client, piece, size, seconds) / MIB:.0f} MiB sent"


def zip_bomb(served, size, seconds, path="/nothing"):
    packer = zlib.compressobj(9 if size > 500 * MIB else 1, zlib.DEFLATED, 31)
    body = b"".join(packer.compress(bytes(MIB)) for _ in range(size // MIB)) + packer.flush()
    with served.connect() as client:
        client.sendall(request("POST " + path, "Content-Encoding: gzip", "Connection: close",
                               f"Content-Length: {len(body)}"))
        pour(client, body, 1, seconds)
        answer = everything(client, seconds)
    return f"{len(body) / 1024:.0f} KiB sent for {size / MIB:.0f}; " + status_of(answer)


def endless_headers(served, size, seconds):
    with served.connect() as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        lines = b"".join(b"A%d: b\r\n" % i for i in range(PIECE // 8))
        return f"{pour(client, lines, size, seconds) / MIB:.0f} MiB sent"


def endless_line(served, size, seconds):
    with served.connect() as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nA: ")
        return f"{pour(client, b'a' * PIECE, size, seconds) / MIB:.0f} MiB sent"


def many_ranges(served, count, seconds):
    with served.connect() as client:
        client.sendall(request("GET /parameters", "Range: bytes=" + ",".join(["0-"] * count),
                               "Connection: close"))
        return f"{len(everything(client, seconds)) / MIB:.0f} MiB answered"


def unread_answers(served, clients, seconds):
    """Asks for all parameters, often, and reads nothing."""
    opened = [served.connect() for _ in range(clients)]
    for client in opened:
        client.sendall(request("GET /parameters") * 20)
    time.sleep(seconds)
    for client in opened:
        client.close()
    return f"{clients} clients"


def bodies_at_once(served, clients, size, seconds):
    """Bodies without their last part, at the same time."""
    opened = [served.connect() for _ in range(clients)]

    def send(client):
        try:
            client.sendall(request("POST /predict", f"Content-Length: {size}"))
            pour(client, bytes(PIECE), size - PIECE, seconds)
        except OSError:
            pass
    threads = [threading.Thread(target=send, args=(client,)) for client in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in opened:
        client.close()
    return f"{clients} clients of {size / MIB:.0f} MiB"


def drip(client, seconds, stop=None):
    """A byte every half second; gives the seconds until the server has enough."""
    begin = time.monotonic()
    client.settimeout(0.5)
    try:
        while time.monotonic() - begin < seconds and not (stop and stop.is_set()):
            client.sendall(b"a")
            try:
                if not client.recv(1000):
                    break
            except TimeoutError:
                pass
    except OSError:
        pass
    return time.monotonic() - begin


def slow_clients(served, clients, head):
    """Opens clients; each sends `head` and drips on in the background until the event is set."""
    stop = threading.Event()
    for _ in range(clients):
        client = served.connect()
        client.sendall(head)
        threading.Thread(target=drip, args=(client, 120, stop), daemon=True).start()
    return stop


def idle_clients(served, clients):
    opened = []
    for _ in range(clients):
        try:
            opened.append(served.connect(2))
        except OSError:
            break
    return opened


def pipelined(served, count, text=request("GET /health")):
    with served.connect() as client:
        client.sendall(text * count)
        client.shutdown(socket.SHUT_WR)
        return everything(client, 10).count(b"200 OK")


def status_of(answer):
    line = answer.split(b"\r\n", 1)[0].decode(errors="replace")
    return line[9:] if line.startswith("HTTP") else "no answer"


def asked(served, text):
    """The status of the answer to one request, as it is written."""
    with served.connect() as client:
        client.sendall(text)
        return status_of(everything(client, 15))


def status_with_host(served, host):
    return asked(served, f"GET /network HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())


# Servers.

def answering(act):
    """A server whose connections `act` takes; gives its address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def one(client):
        try:
            client.recv(PIECE)
            act(client)
            time.sleep(120)
        except OSError:
            pass

    def loop():
        while True:
            client, _ = listener.accept()
            threading.Thread(target=one, args=(client,), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def pour_all(client, head, piece, size):
    client.sendall(head)
    pour(client, piece, size, 120)


OK = b"HTTP/1.1 200 OK\r\n"


def hostile_servers(size):
    zeros = gzip.compress(bytes(MIB))
    return {
        "a body without end": lambda c: pour_all(c, OK + b"\r\n", bytes(PIECE), size),
        "chunks without end": lambda c: pour_all(
            c, OK + b"Transfer-Encoding: chunked\r\n\r\n", b"40000\r\n" + bytes(PIECE) + b"\r\n", size),
        "a gzip body without end": lambda c: pour_all(
            c, OK + b"Content-Encoding: gzip\r\n\r\n", zeros * 16, size // 1000),
        "headers without end": lambda c: pour_all(c, OK, b"A: b\r\n" * 10000, size),
        "one header without end": lambda c: pour_all(c, OK + b"A: ", b"a" * PIECE, size),
        "100 Continue without end": lambda c: pour_all(
            c, b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 10000, size),
        "silence": lambda c: time.sleep(300),
        "silence within the body": lambda c: c.sendall(OK + b"Content-Length: 1000\r\n\r\n"),
        "a byte every half second": lambda c: (c.sendall(OK + b"\r\n"), drip(c, 300)),
    }


def fetch(mantissa, data, address, seconds, sent=None, after=1.0):
    """train --from it; gives (seconds, MiB, exit code or None if still running, message). If a
    signal is sent, the seconds count from then on."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [mantissa, "train", "--from", address, "--data", data, "--out", folder + "/run"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, TMPDIR=folder))
        begin, most = time.monotonic(), 0.0
        is_sent = sent is None
        while process.poll() is None and time.monotonic() - begin < seconds:
            most = max(most, memory(process.pid, "VmHWM"))
            if not is_sent and time.monotonic() - begin > after:
                process.send_signal(sent)
                begin, is_sent = time.monotonic(), True
            time.sleep(0.02)
        took, code = time.monotonic() - begin, process.poll()
        if code is None:
            process.kill()
        message = process.communicate()[1]
        left = [name for name in os.listdir(folder) if name != "run"]
        return took, most, code, message.strip() + "".join(" LEFT: " + name for name in left)


# The quick part.

class Checks:
    def __init__(self):
        self.failed = 0

    def holds(self, name, truth, seen=""):
        print(f"{'ok' if truth else 'FAILED'}: {name}" + ("" if truth else f": {seen}"))
        self.failed += not truth


def check_serve(checks, mantissa, run):
    with Served(mantissa, run) as served:
        for act, arguments in ((endless_chunks, (200 * MIB, 3)), (endless_headers, (50 * MIB, 3)),
                               (zip_bomb, (200 * MIB, 5)), (endless_line, (50 * MIB, 3)),
                               (many_ranges, (130, 10))):
            act(served, *arguments)
            checks.holds(f"{act.__name__}: memory stays", served.growth() < 40, served.growth())
        packed = zip_bomb(served, 200 * MIB, 10, "/predict")
        checks.holds("a body that unpacks to more than 64 MiB is refused", "413" in packed, packed)
        large = asked(served, request("POST /predict", f"Content-Length: {65 * MIB}"))
        checks.holds("a body that says more than 64 MiB is refused unread", "413" in large, large)
        other = asked(served, request("POST /nothing", "Content-Length: 100000",
                                      "Connection: close") + bytes(100000))
        checks.holds("a body that nobody takes has an answer all the same", "404" in other, other)
        bodies_at_once(served, 8, 60 * MIB, 20)
        checks.holds("eight large bodies: memory has a limit", served.growth() < 640,
                     served.growth())
        checks.holds("... and the next is served", served.health(10) < 4)
    with Served(mantissa, run) as served:
        unread_answers(served, 40, 1)
        checks.holds("answers that nobody reads: memory has a limit", served.growth() < 400,
                     served.growth())
        begin = time.monotonic()
        checks.holds("fifty requests at once have fifty answers", pipelined(served, 50) == 50)
        checks.holds("... and the connection ends then", time.monotonic() - begin < 5)
        predict = request("POST /predict", "Content-Length: 784") + bytes(784)
        checks.holds("... predictions, too", pipelined(served, 50, predict) == 50)
        checks.holds("... and parameters", pipelined(served, 50, request("GET /parameters")) == 50)
        two = asked(served, request("GET /network", "Host: evil.example", "Connection: close"))
        checks.holds("a second Host that is another is refused", two[:1] == "4", two)
        for host in "evil.example", "evil.example:80", "127.0.0.1.evil.example", "[evil":
            status = status_with_host(served, host)
            checks.holds(f"Host '{host}' is refused", status[:1] == "4", status)
        for host in "127.0.0.1:1", "localhost", "LOCALHOST:8080", "[::1]:8080", socket.gethostname():
            status = status_with_host(served, host)
            checks.holds(f"Host '{host}' is this machine", status[:3] == "200", status)


def check_slow(checks, mantissa, run):
    with Served(mantissa, run) as served:
        check_slow_clients(checks, served)


def check_slow_clients(checks, served):
    took = {}

    def measure(name, head):
        with served.connect() as client:
            client.sendall(head)
            took[name] = drip(client, 30)
    heads = {"headers": b"GET /health HTTP/1.1\r\nA: ",
             "a body": request("POST /predict", "Content-Length: 100000"),
             "chunks": request("POST /predict", "Transfer-Encoding: chunked") + b"10000\r\n",
             "a second request": request("GET /health") + b"GET /"}
    threads = [threading.Thread(target=measure, args=item) for item in heads.items()]
    stop = slow_clients(served, 20, b"GET /health HTTP/1.1\r\nA: ")
    for thread in threads:
        thread.start()
    checks.holds("20 slow clients: others are served", served.health(10) < 4)
    for thread in threads:
        thread.join()
    for name, seconds in took.items():
        checks.holds(f"who drips {name} has ten seconds", 8 < seconds < 13, seconds)
    stop.set()
    opened = idle_clients(served, 600)
    checks.holds("600 idle clients: others are served", served.health(10) < 4)
    slow_clients(served, 8, request("POST /predict", "Content-Length: 100000"))
    seconds = served.stop(20)
    checks.holds("SIGTERM waits for no client", seconds < 1.5, seconds)
    checks.holds("... and ends in good order", served.process.returncode == 0)
    del opened


def check_fetch(checks, mantissa, data):
    results = {}

    def measure(name, act, sent):
        results[name, sent] = fetch(mantissa, data, answering(act), 20, sent)
    threads = []
    for name, act in hostile_servers(300 * MIB).items():
        waits = "silence" in name or "second" in name or "body without" in name
        for sent in (signal.SIGINT, signal.SIGTERM) if waits and "gzip" not in name else (None,):
            if "chunks" not in name:
                threads.append(threading.Thread(target=measure, args=(name, act, sent)))
    for thread in threads:
        thread.start()
        if len(threads) > 4:
            time.sleep(0.1)
    for thread in threads:
        thread.join()
    for (name, sent), (seconds, most, code, message) in results.items():
        seen = (seconds, most, code, message)
        checks.holds(f"--from, {name}: memory stays", most < 100, seen)
        if sent is None:
            checks.holds("... an error of one line",
                         code == 1 and "\n" not in message and "LEFT" not in message, seen)
        else:
            checks.holds(f"... {sent.name} ends it within a second",
                         code == 130 and seconds < 1.5 and "LEFT" not in message, seen)


def main():
    mantissa, run, data = sys.argv[1:]
    checks = Checks()
    # Checks that wait for seconds, at the same time.
    others = [threading.Thread(target=check_fetch, args=(checks, mantissa, data)),
              threading.Thread(target=check_slow, args=(checks, mantissa, run))]
    for other in others:
        other.start()
    check_serve(checks, mantissa, run)
    for other in others:
        other.join()
    sys.exit(checks.failed > 0)


if __name__ == "__main__":
    main()
