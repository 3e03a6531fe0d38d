#!/usr/bin/env python3
"""What a motion gate saves and what it misses, clip by clip, with the gate and without: bench-stillness.py ASSETS

Two public clips of cameras that see nothing for most of the time, and clips that are made here: a still scene of a public clip, with
its noise and what weather and light do, into which parts of that clip with a passing car are put. A row a clip: the tracks and the
incidents without the gate and how many of them there are with it, the frames that were still, and processor seconds of both. The last
rows are a camera that sees nothing: processor time as a part of one core. With a Python that has NumPy.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "stillness"
WEIR = os.environ.get("WEIR", str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "weir"))
SIZE, FPS = (640, 360), 25

GRAPH = """
[app]
name = "stillness"
slo = "400ms"
[sources.camera]
uri = "{video}"
gate = "{gate}"
[models.detector]
model = "zoo:yolox-nano"
[modules.detect]
operator = "detect"
model = "detector"
inputs = ["camera"]
[modules.tracks]
operator = "track"
inputs = ["detect"]
classes = ["person", "car", "truck", "bus"]
[transforms.middle]
type = "zone"
inputs = ["tracks"]
points = [[0.1, 0.2], [0.9, 0.2], [0.9, 0.95], [0.1, 0.95]]
anchor = "center"
[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["middle"]
drops = true
"""


def frames_of(video: Path, begin: float, seconds: float) -> np.ndarray:
    """Pictures of a clip in RGB."""
    command = ["ffmpeg", "-v", "error", "-ss", str(begin), "-i", str(video), "-t", str(seconds)]
    command += ["-vf", f"fps={FPS},scale={SIZE[0]}:{SIZE[1]}", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    data = subprocess.run(command, check=True, capture_output=True).stdout
    return np.frombuffer(data, np.uint8).reshape(-1, SIZE[1], SIZE[0], 3)


def tree(videos: Path) -> np.ndarray:
    """Leaves of a public clip."""
    picture = frames_of(videos / "ahm_vehicles_static_640x352.mp4", 1, 0.1)[0]
    return picture[10:110, 330:470]


def made_clip(videos: Path, kind: str, seconds: int, passes: list[int], group: int) -> Path:
    """A still scene in which a car passes at some seconds, in the weather and light of `kind`."""
    clip = OUT / f"{kind}-{len(passes)}-{group}.mp4"
    if clip.exists():
        return clip
    source = videos / "intel_car-detection.mp4"
    empty, car = frames_of(source, 0, 0.1)[0], frames_of(source, 2, 6)
    rng, leaves = np.random.default_rng(7), tree(videos)
    x, y = np.meshgrid(np.arange(SIZE[0]), np.arange(SIZE[1]))
    lamp = 90 * np.exp(-((x - 480) ** 2 + (y - 100) ** 2) / (2 * 120**2))
    command = ["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{SIZE[0]}x{SIZE[1]}", "-r", str(FPS)]
    command += ["-i", "-", "-c:v", "libx264", "-preset", "veryfast", "-bf", "0", "-crf", "26", "-g", str(group)]
    encoder = subprocess.Popen([*command, "-sc_threshold", "0", str(clip)], stdin=subprocess.PIPE)
    noises = rng.normal(0, 1, (16, SIZE[1], SIZE[0], 1)).astype(np.float32)
    for number in range(seconds * FPS):
        at = number / FPS
        begun = [begin for begin in passes if begin <= at < begin + len(car) / FPS]
        picture = (car[int((at - begun[0]) * FPS)] if begun else empty).astype(np.float32)
        noise = 2.0
        if kind == "night":
            picture, noise = picture * 0.3, 6.0
        if kind == "clouds":
            picture = picture * (1 + 0.2 * np.sin(at / 2.5))
        if kind == "lamp" and at > seconds * 0.6:
            picture = picture + lamp[:, :, None]
        if kind == "tree":
            shift = int(round(6 * np.sin(at * 3) + 3 * np.sin(at * 7.1)))
            picture[20:120, 40 + shift : 180 + shift] = leaves
        if kind == "rain":
            for column, row in zip(rng.integers(0, SIZE[0], 60), rng.integers(0, SIZE[1] - 24, 60)):
                picture[row : row + 24, column] += 40
        picture = picture + noise * noises[rng.integers(16)]
        encoder.stdin.write(np.clip(picture, 0, 255).astype(np.uint8).tobytes())
    encoder.stdin.close()
    if encoder.wait() != 0:
        sys.exit("bench-stillness: ffmpeg failed")
    return clip


def run(video: Path, gate: str, assets: Path, speed: str) -> tuple[dict, list[dict]]:
    """The report of a run, and its events."""
    text, report, results = OUT / "graph.toml", OUT / "report.json", OUT / "results"
    text.write_text(GRAPH.format(video=video, gate=gate))
    (results / "events.jsonl").unlink(missing_ok=True)
    command = [WEIR, "replay", str(text), "--report", str(report), "--out", str(results), "--speed", speed]
    done = subprocess.run(command, env={"WEIR_MODEL_MIRROR": str(assets / "models"), **os.environ}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench-stillness: {' '.join(command)}\n{done.stderr}")
    events = [json.loads(line) for path in results.rglob("events.jsonl") for line in path.read_text().splitlines()]
    return json.loads(report.read_text()), events


def overlap(a: list[float], b: list[float]) -> float:
    """Intersection over union."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    area = lambda box: (box[2] - box[0]) * (box[3] - box[1])
    return width * height / (area(a) + area(b) - width * height)


def tracks(events: list[dict]) -> dict[int, dict[int, list[float]]]:
    """Boxes by frame of each track that was seen in at least half a second."""
    boxes = defaultdict(dict)
    for event in events:
        for found in event.get("objects", []) if event["type"] == "frame" else []:
            if "track" in found:
                boxes[found["track"]["id"]][event["frame"]] = found["box"]
    return {track: seen for track, seen in boxes.items() if len(seen) >= FPS // 2}


def found_again(wanted: dict, there: dict) -> int:
    """Tracks that a track of the other run follows somewhere."""
    alike = lambda a, b: any(overlap(box, b[frame]) >= 0.5 for frame, box in a.items() if frame in b)
    return sum(any(alike(track, other) for other in there.values()) for track in wanted.values())


def began(events: list[dict]) -> list[float]:
    return sorted(event["pts_ms"] for event in events if event["type"] == "incident" and event["phase"] == "began")


def matched(wanted: list[float], there: list[float]) -> int:
    """Incidents that began within a second of one of the other run, each once."""
    there = list(there)
    count = 0
    for at in wanted:
        near = [other for other in there if abs(other - at) <= 1_000]
        if near:
            there.remove(min(near, key=lambda other: abs(other - at)))
            count += 1
    return count


def processor(report: dict) -> float:
    return sum(value for name, value in report["processor"].items() if name.endswith("_s"))


def row(cells: list[str]) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("assets", type=Path)
    parser.add_argument("--kinds", nargs="*", default=["day", "night", "rain", "tree", "clouds", "lamp"])
    parser.add_argument("--groups", nargs="*", type=int, default=[25], help="frames between key frames of the clips that are made")
    parser.add_argument("--seconds", type=int, default=80, help="of each clip that is made")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    videos = args.assets / "videos"
    clips = [(name, videos / name) for name in ["intel_one-by-one-person.mp4", "intel_car-detection.mp4"]]
    for group in args.groups:
        passes = [args.seconds // 4, args.seconds * 3 // 4]
        clips += [(f"{kind}, key frames {group / FPS:g} s apart", made_clip(videos, kind, args.seconds, passes, group)) for kind in args.kinds]
    heads = ["clip", "frames", "still", "tracks", "found", "incidents", "found", "processor s", "with gate", "ratio"]
    row(heads)
    print("|" + "---|" * len(heads), flush=True)
    for name, video in clips:
        (whole, all_events), (gated, gated_events) = run(video, "none", args.assets, "1"), run(video, "motion", args.assets, "1")
        wanted, there = tracks(all_events), tracks(gated_events)
        counts = gated["requests"]
        took = [processor(whole), processor(gated)]
        cells = [name, str(counts["arrived"]), f"{100 * counts['still'] / counts['arrived']:.0f} %"]
        cells += [str(len(wanted)), str(found_again(wanted, there)), str(len(began(all_events)))]
        cells += [str(matched(began(all_events), began(gated_events))), f"{took[0]:.1f}", f"{took[1]:.1f}", f"{took[1] / took[0]:.2f}"]
        row(cells)
    for group in args.groups:
        gated, _ = run(made_clip(videos, "day", args.seconds, [], group), "motion", args.assets, "1")
        parts = ", ".join(f"{name[:-2]} {value:.2f} s" for name, value in gated["processor"].items() if value >= 0.01)
        share = 100 * processor(gated) / gated["run"]["duration_s"]
        print(f"\nNothing to see, key frames {group / FPS:g} s apart: {share:.2f} % of a core ({parts}) with the opening of models", flush=True)


if __name__ == "__main__":
    main()
