#!/usr/bin/env python3
"""Detection beside endless loops of equal priority that are switched on and off: bench-shared-machine.py ASSETS

At each load alone, and with one and two loops that are off for five seconds and on for five, in turn. A row a run: goodput, and
its ratio to what the remaining processors would give; the share of device time that was wasted; what the loops took.

    remaining = workers / (workers + loops)         by equal shares of all that wants to run, on as many processors as workers
    reference = mean over the phases of min(arriving, capacity * (remaining while they are on, else 1))
    ratio     = goodput / reference

The capacity is the goodput alone when half as much again arrives as was sustained; the reference at no loop is what was
measured alone. LOADS (0.9 1.5), LOOPS (1 2), SECONDS_EACH (40), POLICIES, lines of [policy] separated by "|".
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "shared-machine"
SECONDS = float(os.environ.get("SECONDS_EACH", "40"))
LOADS = [float(load) for load in os.environ.get("LOADS", "0.9 1.5").split()]
LOOPS = [int(count) for count in os.environ.get("LOOPS", "1 2").split()]
POLICIES = os.environ.get("POLICIES", 'preset = "weir"').split("|")
WEIR = os.environ.get("WEIR", str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "weir"))
CAMERAS, PHASE = int(os.environ.get("CAMERAS", "4")), 5.0
WORKERS = len(os.sched_getaffinity(0))

HEAD = """
[app]
name = "shared-machine"
slo = "{slo}"
[policy]
{policy}
[sources.camera]
uri = "{video}"
sample = "{fps:.3f}fps"
[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = {outputs}
"""

DETECTION = """
[models.detector]
model = "zoo:yolox-nano"
[modules.detect]
operator = "detect"
model = "detector"
inputs = ["camera"]
"""

TRAFFIC = """
[models.detector]
model = "embedded:street-detector"
batch = [1, 2, 4]
[models.plate-reader]
model = "embedded:plate-reader"
batch = [1, 2, 4, 8]
[models.face-embedder]
model = "embedded:street-faces"
batch = [1, 2, 4, 8]
[modules.objects]
operator = "detect"
model = "detector"
inputs = ["camera"]
[modules.plates]
operator = "read-text"
model = "plate-reader"
inputs = ["objects"]
regions = ["plate"]
attribute = "plate"
widen = 0.08
min_side = 6
max_items = 32
[modules.identities]
operator = "embed"
model = "face-embedder"
inputs = ["objects"]
regions = ["face"]
attribute = "identity"
widen = 0.1
min_side = 10
max_items = 32
gallery = "{gallery}"
match_threshold = 0.2
"""

GRAPHS = {"detection": (DETECTION, ["detect"]), "traffic": (TRAFFIC, ["plates", "identities"])}
GRAPH = os.environ.get("GRAPH", "detection")
SLO = os.environ.get("SLO", "400ms")


class Loops:
    """Endless loops that come and go."""

    def __init__(self, count: int) -> None:
        self.count, self.running, self.took = count, [], 0.0

    def switch(self, on: bool) -> None:
        if on and not self.running:
            command = ["sh", "-c", "while :; do :; done"]
            self.running = [subprocess.Popen(command) for _ in range(self.count)]
        elif not on:
            for process in self.running:
                process.kill()
                _, _, usage = os.wait4(process.pid, 0)
                process.returncode = 0
                self.took += usage.ru_utime + usage.ru_stime
            self.running = []


def run(video: Path, policy: str, rate: float, count: int, mirror: Path) -> dict:
    """One run in which frames arrive at `rate`: its report, with the processor seconds of the loops."""
    graph, report = OUT / "graph.toml", OUT / "report.json"
    modules, outputs = GRAPHS[GRAPH]
    head = HEAD.format(video=video, policy=policy.replace(";", "\n"), fps=rate / CAMERAS, slo=SLO, outputs=json.dumps(outputs))
    graph.write_text(head + modules.format(gallery=ROOT / "videos" / "gallery"))
    report.unlink(missing_ok=True)
    command = [WEIR, "replay", str(graph), str(video), "--streams", str(CAMERAS), "--loop"]
    command += ["--duration", f"{SECONDS:.0f}s", "--report", str(report), "--out", str(OUT)]
    command += os.environ.get("WEIR_FLAGS", "").split()
    environment = {"WEIR_MODEL_MIRROR": str(mirror), **os.environ}
    loops, log = Loops(count), OUT / "weir.log"
    with open(log, "w") as errors, subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=errors) as process:
        began = time.monotonic()
        try:
            while process.poll() is None:
                loops.switch((time.monotonic() - began) % (2 * PHASE) >= PHASE)
                time.sleep(0.05)
        finally:
            loops.switch(False)
    if not report.exists():
        sys.exit(f"bench-shared-machine: no report of {' '.join(command)}\n{log.read_text()}")
    found = json.loads(report.read_text())
    found["loops_s"] = loops.took
    return found


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    assets = Path(sys.argv[1])
    clips = {"detection": assets / "videos" / "o4n_traffic_city_640x360.mp4", "traffic": ROOT / "videos" / "street-day.mp4"}
    video = clips[GRAPH]
    OUT.mkdir(parents=True, exist_ok=True)
    print("| policy | load | loops | arrived/s | goodput/s | of the rest | wasted | p99 ms | loops s | dropped |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    capacity = float(os.environ.get("CAPACITY", "0")) or run(video, POLICIES[0], 30.0 * CAMERAS, 0, assets / "models")["goodput_rps"]
    for policy in POLICIES:
        for load in LOADS:
            alone = None
            for count in [0, *LOOPS]:
                found = run(video, policy, min(load * capacity, 30.0 * CAMERAS), count, assets / "models")
                arrived = found["requests"]["arrived"] / found["run"]["duration_s"]
                goodput = found["goodput_rps"]
                alone = goodput if alone is None else alone
                remaining = WORKERS / (WORKERS + count)
                reference = (min(alone, arrived) + min(arrived, capacity * remaining)) / 2 if count else alone
                drops = " ".join(f"{drop['reason']} {drop['count']}" for drop in found["drops"])
                cells = [policy.replace("|", " "), f"{load}", str(count), f"{arrived:.1f}", f"{goodput:.1f}"]
                cells += [f"{goodput / max(reference, 1e-9):.2f}", f"{100 * found['invalid_rate']:.1f} %"]
                cells += [f"{found['latency_ms']['p99']:.0f}", f"{found['loops_s']:.1f}", f"late {found['requests']['late']} {drops}"]
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
