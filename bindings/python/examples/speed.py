"""Frames a second through Python beside the same graph by the command of the package: the same build in both.

    python speed.py VIDEO [MODEL.onnx [ROUNDS]]
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import weir


def graph(video: str | Path, model: str | Path | None) -> weir.Graph:
    """A detector on every frame, or without a model nothing but the decoder and the engine."""
    built = weir.Graph("speed", slo="60s")
    source = built.source("video", Path(video).resolve(), mode="lossless")
    if model is None:
        nothing = built.model("nothing", device="emulated:a", profile={"1": "1us"})
        found = built.module("found", "emulate", model=nothing, inputs=source)
    else:
        detector = built.model("detector", Path(model).resolve(), labels=["coco"])
        found = built.module("found", "detect", model=detector, inputs=source)
    built.sink("nowhere", "null", inputs=found)
    return built


def by_command(file: Path, video: Path) -> float:
    """Frames a second of ``weir replay``, without the start of the process and of models."""
    report = file.with_suffix(".json")
    arguments = ["replay", str(file), str(video), "--speed", "max", "--report", str(report)]
    subprocess.run([sys.executable, "-m", "weir", *arguments], check=True, capture_output=True)
    read = json.loads(report.read_text())
    return float(read["requests"]["delivered"] / read["run"]["duration_s"])


def by_python(file: Path, frames: bool, use: Callable[[weir.Delivery], object]) -> float:
    """Frames a second of a loop that uses each delivery so."""
    with weir.Engine(file, frames=frames, speed="max") as engine:
        begun = time.monotonic()
        count = 0
        for delivery in engine.deliveries():
            use(delivery)
            count += 1
    return count / (time.monotonic() - begun)


def objects(delivery: weir.Delivery) -> object:
    return [(found.class_name, found.score, found.box) for found in delivery.objects]


def planes(delivery: weir.Delivery) -> object:
    assert delivery.image is not None
    return objects(delivery), [plane[::64, ::64].sum() for plane in delivery.image.planes()]


def rgb(delivery: weir.Delivery) -> object:
    assert delivery.image is not None
    return objects(delivery), delivery.image.rgb()[::64, ::64].sum()


def main(video: str | Path, model: str | Path | None = None, rounds: int = 3) -> dict[str, list[float]]:
    """Measures all in turn, so many times; gives frames a second."""
    video = Path(video).resolve()
    measured: dict[str, list[float]] = {"command": [], "objects": [], "planes": [], "rgb": []}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "graph.toml")
        file.write_text(graph(video, model).to_toml())
        for _ in range(rounds):
            measured["command"].append(by_command(file, video))
            measured["objects"].append(by_python(file, False, objects))
            measured["planes"].append(by_python(file, True, planes))
            measured["rgb"].append(by_python(file, True, rgb))
    base = statistics.median(measured["command"])
    for name, rates in measured.items():
        median = statistics.median(rates)
        print(f"{name:8} {median:8.1f} frames/s  {median / base:.2f} of the command")
    return measured


if __name__ == "__main__":
    _, clip, *rest = sys.argv
    main(clip, rest[0] if rest else None, int(rest[1]) if len(rest) > 1 else 3)
