#!/usr/bin/env python3
"""Single pictures of clients beside cameras under overload: bench-pictures.py ASSETS [--cameras 16] [--clients 100] [--seconds 10]

`weir serve` detects on a clip of the asset pack, played as more cameras than the machine can carry, without clients and with clients of
POST /api/infer in turn. A client sends a picture, waits for its answer, and for `Retry-After` where it was refused. A row a phase:
frames of the cameras that arrived, and those that were delivered in time, a second; pictures that were answered with objects a second;
answers by status; the median and the 99th percentile of the time to an answer; how many 429 had `Retry-After`; and processor seconds of
the clients, which the cameras did not have. WEIR names the program.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple, Optional

from street import WEIR

GRAPH = """
[app]
name = "pictures"
slo = "400ms"
{sources}
[models.detector]
model = "{detector}"
[modules.objects]
operator = "detect"
model = "detector"
inputs = {names}
[sinks.none]
type = "null"
inputs = ["objects"]
"""

# Longer answers are errors of the bench: a request ends after 30 s.
TIMEOUT_S = 60


def graph(clip: Path, cameras: int, detector: str) -> str:
    """Detection on so many cameras, which show the clip over and over."""
    names = [f"camera-{number:02}" for number in range(cameras)]
    sources = "".join(f'[sources.{name}]\nuri = "{clip}"\nmode = "live"\nloop = true\n' for name in names)
    return GRAPH.format(sources=sources, detector=detector, names=json.dumps(names))


def ask(at: str, path: str):
    """Status and JSON of a request without a body."""
    connection = http.client.HTTPConnection(at, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def camera_counts(at: str) -> Counter:
    """Frames of the cameras so far that arrived, and that were delivered in time."""
    counts = Counter()
    _, state = ask(at, "/api/state")
    for stream in state["streams"]:
        for key in ("arrived", "delivered"):
            counts[key] += stream["requests"][key]
    return counts


class Answer(NamedTuple):
    """An answer to a client; status 0 where the connection broke."""

    at: float
    status: int
    seconds: float
    retry_after: Optional[str]


def client(at: str, picture: bytes, stop: threading.Event, answers: list) -> None:
    """Sends the picture until it is time to stop."""
    connection = http.client.HTTPConnection(at, timeout=TIMEOUT_S)
    while not stop.is_set():
        began, status, retry_after = time.monotonic(), 0, None
        try:
            connection.request("POST", "/api/infer", picture)
            answer = connection.getresponse()
            answer.read()
            status, retry_after = answer.status, answer.getheader("Retry-After")
        except (OSError, http.client.HTTPException):
            connection.close()
        ended = time.monotonic()
        answers.append(Answer(ended, status, ended - began, retry_after))
        if status != 200:
            stop.wait(float(retry_after or 1))
    connection.close()


def times_of(answers: list) -> str:
    """The median and the 99th percentile of the times to these answers in milliseconds."""
    times = sorted(answer.seconds for answer in answers)
    if not times:
        return "-"
    quantile = lambda share: 1e3 * times[min(len(times) - 1, int(share * len(times)))]
    return f"{quantile(0.5):.0f} / {quantile(0.99):.0f}"


def phase(at: str, clients: int, seconds: float, picture: bytes) -> None:
    """Measures for a time, and prints a row."""
    stop, all_answers = threading.Event(), []
    arguments = (at, picture, stop, all_answers)
    threads = [threading.Thread(target=client, args=arguments) for _ in range(clients)]
    for thread in threads:
        thread.start()
    time.sleep(min(2, seconds / 4))
    began, before, used = time.monotonic(), camera_counts(at), sum(os.times()[:2])
    time.sleep(seconds)
    ended, after, used = time.monotonic(), camera_counts(at), sum(os.times()[:2]) - used
    stop.set()
    for thread in threads:
        thread.join()
    answers = [answer for answer in all_answers if began <= answer.at < ended]
    found = [answer for answer in answers if answer.status == 200]
    statuses = sorted(Counter(answer.status for answer in answers).items())
    busy = [answer for answer in answers if answer.status == 429]
    with_retry = sum(answer.retry_after is not None for answer in busy)
    elapsed = ended - began
    cells = [
        str(clients),
        f"{(after['arrived'] - before['arrived']) / elapsed:.1f}",
        f"{(after['delivered'] - before['delivered']) / elapsed:.1f}",
        f"{len(found) / elapsed:.1f}",
        ", ".join(f"{count} x {status or 'broken'}" for status, count in statuses) or "-",
        times_of(found),
        times_of([answer for answer in answers if answer.status not in (0, 200)]),
        f"{with_retry} of {len(busy)}",
        f"{used:.1f}",
    ]
    print("| " + " | ".join(cells) + " |", flush=True)


def started(folder: Path, text: str):
    """A service of the graph, and the address that it listens on, once frames arrive in all cameras."""
    (folder / "graph.toml").write_text(text)
    log = open(folder / "weir.err", "w")
    command = [WEIR, "serve", "graph.toml", "--listen", "127.0.0.1:0", "--no-watch"]
    service = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
    line = service.stdout.readline()
    if "http://" not in line:
        service.wait()
        sys.exit((folder / "weir.err").read_text())
    at = line.strip().rsplit("http://", 1)[1]
    until = time.monotonic() + TIMEOUT_S
    while ask(at, "/readyz")[0] != 200:
        if time.monotonic() > until or service.poll() is not None:
            service.kill()
            sys.exit("bench-pictures: the service is not ready\n" + (folder / "weir.err").read_text())
        time.sleep(0.2)
    return service, at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("assets", type=Path)
    parser.add_argument("--cameras", type=int, default=16)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10, help="of each phase")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--detector", default="embedded:street-detector")
    given = parser.parse_args()
    assets = given.assets.resolve()
    picture = (assets / "images" / "o4n_cars.jpg").read_bytes()
    text = graph(assets / "videos" / "o4n_traffic_city_640x360.mp4", given.cameras, given.detector)
    heads = ["clients", "frames/s", "in time/s", "pictures/s", "answers", "found ms p50 / p99", "refused ms p50 / p99"]
    heads += ["429 with Retry-After", "clients' processor s"]
    with tempfile.TemporaryDirectory() as folder:
        service, at = started(Path(folder), text)
        try:
            # The policy has measured the model by then.
            time.sleep(min(5, given.seconds / 2))
            print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)
            for _ in range(given.rounds):
                phase(at, 0, given.seconds, picture)
                phase(at, given.clients, given.seconds, picture)
        finally:
            service.terminate()
            try:
                service.wait(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                service.kill()


if __name__ == "__main__":
    main()
