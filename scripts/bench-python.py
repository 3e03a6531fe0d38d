#!/usr/bin/env python3
"""An operator in Python beside its twin in Rust: bench-python.py [--cameras 8] [--rate 200] [--seconds 30] [--rounds 4] [--kill-every 10]

`weir run` detects on a clip of the repository, played as more cameras than the machine can carry: the rest of the graph. Beside it, a stream
of so many pictures a second, 640 x 360, has the mean colour of each computed, on a slot of its own: in turn by the engine itself (a net of
one node that averages, read by the head `classify`), by a function in Python, and by that function while its process is killed every
`--kill-every` seconds. A row a run: frames of the rest delivered in time a second, items of the colours that were computed a second, and
those that were dropped. The last rows are medians over the rounds, as ratios of the rest to the run with the twin of the same round.
WEIR names the program; its `python3` has NumPy.
"""

import argparse
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path

from street import CLIP, run_graph

WIDTH, HEIGHT = 640, 360

GRAPH = """
[app]
name = "colours"
slo = "400ms"
{sources}
[sources.pictures]
uri = "emulated:uniform?rate={rate}&size={width}x{height}"
mode = "live"
[devices.cpu]
slots = 1
[devices."cpu:colour"]
slots = 1
[models.detector]
model = "embedded:street-detector"
[modules.objects]
operator = "detect"
model = "detector"
inputs = ["camera-*"]
{colours}
[sinks.none]
type = "null"
inputs = ["objects", "colours"]
"""

RUST = """
[models.mean]
model = "mean.onnx"
head = "classify"
activation = "none"
labels = ["red", "green", "blue"]
channels = "rgb"
mean = "0"
std = "255"
resize = "stretch"
device = "cpu:colour"
[modules.colours]
operator = "classify"
model = "mean"
inputs = ["pictures"]
"""

PYTHON = """
[modules.colours]
operator = "python:colours.mean"
inputs = ["pictures"]
device = "cpu:colour"
"""

FUNCTION = """
import numpy
import weir

NAMES = ("red", "green", "blue")

@weir.operator
def mean(items):
    results = []
    for item in items:
        # Rows first: a mean over both axes of bytes takes 50 times as long in NumPy.
        rows = item.pixels.sum(axis=0, dtype=numpy.uint32)
        means = rows.sum(axis=0) / (255 * item.pixels.shape[0] * item.pixels.shape[1])
        largest = int(means.argmax())
        results.append({"class": (NAMES[largest], float(means[largest]))})
    return results
"""


def field(number: int, value) -> bytes:
    """A field of a protocol buffer: a whole number, a text, or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def mean_net() -> bytes:
    """An ONNX net that averages the three planes of a picture."""

    def port(name, sizes):
        dims = b"".join(field(1, field(2, size) if isinstance(size, str) else field(1, size)) for size in sizes)
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))

    axes = field(5, field(1, "axes") + field(8, 2) + field(8, 3) + field(20, 7))
    keep = field(5, field(1, "keepdims") + field(3, 0) + field(20, 2))
    node = field(1, "picture") + field(2, "means") + field(4, "ReduceMean") + axes + keep
    graph = field(1, node) + field(2, "mean")
    graph += field(11, port("picture", ["batch", 3, HEIGHT, WIDTH])) + field(12, port("means", ["batch", 3]))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def workers_of(process: int) -> list[int]:
    """Worker processes of operators that a process has."""
    children = []
    for task in Path(f"/proc/{process}/task").iterdir():
        try:
            children += (task / "children").read_text().split()
        except OSError:
            pass
    workers = []
    for child in map(int, children):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"-c" in words[:2] and b"python" in words[0]:
            workers.append(child)
    return workers


def killer(seconds: float):
    """Kills the workers of a run again and again."""

    def meanwhile(process) -> None:
        due = None
        while process.poll() is None:
            time.sleep(0.1)
            workers = workers_of(process.pid)
            if due is None:
                # The first one is part of the start, which fails without it.
                due = time.monotonic() + seconds if workers else None
            elif time.monotonic() >= due:
                due += seconds
                for worker in workers:
                    os.kill(worker, signal.SIGKILL)

    return meanwhile


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=int, default=8)
    parser.add_argument("--rate", type=float, default=200, help="pictures a second")
    parser.add_argument("--seconds", type=float, default=30, help="of each run")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--kill-every", type=float, default=10, help="seconds")
    given = parser.parse_args()
    camera = '[sources.camera-{:02}]\nuri = "{}"\nmode = "live"\nloop = true\n'
    sources = "".join(camera.format(number, f"{CLIP}.mp4") for number in range(given.cameras))
    variants = {
        "Rust": (RUST, None),
        "Python": (PYTHON, None),
        "Python, killed": (PYTHON, killer(given.kill_every)),
    }
    goodputs = {name: [] for name in variants}
    print("| round | colours by | rest in time/s | colours/s | colours dropped |\n|" + "---|" * 5, flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "mean.onnx").write_bytes(mean_net())
        (folder / "colours.py").write_text(FUNCTION)
        for number in range(given.rounds):
            # So that a machine that slows down favours none.
            order = list(variants) if number % 2 == 0 else list(variants)[::-1]
            for variant in order:
                colours, meanwhile = variants[variant]
                text = GRAPH.format(sources=sources, rate=given.rate, width=WIDTH, height=HEIGHT, colours=colours)
                report = run_graph(folder, text, given.seconds, ["--python", "."], meanwhile)
                streams = report["streams"]
                rest = sum(stream["requests"]["delivered"] for name, stream in streams.items() if name != "pictures")
                own = streams["pictures"]["requests"]
                goodputs[variant].append(rest / given.seconds)
                cells = [f"{rest / given.seconds:.2f}", f"{own['delivered'] / given.seconds:.1f}", str(own["dropped"])]
                print(f"| {number + 1} | {variant} | " + " | ".join(cells) + " |", flush=True)
    for name in list(variants)[1:]:
        ratios = [one / other for one, other in zip(goodputs[name], goodputs["Rust"]) if other]
        print(f"{name}: {statistics.median(ratios):.4f} of the goodput of the rest beside Rust (median of {len(ratios)})")


if __name__ == "__main__":
    main()
