"""A network before a camera: connections can be cut, and what the camera sends can be stalled, slowed, garbled and moved in time."""

import random
import selectors
import socket
import threading
import time

from rtp_clock import RtpClock

# How long a read waits before it looks whether its connection is cut.
POLL_S = 0.05
# What a slow link lets through in one POLL_S: 30 KB/s.
SLOW_BYTES = 1_500
CHUNK_BYTES = 64 * 1024


class Proxy:
    """A proxy on loopback, before the camera on port `upstream`; ends with the program."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.fault = "none"
        # Number of ticks by which time stamps of RTP are moved over RTSP; None: they are not read.
        self.ticks: int | None = None
        self.generation = 0
        # When each connection was opened.
        self.opened: list[float] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, upstream: int | None = None) -> None:
        """Cuts all connections; new ones go to the camera on port `upstream`."""
        self.upstream = upstream or self.upstream
        self.generation += 1

    def _accept(self) -> None:
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.upstream), timeout=5)
            except OSError:
                # Without a camera the connection is closed: to its reader it is one that answers nothing.
                client.close()
                continue
            self.opened.append(time.time())
            threading.Thread(target=self._forward, args=(client, server, self.generation), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket, generation: int) -> None:
        clock = None if self.ticks is None else RtpClock()
        with client, server, selectors.DefaultSelector() as ready:
            for end, other in ((client, server), (server, client)):
                end.settimeout(5)
                ready.register(end, selectors.EVENT_READ, other)
            while self.generation == generation:
                if self.fault == "stall":
                    time.sleep(POLL_S)
                    continue
                for key, _ in ready.select(POLL_S):
                    is_camera = key.fileobj is server
                    slow = is_camera and self.fault == "slow"
                    try:
                        piece = key.fileobj.recv(SLOW_BYTES if slow else CHUNK_BYTES)
                        if not piece:
                            return
                        if is_camera and self.fault == "garbage":
                            piece = random.randbytes(len(piece))
                        elif is_camera and clock:
                            piece = clock.moved(piece, self.ticks)
                        key.data.sendall(piece)
                    except OSError:
                        return
                    if slow:
                        time.sleep(POLL_S)
