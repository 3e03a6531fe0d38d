#!/usr/bin/env python3
"""What a thousand idle connections to the API cost: idle_connections.py WEIR OUT

A service under overload, detection in eight streams; goodput in turns with connections that only stand, and without. WINDOW_S
(10) is the length of each turn, PAIRS (6) how many there are of each kind.
"""

import os
import resource
import socket
from contextlib import ExitStack, closing, contextmanager
from typing import Iterator

from service import Service
from turns import compare

CONNECTIONS = 1_000
# Goodput may be so much less with connections than without.
LIMIT = 0.01


@contextmanager
def connections(service: Service, _names: list[str]) -> Iterator[None]:
    """Connections that only stand."""
    with ExitStack() as stand:
        for _ in range(CONNECTIONS):
            stand.enter_context(closing(socket.create_connection(("127.0.0.1", service.port))))
        yield


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    pairs, window_s = int(os.environ.get("PAIRS", "6")), float(os.environ.get("WINDOW_S", "10"))
    compare(f"{CONNECTIONS} idle connections", LIMIT, connections, pairs=pairs, window_s=window_s)


if __name__ == "__main__":
    main()
