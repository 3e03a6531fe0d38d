#!/usr/bin/env python3
"""What a thousand idle connections to the API cost: idle_connections.py WEIR OUT

A service under overload, detection in eight streams; goodput in turns with connections that only stand, and without. WINDOW_S
(10) is the length of each turn, PAIRS (6) how many there are of each kind.
"""

import json
import os
import resource
import shutil
import socket
import statistics
import sys
import time
from pathlib import Path

from cameras import write_street
from service import Service

CONNECTIONS = 1_000
STREAMS = 8
WINDOW_S = float(os.environ.get("WINDOW_S", "10"))
PAIRS = int(os.environ.get("PAIRS", "6"))
# Goodput may be so much less with connections than without.
LIMIT = 0.01

GRAPH = """
[app]
name = "idle-connections"
slo = "400ms"
{sources}
[models.detector]
model = "embedded:street-detector"
batch = [1, 2, 4]
[modules.detect]
operator = "detect"
model = "detector"
inputs = [{names}]
[sinks.lines]
type = "jsonl"
path = "-"
when_slow = "skip"
inputs = ["detect"]
"""


def goodput(service: Service, seconds: float) -> float:
    """Requests a second that come out in time."""

    def delivered() -> tuple[float, int]:
        status, state = service.ask("GET", "/api/state")
        assert status == 200, state
        return state["report"]["run"]["duration_s"], state["report"]["requests"]["delivered"]

    began, before = delivered()
    time.sleep(seconds)
    ended, after = delivered()
    return (after - before) / (ended - began)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    weir, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    clip = write_street(folder)
    names = [f"street-{number}" for number in range(STREAMS)]
    sources = "".join(f'[sources.{name}]\nuri = "{clip}"\nmode = "live"\nloop = true\n' for name in names)
    (folder / "graph.toml").write_text(GRAPH.format(sources=sources, names=json.dumps(names)[1:-1]))
    service = Service(weir, folder, [])
    found: dict[bool, list[float]] = {True: [], False: []}
    try:
        while service.ask("GET", "/readyz")[0] != 200:
            time.sleep(0.2)
        goodput(service, 5)
        for turn in range(2 * PAIRS):
            # Which kind comes first changes, too.
            stands = (turn + turn // 2) % 2 == 0
            idle = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(CONNECTIONS if stands else 0)]
            time.sleep(1)
            found[stands].append(goodput(service, WINDOW_S))
            assert service.ask("GET", "/healthz")[0] == 200
            for connection in idle:
                connection.close()
            time.sleep(1)
        status = service.stop()
    finally:
        service.process.kill()
    with_them, without = statistics.mean(found[True]), statistics.mean(found[False])
    print("| | goodput/s of each turn | mean |\n|---|---|---|")
    for stands, label in ((False, "without"), (True, f"{CONNECTIONS} idle connections")):
        turns = " ".join(f"{rate:.1f}" for rate in found[stands])
        print(f"| {label} | {turns} | {statistics.mean(found[stands]):.2f} |")
    print(f"ratio {with_them / without:.4f}, exit status {status}")
    if status != 0 or with_them < without * (1 - LIMIT):
        sys.exit(1)


if __name__ == "__main__":
    main()
