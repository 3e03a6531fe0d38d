#!/usr/bin/env python3
"""What watchers of the page cost: watchers.py WEIR OUT

A service under overload, detection in eight streams with video; goodput in turns with 50 watchers, each of which has eight tiles
open as the page has them, and without: video and findings of eight cameras over one WebSocket, and the state once a second.
WINDOW_S (15) is the length of each turn, PAIRS (4) how many there are of each kind, WATCHERS (50) how many watch. After the
first turn with watchers a browser opens the page, with the watchers and without.
"""

import base64
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from browser import measure
from service import Service
from turns import STREAMS, compare

WATCHERS = int(os.environ.get("WATCHERS", "50"))
# What each turn took: bytes a second to the watchers, processors of the API's threads and of the watchers.
SENT, ANSWERING, WATCHING = [], [], []
# Processors of the whole engine with watchers.
ENGINE = []
# Figures of the page in a browser.
PAGE = []
# Goodput may be so much less with watchers than without.
LIMIT = 0.05


def text(message: object) -> bytes:
    """A text of a client (RFC 6455, 5.2), masked with zeros."""
    data = json.dumps(message).encode()
    assert len(data) < 126
    return bytes([0x81, 0x80 | len(data)]) + bytes(4) + data


def watcher(port: int, names: list[str]) -> socket.socket:
    """A page that shows so many streams."""
    page = socket.create_connection(("127.0.0.1", port))
    key = base64.b64encode(os.urandom(16)).decode()
    head = f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    page.sendall(f"{head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
    answer = page.recv(12)
    assert answer.startswith(b"HTTP/1.1 101"), answer
    for name in names:
        page.sendall(text({"watch": name}))
    page.setblocking(False)
    return page


def watch(port: int, names: list[str]) -> None:
    """Watches until standard input ends; then the bytes that came, and processor time of this, go to standard output."""
    ready = selectors.DefaultSelector()
    ready.register(sys.stdin, selectors.EVENT_READ)
    asked = f"GET /api/state HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    polls = []
    for _ in range(WATCHERS):
        ready.register(watcher(port, names), selectors.EVENT_READ)
        polls.append(socket.create_connection(("127.0.0.1", port)))
        polls[-1].setblocking(False)
        ready.register(polls[-1], selectors.EVENT_READ)
    came, due, next_poll, buffer = 0, time.monotonic(), 0, bytearray(1 << 20)
    while True:
        # Each asks for the state once a second, as the page does, one after the other.
        if time.monotonic() >= due:
            polls[next_poll % WATCHERS].sendall(asked)
            next_poll, due = next_poll + 1, due + 1 / WATCHERS
        for key, _ in ready.select(max(0, due - time.monotonic())):
            if key.fileobj is sys.stdin:
                times = os.times()
                print(json.dumps({"bytes": came, "processor_s": times.user + times.system}))
                return
            try:
                # Discarded by the system rather than copied: what watchers do with it is done on other machines.
                read = key.fileobj.recv_into(buffer, 0, socket.MSG_TRUNC)
            except BlockingIOError:
                continue
            if not read:
                raise SystemExit("a watcher was cut off")
            came += read


def seconds_of(stat: Path) -> tuple[str, float]:
    """Name of a process or a thread, and its processor time in seconds."""
    name, rest = stat.read_text().rsplit(")", 1)
    fields = rest.split()
    return name, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def api_seconds(service: Service) -> tuple[float, float]:
    """Processor time of the threads that answer, and of the whole engine, in seconds."""
    process = Path(f"/proc/{service.process.pid}")
    threads = [seconds_of(thread / "stat") for thread in (process / "task").iterdir()]
    return sum(spent for name, spent in threads if "(weir-api" in name), seconds_of(process / "stat")[1]


@contextmanager
def watchers(service: Service, names: list[str]) -> Iterator[None]:
    """Watchers in a process of their own, and what they and the threads that answer them took."""
    command = [sys.executable, __file__, "watch", str(service.port), *names]
    pages = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    address = f"http://127.0.0.1:{service.port}/"
    try:
        before, began = api_seconds(service), time.monotonic()
        yield
        seconds = time.monotonic() - began
        answering, engine = (after - first for after, first in zip(api_seconds(service), before))
        ANSWERING.append(answering / seconds)
        ENGINE.append(engine / seconds)
        if not PAGE:
            PAGE.append(f"page with {WATCHERS} watchers: {measure(address, len(names))}")
            seconds = time.monotonic() - began
        said = json.loads(pages.communicate()[0])
        SENT.append(said["bytes"] / seconds)
        WATCHING.append(said["processor_s"] / seconds)
        if len(PAGE) == 1:
            PAGE.append(f"page alone: {measure(address, len(names))}")
    finally:
        pages.kill()


def spent() -> str:
    sent, answering, engine, watching = map(statistics.mean, (SENT, ANSWERING, ENGINE, WATCHING))
    by = f"by {answering:.2f} processors of the {engine:.2f} that the engine took"
    return "\n".join([f"sent to them: {sent / 1e6:.1f} MB/s, {by}; they themselves took {watching:.2f}", *PAGE])


def main() -> None:
    if len(sys.argv) >= 4 and sys.argv[1] == "watch":
        return watch(int(sys.argv[2]), sys.argv[3:])
    pairs, window_s = int(os.environ.get("PAIRS", "4")), float(os.environ.get("WINDOW_S", "15"))
    compare(f"{WATCHERS} watchers of {STREAMS} tiles", LIMIT, watchers, pairs=pairs, window_s=window_s, said=spent)


if __name__ == "__main__":
    main()
