#!/usr/bin/env python3
"""What watchers of the page cost: watchers.py WEIR OUT

A service under overload, detection in eight streams with video; goodput in turns with 50 watchers, each of which has eight tiles
open as the page has them, and without. WINDOW_S (15) is the length of each turn, PAIRS (4) how many there are of each kind,
WATCHERS (50) how many watch.
"""

import base64
import json
import os
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

from cameras import write_street
from idle_connections import GRAPH, STREAMS, goodput
from service import Service

WINDOW_S = float(os.environ.get("WINDOW_S", "15"))
PAIRS = int(os.environ.get("PAIRS", "4"))
WATCHERS = int(os.environ.get("WATCHERS", "50"))
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


def api_seconds(service: Service) -> float:
    """Processor time of the threads that answer, in seconds."""
    spent = 0
    for thread in Path(f"/proc/{service.process.pid}/task").iterdir():
        name, rest = (thread / "stat").read_text().rsplit(")", 1)
        if "(weir-api" in name:
            fields = rest.split()
            spent += int(fields[11]) + int(fields[12])
    return spent / os.sysconf("SC_CLK_TCK")


def main() -> None:
    if len(sys.argv) >= 4 and sys.argv[1] == "watch":
        return watch(int(sys.argv[2]), sys.argv[3:])
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    weir, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    clip = write_street(folder)
    names = [f"street-{number}" for number in range(STREAMS)]
    sources = "".join(f'[sources.{name}]\nuri = "{clip}"\nmode = "live"\nloop = true\n' for name in names)
    (folder / "graph.toml").write_text(GRAPH.format(sources=sources, names=json.dumps(names)[1:-1]))
    service = Service(weir, folder, [])
    found: dict[bool, list[float]] = {True: [], False: []}
    sent, answering, watching = [], [], []
    try:
        while service.ask("GET", "/readyz")[0] != 200:
            time.sleep(0.2)
        goodput(service, 5)
        for turn in range(2 * PAIRS):
            # Which kind comes first changes, too.
            is_watched = (turn + turn // 2) % 2 == 0
            command = [sys.executable, __file__, "watch", str(service.port), *names]
            pages = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) if is_watched else None
            time.sleep(3)
            before = api_seconds(service)
            found[is_watched].append(goodput(service, WINDOW_S))
            if pages:
                answering.append((api_seconds(service) - before) / WINDOW_S)
                said = json.loads(pages.communicate()[0])
                sent.append(said["bytes"] / (WINDOW_S + 3))
                watching.append(said["processor_s"] / (WINDOW_S + 3))
            time.sleep(1)
        status = service.stop()
    finally:
        service.process.kill()
    with_them, without = statistics.mean(found[True]), statistics.mean(found[False])
    print("| | goodput/s of each turn | mean |\n|---|---|---|")
    for is_watched, label in ((False, "without"), (True, f"{WATCHERS} watchers of {STREAMS} tiles")):
        turns = " ".join(f"{rate:.1f}" for rate in found[is_watched])
        print(f"| {label} | {turns} | {statistics.mean(found[is_watched]):.2f} |")
    print(f"sent to them: {statistics.mean(sent) / 1e6:.1f} MB/s, by {statistics.mean(answering):.2f} processors;"
          f" they themselves took {statistics.mean(watching):.2f}")
    print(f"ratio {with_them / without:.4f}, load {os.getloadavg()[0]:.1f}, exit status {status}")
    if status != 0 or with_them < without * (1 - LIMIT):
        sys.exit(1)


if __name__ == "__main__":
    main()
