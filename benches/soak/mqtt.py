"""A broker, and a subscriber that gets each message at least once, over restarts of the broker (MQTT 3.1.1, QoS 1)."""

import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
KEEP_ALIVE_S = 5
RETRY_S = 0.2


class Broker:
    """Mosquitto on a port of loopback; it keeps sessions and messages when it is stopped."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.config = folder / "mosquitto.conf"
        self.config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {folder}/\n"
            "max_queued_messages 0\nuser root\n"
        )
        self.process: subprocess.Popen | None = None
        self.start()

    def start(self) -> None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([MOSQUITTO, "-c", str(self.config)], **quiet)

    def stop(self) -> None:
        """Ends it regularly: it writes what it has taken."""
        self.process.terminate()
        self.process.wait()


class Subscriber:
    """Calls `on_message` with topic and payload of every message of a filter."""

    def __init__(self, port: int, topics: str, on_message: Callable[[str, bytes], None]) -> None:
        self.port, self.topics, self.on_message = port, topics, on_message
        self.subscribed = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                    self._session(connection)
            except OSError:
                pass
            time.sleep(RETRY_S)

    def _session(self, connection: socket.socket) -> None:
        # Flags 0: the session stays when the connection ends.
        name = _text("soak-subscriber")
        connection.sendall(_packet(0x10, _text("MQTT") + bytes([4, 0]) + struct.pack(">H", KEEP_ALIVE_S) + name))
        connection.sendall(_packet(0x82, struct.pack(">H", 1) + _text(self.topics) + b"\x01"))
        connection.settimeout(KEEP_ALIVE_S / 2)
        while True:
            try:
                kind = _exactly(connection, 1)[0]
            except TimeoutError:
                connection.sendall(_packet(0xC0, b""))
                continue
            body = _exactly(connection, _length(connection))
            if kind >> 4 == 9:
                self.subscribed.set()
            elif kind >> 4 == 3:
                self._publish(connection, kind, body)

    def _publish(self, connection: socket.socket, kind: int, body: bytes) -> None:
        (length,) = struct.unpack(">H", body[:2])
        topic, rest = body[2 : 2 + length].decode(), body[2 + length :]
        if (kind >> 1) & 3:
            self.on_message(topic, rest[2:])
            connection.sendall(_packet(0x40, rest[:2]))
        else:
            self.on_message(topic, rest)


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def _packet(kind: int, body: bytes) -> bytes:
    length, left = b"", len(body)
    while True:
        left, digit = divmod(left, 128)
        length += bytes([digit | (0x80 if left else 0)])
        if not left:
            return bytes([kind]) + length + body


def _length(connection: socket.socket) -> int:
    length = 0
    for place in range(4):
        digit = _exactly(connection, 1)[0]
        length |= (digit & 127) << (7 * place)
        if digit < 128:
            return length
    raise OSError("a length of more than four bytes")


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise OSError("the connection ended")
        data += piece
    return data
