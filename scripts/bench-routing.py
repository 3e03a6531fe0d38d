#!/usr/bin/env python3
"""Routing over three workers that take 1, 2 and 4 times as long, live: bench-routing.py ASSETS

Eight streams ask for a text about each frame, half of them within 1 s and half within 5 s, at a part of what the workers can do
together. A row for each rule: goodput, what was late or dropped, first tokens, how far the estimated finish was off the actual one,
what moved, tokens by worker. The workers are processes; that they are slower is emulated: each computes as it does and then rests
(weir worker --slowdown). At the end a worker is killed and comes back, and the texts must be those of the undisturbed runs. Then
detection on three parts of the processor that take 1, 2 and 4 times as long, where frames have 0.15 or 1 s.

RULES ("least-requests just-enough weir"), SECONDS_EACH (60), LOAD (0.9), KILLED (two), WEIR, MODEL and VOCABULARY (files), PARTS
(generate kill detect).
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "routing"
SECONDS = float(os.environ.get("SECONDS_EACH", "60"))
LOAD = float(os.environ.get("LOAD", "0.9"))
RULES = os.environ.get("RULES", "least-requests just-enough weir").split()
PARTS = os.environ.get("PARTS", "generate kill detect").split()
KILLED = os.environ.get("KILLED", "two")
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
WEIR = os.environ.get("WEIR", str(TARGET / "release" / "weir"))
SLOWDOWNS = {"one": 1, "two": 2, "four": 4}
STREAMS = 8
PORT = int(os.environ.get("PORT", "7301"))
PROBE_SECONDS = float(os.environ.get("PROBE_SECONDS", "15"))
MAX_TOKENS = int(os.environ.get("MAX_TOKENS", "96"))

JUST_ENOUGH_BETTER = '{ rule = "just-enough", moves = "better" }'


def rule_of(name: str) -> str:
    """As the graph has it."""
    return JUST_ENOUGH_BETTER if name == "just-enough-better" else json.dumps(name)


def sources(rate: float, objectives: list[str]) -> str:
    """Streams that arrive at `rate` frames a second together."""
    table = '[sources.s{n}]\nuri = "emulated:poisson?rate={rate:.4f}&seed={n}"\nslo = "{slo}"\nmode = "live"\n'
    each = [table.format(n=n, rate=rate / STREAMS, slo=objectives[n % len(objectives)]) for n in range(1, STREAMS + 1)]
    return "".join(each)


def inputs() -> str:
    return json.dumps([f"s{n}" for n in range(1, STREAMS + 1)])


class Workers:
    """The three processes."""

    def __init__(self) -> None:
        self.processes = {}
        for name in SLOWDOWNS:
            self.start(name)

    @staticmethod
    def port(name: str) -> int:
        return PORT + list(SLOWDOWNS).index(name)

    def start(self, name: str) -> None:
        command = [WEIR, "worker", "--listen", f"127.0.0.1:{self.port(name)}", "--class", name]
        command += ["--slowdown", str(SLOWDOWNS[name])]
        log = open(OUT / f"worker-{name}.log", "a")
        self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port(name))) == 0:
                    return
            time.sleep(0.05)
        sys.exit(f"bench-routing: worker {name} does not listen; see {log.name}")

    def kill(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


def generating(rule: str, rate: float) -> str:
    workers = "".join(
        f'[workers.{name}]\nclass = "{name}"\naddress = "127.0.0.1:{Workers.port(name)}"\n' for name in SLOWDOWNS
    )
    devices = json.dumps([f"worker:{name}" for name in SLOWDOWNS])
    return f"""
[app]
name = "routing"
slo = "5s"
[policy]
route = {rule_of(rule)}
{sources(rate, ["1s", "5s"])}
{workers}
[models.writer]
model = "{MODEL}"
head = "generate"
vocabulary = "{VOCABULARY}"
devices = {devices}
max_sequences = 16
[modules.report]
operator = "describe"
model = "writer"
inputs = {inputs()}
template = "Once upon a time, there was a"
max_tokens = {MAX_TOKENS}
temperature = 0.9
[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["report"]
"""


def detecting(rule: str, rate: float) -> str:
    parts = "".join(f'[devices."cpu:{name}"]\nslowdown = {slow}\n' for name, slow in SLOWDOWNS.items())
    devices = json.dumps([f"cpu:{name}" for name in SLOWDOWNS])
    return f"""
[app]
name = "routing"
slo = "1s"
[policy]
route = {rule_of(rule)}
{sources(rate, ["150ms", "1s"])}
{parts}
[models.detector]
model = "embedded:street-detector-small"
devices = {devices}
batch = [1, 2, 4]
[modules.detect]
operator = "detect"
model = "detector"
inputs = {inputs()}
[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["detect"]
"""


def run(text: str, seconds: float, during=None) -> dict:
    """One run of a graph: its report."""
    graph, report = OUT / "graph.toml", OUT / "report.json"
    graph.write_text(text)
    report.unlink(missing_ok=True)
    command = [WEIR, "run", str(graph), "--duration", f"{seconds:.0f}s", "--report", str(report)]
    with open(OUT / "weir.log", "w") as log, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log) as process:
        if during:
            threading.Thread(target=during, args=(process,), daemon=True).start()
        process.wait()
    if not report.exists():
        sys.exit(f"bench-routing: no report of {' '.join(command)}\n{(OUT / 'weir.log').read_text()}")
    return json.loads(report.read_text())


def texts() -> dict:
    """What was said of each frame of the last run."""
    said = {}
    for line in (OUT / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        for found in event.get("objects", []):
            text = found.get("attributes", {}).get("text")
            if text is not None:
                # Its score is a mean of probabilities, whose last digit depends on what ran beside it.
                said[(event.get("stream"), event.get("frame"))] = text["text"]
    return said


def in_time(report: dict) -> int:
    return report["requests"]["delivered"]


def row(name: str, report: dict, module: str, seconds: float) -> None:
    requests, found = report["requests"], report["modules"][module]
    line = f"{name}: goodput {in_time(report) / seconds:.2f}/s of {requests['arrived'] / seconds:.2f}/s"
    line += f", late {requests['late']}, dropped {requests['dropped']}"
    tight = [stream["requests"] for name, stream in sorted(report["streams"].items())]
    share = [sum(r["delivered"] for r in tight[k::2]) / max(1, sum(r["arrived"] for r in tight[k::2])) for k in (0, 1)]
    # Streams with odd numbers come first in the list, and have the second objective.
    line += f", in time {100 * share[1]:.1f} % of the tight and {100 * share[0]:.1f} % of the loose"
    said = found.get("sequences")
    if said:
        error = said["estimate_error_ms"]
        line += f"; first token p50 {said['first_token_ms']['p50']:.0f} ms, p90 {said['first_token_ms']['p90']:.0f} ms"
        line += f"; finish off by {said['estimate_error_mean_ms']:.0f} ms in the mean, p90 {error['p90']:.0f} ms"
        line += f" (later than thought by {said['estimate_late_mean_ms']:.0f} ms)"
        line += f"; moved {said['moved']}, lost {said['lost']}"
    items = sum(slot["items"] for slot in found.get("slots", [])) or 1
    shares = ", ".join(f"{slot['device']} {100 * slot['items'] / items:.0f} %" for slot in found.get("slots", []))
    print(f"{line}; {shares}", flush=True)


def load() -> str:
    return Path("/proc/loadavg").read_text().split()[0]


def capacity(graph, module: str, objective: float) -> float:
    """Requests a second of an overload, of what was delivered at all. `least-requests` keeps every worker busy."""
    rate = float(os.environ.get("PROBE_RATE", "40"))
    for _ in range(4):
        report = run(graph("least-requests", rate), PROBE_SECONDS)
        done = report["requests"]["delivered"] + report["requests"]["late"]
        if done < 0.8 * report["requests"]["arrived"]:
            return done / PROBE_SECONDS
        rate *= 3
    return done / PROBE_SECONDS


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    print(f"load of the last minute: {load()}", flush=True)
    known: dict = {}

    def compare(name: str) -> None:
        now = texts()
        same = [key for key in now if key in known]
        wrong = [key for key in same if known[key] != now[key]]
        for key in wrong[:3]:
            print(f"{name}: {key} was {known[key]!r} and is {now[key]!r}", flush=True)
        known.update({key: text for key, text in now.items() if key not in known})
        print(f"{name}: {len(now)} texts, {len(same)} of them known from runs before, {len(wrong)} differ", flush=True)

    if "generate" in PARTS or "kill" in PARTS:
        workers = Workers()
        try:
            can = float(os.environ.get("CAPACITY", 0)) or capacity(generating, "report", 5.0)
            rate = LOAD * can
            print(f"the workers can do {can:.2f}/s together; {rate:.2f}/s arrive", flush=True)
            if "generate" in PARTS:
                for rule in RULES:
                    row(rule, run(generating(rule, rate), SECONDS), "report", SECONDS)
                    compare(rule)
            if "kill" in PARTS:

                def disturb(process) -> None:
                    # The run begins when its models are measured: the log says so.
                    time.sleep(SECONDS / 2)
                    workers.kill(KILLED)
                    time.sleep(SECONDS / 6)
                    workers.start(KILLED)

                for rule in RULES:
                    name = f"{rule}, {KILLED} killed at {SECONDS / 2:.0f} s and back at {SECONDS / 2 + SECONDS / 6:.0f} s"
                    report = run(generating(rule, rate), SECONDS, disturb)
                    row(name, report, "report", SECONDS)
                    requests = report["requests"]
                    ended = requests["delivered"] + requests["late"] + requests["dropped"]
                    print(f"{name}: {requests['arrived']} arrived, {ended} accounted for", flush=True)
                    compare(name)
        finally:
            workers.end()
    if "detect" in PARTS:
        can = float(os.environ.get("DETECT_CAPACITY", 0)) or capacity(detecting, "detect", 1.0)
        rate = LOAD * can
        print(f"detection: the parts can do {can:.1f}/s together; {rate:.1f}/s arrive", flush=True)
        for rule in ["earliest", *[rule for rule in RULES if rule != "earliest"]]:
            row(f"detection, {rule}", run(detecting(rule, rate), SECONDS), "detect", SECONDS)
    print(f"load of the last minute: {load()}", flush=True)


if __name__ == "__main__":
    assets = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("WEIR_ASSETS", ""))
    MODEL = os.environ.get("MODEL", str(assets / "models" / "stories260k_decoder.onnx"))
    VOCABULARY = os.environ.get("VOCABULARY", str(assets / "models" / "tok512.bin"))
    main()
