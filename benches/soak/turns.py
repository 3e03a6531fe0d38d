"""Goodput of a service under overload, in turns with something beside it and without."""

import json
import os
import shutil
import statistics
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Callable

from cameras import write_street
from service import Service

STREAMS = 8

GRAPH = """
[app]
name = "turns"
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


def compare(
    label: str,
    limit: float,
    beside: Callable[[Service, list[str]], AbstractContextManager],
    *,
    pairs: int,
    window_s: float,
    said: Callable[[], str] = str,
) -> None:
    """Detection in eight streams of the service that the command line names, `pairs` turns of each kind, `window_s` each.
    Prints goodput of both, and what `said` says at the end; exits with 1 where it is by more than `limit` less beside it."""
    if len(sys.argv) != 3:
        sys.exit(sys.modules["__main__"].__doc__)
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
        for turn in range(2 * pairs):
            # Which kind comes first changes, too.
            is_beside = (turn + turn // 2) % 2 == 0
            with beside(service, names) if is_beside else nullcontext():
                time.sleep(2)
                found[is_beside].append(goodput(service, window_s))
                assert service.ask("GET", "/healthz")[0] == 200
            time.sleep(1)
        status = service.stop()
    finally:
        service.process.kill()
    with_it, without = statistics.mean(found[True]), statistics.mean(found[False])
    print("| | goodput/s of each turn | mean |\n|---|---|---|")
    for is_beside, name in ((False, "without"), (True, label)):
        turns = " ".join(f"{rate:.1f}" for rate in found[is_beside])
        print(f"| {name} | {turns} | {statistics.mean(found[is_beside]):.2f} |")
    if what := said():
        print(what)
    print(f"ratio {with_it / without:.4f}, load {os.getloadavg()[0]:.1f}, exit status {status}")
    if status != 0 or with_it < without * (1 - limit):
        sys.exit(1)
