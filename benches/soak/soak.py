#!/usr/bin/env python3
"""A service under twice the load that it sustains, and everything going wrong: soak.py WEIR OUT

`weir serve` on detection in real RTSP cameras and on emulated streams. Every ten seconds streams are added and removed, one
is paused and resumed, and a camera is killed, frozen, garbled, cut, stalled or slowed; now and then the reader of the events
stalls; one batch in a hundred of a model fails. Then all is mended, and the books must hold: every request that arrived
ended, no invariant was broken, memory, threads and handles are where they were, every camera is live.

SOAK_SECONDS is the length (1800). SOAK_RECORD=1 keeps the event log and has `weir verify` decide it again; it takes some
megabytes a minute, so by default it is kept of runs up to ten minutes. SOAK_SEED (1) chooses what happens.
"""

import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from cameras import FAULTS, Camera, available, write_clip
from service import Service

SECONDS = float(os.environ.get("SOAK_SECONDS", "1800"))
RECORD = os.environ.get("SOAK_RECORD", "1" if SECONDS <= 600 else "0") == "1"
SEED = int(os.environ.get("SOAK_SEED", "1"))
CAMERAS = int(os.environ.get("SOAK_CAMERAS", "6"))
ROUND_S = 10.0
# Every so many rounds the graph is swapped.
SWAP_ROUNDS = 5
SAMPLE_S = 2.0
# What is mended has this long to come back: reconnection waits up to 30 s, and a camera takes seconds to begin.
RECOVERY_S = 90.0
# Before this, what is allocated once may not be there yet.
WARM_UP_S = 20.0
MEMORY_LIMIT = 0.10
# The least load, as a multiple of what comes out in time, under which the run says something.
MIN_LOAD = 1.5

# Objective and batch sizes of the detector.
VARIANTS = (("400ms", "[1, 2, 4]"), ("500ms", "[1, 2]"))
# Another graph is in force, or refused, within this time on a machine that has twice too much to do.
SWAP_S = 60.0

# In turn; the last is the default.
POLICIES = ({"drop": "pard"}, {"drop": "weir", "order": "fcfs"}, {})

HEAD = """
[app]
name = "soak"
slo = "{slo}"
"""

GRAPH = """
[sources.load-1]
uri = "emulated:poisson?rate=150&seed=1"
[sources.load-2]
uri = "emulated:poisson?rate=150&seed=2"
weight = 3
[devices."emulated:second"]
slots = 1
[models.detector]
model = "embedded:street-detector"
batch = BATCH
# Two hundred items a second, and one batch in a hundred fails.
[models.unreliable]
device = "emulated:second"
batch = [1, 2, 4, 8]
profile = { "1" = "8ms", "8" = "40ms" }
fail_every = 100
[modules.detect]
operator = "detect"
model = "detector"
inputs = [CAMERAS]
[modules.look]
operator = "emulate"
model = "unreliable"
inputs = ["detect", "load-1", "load-2"]
# What stalls: its reader does.
[sinks.lines]
type = "jsonl"
path = "-"
when_slow = "skip"
inputs = ["look"]
[sinks.files]
type = "jsonl"
path = "events-{stream}.jsonl"
rotate_size = "8MiB"
keep = 1
inputs = ["look"]
"""


def graph(cameras: list[Camera], slo: str, batch: str) -> str:
    text = HEAD.format(slo=slo)
    for number, camera in enumerate(cameras):
        decode = "as-needed" if number % 2 else "all"
        text += f'[sources.{camera.name}]\nuri = "{camera.uri}"\ndecode = "{decode}"\n'
    names = ", ".join(f'"{camera.name}"' for camera in cameras)
    return text + GRAPH.replace("CAMERAS", names).replace("BATCH", batch)


class Soak:
    """A run: what happens, what was seen, and what was wrong."""

    def __init__(self, service: Service, cameras: list[Camera], folder: Path) -> None:
        self.service, self.cameras, self.folder = service, cameras, folder
        self.random = random.Random(SEED)
        self.began = time.monotonic()
        self.samples: list[tuple[float, dict[str, int]]] = []
        self.wrong: list[str] = []
        self.done: dict[str, int] = {}
        self.guests: list[str] = []
        self.paused: str | None = None
        self.next_guest, self.variant = 0, 0
        self.rounds_began, self.rounds_ended = 0.0, 0.0

    def age(self) -> float:
        return time.monotonic() - self.began

    def fail(self, what: str) -> None:
        self.wrong.append(f"at {self.age():.0f} s: {what}")
        print(f"soak: {self.wrong[-1]}", file=sys.stderr, flush=True)

    def count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    def ask(self, what: str, method: str, path: str, body: object = None, expected: tuple[int, ...] = (200, 201)) -> object:
        """A request that must succeed."""
        try:
            status, answer = self.service.ask(method, path, body)
        except (OSError, ValueError) as error:
            self.fail(f"{method} {path}: {error!r}")
            return None
        if status not in expected:
            self.fail(f"{method} {path}: {status} {answer}")
            return None
        self.count(what)
        return answer

    def watch(self, seconds: float) -> None:
        """Samples the process for so long."""
        end = time.monotonic() + seconds
        while True:
            if self.service.process.poll() is not None:
                raise SystemExit(f"soak: the service ended with {self.service.process.returncode}:\n{self.service.said()}")
            self.samples.append((self.age(), self.service.sample()))
            self.keep_sample(*self.samples[-1])
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(SAMPLE_S, left))

    def wait_until_live(self) -> list[str]:
        """Waits until every camera is live; names those that are not in time."""
        end = time.monotonic() + RECOVERY_S
        while True:
            states = self.service.states()
            down = [camera.name for camera in self.cameras if states.get(camera.name, {}).get("state") != "live"]
            if not down or time.monotonic() > end:
                return [f"{name}: {states.get(name)}" for name in down]
            self.watch(0.5)

    def add_guest(self) -> None:
        name, kind = f"guest-{self.next_guest}", self.next_guest % 4
        self.next_guest += 1
        uris = ["emulated:uniform?rate=60", str(self.folder / "street.mp4"), self.cameras[0].uri, "rtsp://127.0.0.1:1/live"]
        body = {"name": name, "uri": uris[kind], "like": "load-1" if kind == 0 else self.cameras[0].name}
        if kind == 1:
            body |= {"loop": True, "mode": "live"}
        if self.ask("streams added", "POST", "/api/streams", body) is not None:
            self.guests.append(name)

    def remove_guest(self) -> None:
        name = self.guests.pop(0)
        gone = self.ask("streams removed", "DELETE", f"/api/streams/{name}")
        if gone is not None:
            self.check_counts(f"{name}, which was removed", gone["requests"], ended=True)
        for file in self.folder.glob(f"events-{name}.*"):
            file.unlink()

    def check_counts(self, what: str, counts: dict[str, int], ended: bool = False) -> None:
        """arrived = delivered + late + dropped + in flight, which is nought where all has ended."""
        outcomes = counts["delivered"] + counts["late"] + counts["dropped"] + counts["in_flight"]
        if counts["arrived"] != outcomes or (ended and counts["in_flight"]):
            self.fail(f"the books of {what} do not hold: {counts}")

    def check_state(self) -> None:
        state = self.ask("looks at the books", "GET", "/api/state")
        if state is not None:
            self.check_report(state["report"], ended=False)
        for path in ("/metrics", "/api/drops"):
            self.ask("reads of metrics and drops", "GET", path)
        self.ask("reads of readiness", "GET", "/readyz", expected=(200, 503))

    def check_report(self, report: dict, ended: bool) -> None:
        streams = {name: stream["requests"] for name, stream in report["streams"].items()}
        if "removed_streams" in report:
            streams["the streams that were removed"] = report["removed_streams"]["requests"]
        for name, counts in [*streams.items(), ("the run", report["requests"])]:
            self.check_counts(name, counts, ended)
        for outcome, total in report["requests"].items():
            together = sum(counts[outcome] for counts in streams.values())
            if together != total:
                self.fail(f"{outcome}: {together} of all streams, {total} of the run")
        dropped = sum(drop["count"] for drop in report["drops"])
        if dropped != report["requests"]["dropped"]:
            self.fail(f"drops by reason are {dropped}, requests dropped {report['requests']['dropped']}")

    def change_engine(self, number: int) -> None:
        """Another policy, another weight of a stream; now and then another graph, and after it one that is broken."""
        self.ask("policies changed", "PUT", "/api/policy", POLICIES[number % len(POLICIES)])
        self.ask("weights changed", "PATCH", "/api/streams/load-2", {"weight": 1 + number % 3})
        if number % SWAP_ROUNDS == 2:
            self.swap_graph()
        elif number % SWAP_ROUNDS == 3:
            self.break_graph()

    def swap_graph(self) -> None:
        """The file has another objective and other batch sizes: a graph of its own."""
        before = self.ask("looks at the graph", "GET", "/api/graph")
        self.variant += 1
        # Streams that were added have tables at the end of the file.
        added = (self.folder / "graph.toml").read_text().partition("\n# Added while weir serve ran.\n")
        self.write_graph(graph(self.cameras, *VARIANTS[self.variant % len(VARIANTS)]) + "".join(added[1:]))
        end = time.monotonic() + SWAP_S
        while before is not None and time.monotonic() < end:
            self.watch(0.5)
            now = self.ask("looks at the graph", "GET", "/api/graph")
            if now is not None and now["reloads"] > before["reloads"]:
                self.count("graphs swapped")
                return
        self.fail(f"the graph was not swapped in {SWAP_S:.0f} s: {now and now['problems']}")

    def break_graph(self) -> None:
        """Half a file is refused, with its problems; the graph in force goes on, and the whole file is taken again."""
        whole = (self.folder / "graph.toml").read_text()
        self.write_graph(whole[: len(whole) * 2 // 3])
        os.kill(self.service.process.pid, signal.SIGHUP)
        end = time.monotonic() + SWAP_S
        while time.monotonic() < end:
            self.watch(0.5)
            now = self.ask("looks at the graph", "GET", "/api/graph")
            if now is not None and now["problems"]:
                self.count("half files refused")
                break
        else:
            self.fail(f"half a graph was not refused in {SWAP_S:.0f} s")
        self.write_graph(whole)

    def write_graph(self, text: str) -> None:
        """Replaces the file as editors do."""
        file = self.folder / "graph.toml.new"
        file.write_text(text)
        file.replace(self.folder / "graph.toml")

    def round(self, number: int) -> None:
        """Ten seconds: changes, a camera that fails, a reader that stalls."""
        fault = FAULTS[number % len(FAULTS)]
        # The first camera is never broken: one that goes on all the while.
        camera = self.random.choice(self.cameras[1:])
        camera.break_by(fault)
        self.count(f"cameras: {fault}")
        self.add_guest()
        if len(self.guests) > 3:
            self.remove_guest()
        if self.paused:
            self.ask("streams resumed", "POST", f"/api/streams/{self.paused}/resume")
            self.paused = None
        else:
            self.paused = self.random.choice([*(camera.name for camera in self.cameras[1:]), "load-1", "load-2"])
            self.ask("streams paused", "POST", f"/api/streams/{self.paused}/pause")
        self.change_engine(number)
        if number % 3 == 1:
            self.service.stall_reader()
            self.count("reader of events stalled")
        self.watch(ROUND_S * 0.7)
        camera.mend()
        self.service.resume_reader()
        self.check_state()
        self.watch(max(0.0, (number + 1) * ROUND_S - (self.age() - self.rounds_began)))

    def run(self) -> None:
        """All of it, until the service is as it was after its start."""
        down = self.wait_until_live()
        if down:
            raise SystemExit(f"soak: cameras are not live at the beginning: {down}")
        self.watch(3 * SAMPLE_S)
        self.before = self.samples[-1][1]
        self.rounds_began = self.age()
        number = 0
        while self.age() < SECONDS - ROUND_S:
            self.round(number)
            number += 1
        self.rounds_ended = self.age()
        if self.paused:
            self.ask("streams resumed", "POST", f"/api/streams/{self.paused}/resume")
        while self.guests:
            self.remove_guest()
        for name in self.wait_until_live():
            self.fail(f"not live at the end: {name}")
        # Threads and handles of what was removed are gone when it is answered; connections of the API take a moment.
        for _ in range(10):
            self.watch(1.0)
            if self.samples[-1][1]["handles"] <= self.before["handles"]:
                break

    def keep_sample(self, at: float, sample: dict[str, int]) -> None:
        """Adds a line to samples.csv: the time in seconds, what the service holds, and what was done so far."""
        columns = {"at_s": round(at, 1), **sample, **{what: self.done.get(what, 0) for what in ("graphs swapped", "streams removed")}}
        with (self.folder / "samples.csv").open("a") as file:
            if file.tell() == 0:
                file.write(",".join(columns) + "\n")
            file.write(",".join(map(str, columns.values())) + "\n")

    def memory(self) -> tuple[float, float]:
        """The level that memory had, and the one that it has, in megabytes."""
        warm = [(at, sample["rss"] / 1024) for at, sample in self.samples if at >= WARM_UP_S]
        end = self.rounds_ended
        # Memory goes up and down with the graphs that are swapped, so both are taken over whole times between swaps.
        span = 2 * SWAP_ROUNDS * ROUND_S
        if end > 600:
            level = [rss for at, rss in warm if abs(at - 300) <= span / 2]
            now = [rss for at, rss in warm if end - span <= at <= end]
        else:
            third = max(1, len(warm) // 3)
            level, now = [rss for _, rss in warm[:third]], [rss for _, rss in warm[-third:]]
        return statistics.median(level), statistics.median(now)


def row(what: str, found: str, limit: str, holds: bool) -> bool:
    print(f"| {what} | {found} | {limit} | {'holds' if holds else '**does not hold**'} |")
    return holds


def judge(soak: Soak, status: int, verified: tuple[bool, str] | None) -> bool:
    """Prints the table; says whether all holds."""
    report = json.loads((soak.folder / "report.json").read_text())
    soak.check_report(report, ended=True)
    counts, after = report["requests"], soak.samples[-1][1]
    load = counts["arrived"] / max(1, counts["delivered"])
    (level, now), broken = soak.memory(), report.get("invariants", {})
    failed = sum(drop["count"] for drop in report["drops"] if drop["reason"] == "failed")
    outages = sum(stream.get("health", {}).get("outages", 0) for stream in report["streams"].values())
    print("\n| what | found | limit | |\n|---|---|---|---|")
    ended = f"{counts['delivered']} delivered, {counts['late']} late, {counts['dropped']} dropped, {counts['in_flight']} in flight"
    holds = [
        row("exit status", str(status), "0", status == 0),
        row("requests", f"{counts['arrived']} arrived: {ended}", "all ended, for each stream", counts["in_flight"] == 0),
        row("load over goodput", f"{load:.1f}", f"at least {MIN_LOAD}", load >= MIN_LOAD),
        row("invariants broken", str(broken or "none"), "none", not broken),
        row("memory", f"{level:.0f} MB, then {now:.0f} MB", f"+{MEMORY_LIMIT:.0%}", now <= level * (1 + MEMORY_LIMIT)),
    ]
    for what in ("threads", "handles"):
        before = soak.before[what]
        holds.append(row(what, f"{before}, then {after[what]}", "no more", after[what] <= before))
    holds += [
        row("lost to batches that fail", str(failed), "some", failed > 0),
        row("outages of cameras", str(outages), "some", outages > 0),
        row("slowest answer of the API", f"{soak.service.slowest_s:.1f} s", "15 s", soak.service.slowest_s < 15),
    ]
    if verified is not None:
        holds.append(row("weir verify", verified[1], "decided the same again", verified[0]))
    holds.append(row("else wrong", "; ".join(soak.wrong[:5]) or "nothing", "nothing", not soak.wrong))
    print("\nWhat was done: " + ", ".join(f"{what} {count}" for what, count in sorted(soak.done.items())) + ".")
    return all(holds)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if not available():
        sys.exit("soak: there is no GstRtspServer for cameras: make setup installs it")
    weir, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    clip = write_clip(folder, SECONDS + 300)
    cameras, service = [Camera(f"camera-{number}", clip) for number in range(CAMERAS)], None
    try:
        (folder / "graph.toml").write_text(graph(cameras, *VARIANTS[0]))
        service = Service(weir, folder, ["--record", "record.jsonl"] if RECORD else [])
        soak = Soak(service, cameras, folder)
        soak.run()
        status = service.stop()
    finally:
        if service and service.process.poll() is None:
            service.process.kill()
        for camera in cameras:
            camera.kill()
    if status != 0:
        print(f"soak: the service ended with {status}:\n{service.said()}", file=sys.stderr)
    verified = None
    if RECORD:
        verify = subprocess.run([str(weir), "verify", "record.jsonl"], cwd=folder, capture_output=True, text=True)
        size = (folder / "record.jsonl").stat().st_size / 1e6
        said = " ".join((verify.stdout + verify.stderr).split())
        verified = (verify.returncode == 0, f"{size:.0f} MB, {said}")
    if not judge(soak, status, verified):
        sys.exit(1)
    for file in folder.glob("*.mp4"):
        file.unlink()


if __name__ == "__main__":
    main()
