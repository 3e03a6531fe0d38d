#!/usr/bin/env python3
"""What a motion gate saves and what it misses, clip by clip, with the gate and without: bench-stillness.py ASSETS

Two public clips of cameras that see nothing for most of the time, and clips that are made here: the empty street of the rendered clip
that ships, with noise and what weather and light do, which seven objects pass one after another, in less than a quarter of the time. A
row a clip: how many of the passing objects a track follows without the gate and with it, the tracks and the incidents without the gate
and how many of them there are with it, the frames that were still, and processor seconds of both. The last rows are a camera that sees
nothing: processor time as a part of one core. With a Python that has NumPy.
"""

import argparse
import json
import os
import subprocess
import sys
import warnings
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
model = "{model}"
[modules.detect]
operator = "detect"
model = "detector"
inputs = ["camera"]
[modules.tracks]
operator = "track"
inputs = ["detect"]
classes = {classes}
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


class Street:
    """The empty street of a clip that this repository renders, and objects that pass it one at a time."""

    # The object and its frames in the clip: each is alone where it passes.
    PASSES = [
        (26038239489, 180, 282),
        (8858370560, 274, 313),
        (318095949824, 2, 122),
        (13153337344, 361, 421),
        (17448304640, 443, 499),
        (8858370048, 60, 183),
        (322390982656, 149, 229),
    ]

    def __init__(self) -> None:
        clip = ROOT / "videos" / "street-day.mp4"
        self.frames = frames_of(clip, 0, 60)
        header, *lines = [json.loads(line) for line in open(clip.with_suffix(".truth.jsonl"))]
        scale = np.array([SIZE[0] / header["width"], SIZE[1] / header["height"]] * 2)
        self.objects = [[(found["id"], np.array(found["box"]) * scale) for found in line["objects"]] for line in lines]
        self.empty = self.background()

    def background(self) -> np.ndarray:
        """The median of what no object covers; where one always does, of everything."""
        numbers = range(0, len(self.frames), 8)
        pictures = self.frames[numbers].astype(np.float32)
        whole = np.median(pictures, axis=0)
        for picture, number in zip(pictures, numbers):
            for _, box in self.objects[number]:
                x0, y0, x1, y1 = self.around(box)
                picture[y0:y1, x0:x1] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            median = np.nanmedian(pictures, axis=0)
        return np.where(np.isnan(median), whole, median)

    @staticmethod
    def around(box: np.ndarray) -> tuple[int, int, int, int]:
        """A box with room for the shadow."""
        width, height = box[2] - box[0], box[3] - box[1]
        left, top = max(box[0] - 0.3 * width, 0), max(box[1] - 0.1 * height, 0)
        return int(left), int(top), int(min(box[2] + 0.8 * width, SIZE[0])), int(min(box[3] + 0.15 * height, SIZE[1]))

    def picture(self, shown: tuple[int, int] | None) -> np.ndarray:
        """The street, with an object as it is in a frame of the clip."""
        picture = self.empty.copy()
        box = shown and dict(self.objects[shown[1]]).get(shown[0])
        if box is not None:
            x0, y0, x1, y1 = self.around(box)
            picture[y0:y1, x0:x1] = self.frames[shown[1]][y0:y1, x0:x1]
        return picture


def schedule(seconds: int, passes: int) -> dict[int, tuple[int, int]]:
    """The object that is seen in each frame of a clip that is made, as its number and the frame of the street's clip."""
    seen = {}
    for number, (track, first, last) in enumerate(Street.PASSES[:passes]):
        begin = int(seconds * FPS * (number + 0.5) / len(Street.PASSES))
        seen |= {begin + frame - first: (track, frame) for frame in range(first, last + 1)}
    return seen


def made_clip(street: Street, kind: str, seconds: int, passes: int, group: int) -> Path:
    """A still street that objects pass now and then, in the weather and light of `kind`."""
    clip = OUT / f"{kind}-{seconds}-{passes}-{group}.mp4"
    if clip.exists():
        return clip
    seen, rng = schedule(seconds, passes), np.random.default_rng(7)
    x, y = np.meshgrid(np.arange(SIZE[0]), np.arange(SIZE[1]))
    lamp = 90 * np.exp(-((x - 480) ** 2 + (y - 100) ** 2) / (2 * 120**2))
    leaves = street.empty[0:40, 500:590].copy()
    command = ["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{SIZE[0]}x{SIZE[1]}", "-r", str(FPS)]
    command += ["-i", "-", "-c:v", "libx264", "-preset", "veryfast", "-bf", "0", "-crf", "26", "-g", str(group)]
    encoder = subprocess.Popen([*command, "-sc_threshold", "0", str(clip)], stdin=subprocess.PIPE)
    noises = rng.normal(0, 1, (16, SIZE[1], SIZE[0], 1)).astype(np.float32)
    for number in range(seconds * FPS):
        at = number / FPS
        picture = street.picture(seen.get(number)).astype(np.float32)
        noise = 2.0
        if kind == "night":
            picture, noise = picture * 0.3, 6.0
        if kind == "clouds":
            picture = picture * (1 + 0.2 * np.sin(at / 2.5))
        if kind == "lamp" and at > seconds * 0.6:
            picture = picture + lamp[:, :, None]
        if kind == "tree":
            shift = int(round(6 * np.sin(at * 3) + 3 * np.sin(at * 7.1)))
            picture[0:40, 500 + shift : 590 + shift] = leaves
        if kind == "rain":
            for column, row in zip(rng.integers(0, SIZE[0], 60), rng.integers(0, SIZE[1] - 24, 60)):
                picture[row : row + 24, column] += 40
        picture = picture + noise * noises[rng.integers(16)]
        encoder.stdin.write(np.clip(picture, 0, 255).astype(np.uint8).tobytes())
    encoder.stdin.close()
    if encoder.wait() != 0:
        sys.exit("bench-stillness: ffmpeg failed")
    return clip


def run(video: Path, gate: str, model: str, classes: list[str], assets: Path) -> tuple[dict, list[dict]]:
    """The report of a run at the pace of the clip, and its events."""
    text, report, results = OUT / "graph.toml", OUT / "report.json", OUT / "results"
    text.write_text(GRAPH.format(video=video, gate=gate, model=model, classes=json.dumps(classes)))
    (results / "events.jsonl").unlink(missing_ok=True)
    command = [WEIR, "replay", str(text), "--report", str(report), "--out", str(results), "--speed", "1"]
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


def followed(street: Street, seconds: int, events: list[dict]) -> int:
    """Passing objects that a track follows in a third of the frames in which more than their edge is seen."""
    passing, hits = defaultdict(int), defaultdict(int)
    boxes = defaultdict(list)
    for seen in tracks(events).values():
        for frame, box in seen.items():
            boxes[frame].append(box)
    for frame, (track, number) in schedule(seconds, len(Street.PASSES)).items():
        box = dict(street.objects[number]).get(track)
        if box is not None and min(box[2] - box[0], box[3] - box[1]) >= 20:
            passing[track] += 1
            hits[track] += any(overlap(box, other) >= 0.5 for other in boxes[frame])
    return sum(3 * hits[track] >= frames for track, frames in passing.items())


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
    parser.add_argument("--seconds", type=int, default=100, help="of each clip that is made")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    videos, street = args.assets / "videos", Street()
    public, made = ("zoo:yolox-nano", ["person", "car", "truck", "bus"]), ("embedded:street-detector", ["person", "car", "van", "bus", "bicycle"])
    clips = [(name, videos / name, public) for name in ["intel_one-by-one-person.mp4", "intel_car-detection.mp4"]]
    for group in args.groups:
        for kind in args.kinds:
            clip = made_clip(street, kind, args.seconds, len(Street.PASSES), group)
            clips.append((f"{kind}, key frames {group / FPS:g} s apart", clip, made))
    heads = ["clip", "frames", "still", "passing", "followed", "with gate", "tracks", "with gate", "incidents", "with gate"]
    heads += ["processor s", "with gate", "ratio"]
    row(heads)
    print("|" + "---|" * len(heads), flush=True)
    for name, video, (model, classes) in clips:
        (whole, all_events), (gated, gated_events) = (run(video, gate, model, classes, args.assets) for gate in ["none", "motion"])
        wanted, there = tracks(all_events), tracks(gated_events)
        counts = gated["requests"]
        took = [processor(whole), processor(gated)]
        cells = [name, str(counts["arrived"]), f"{100 * counts['still'] / counts['arrived']:.0f} %"]
        if model == made[0]:
            cells += [str(len(Street.PASSES)), *(str(followed(street, args.seconds, events)) for events in [all_events, gated_events])]
        else:
            cells += ["", "", ""]
        cells += [str(len(wanted)), str(found_again(wanted, there)), str(len(began(all_events)))]
        cells += [str(matched(began(all_events), began(gated_events))), f"{took[0]:.1f}", f"{took[1]:.1f}", f"{took[1] / took[0]:.2f}"]
        row(cells)
    for group in args.groups:
        gated, _ = run(made_clip(street, "day", args.seconds, 0, group), "motion", *made, args.assets)
        parts = ", ".join(f"{name[:-2]} {value:.2f} s" for name, value in gated["processor"].items() if value >= 0.01)
        share = 100 * processor(gated) / gated["run"]["duration_s"]
        print(f"\nNothing to see, key frames {group / FPS:g} s apart: {share:.2f} % of a core ({parts}) with the opening of models", flush=True)


if __name__ == "__main__":
    main()
