"""Event lines of `weir` (`events.jsonl`) and the index of dumped tensors, read with complaints that name the line."""

import glob
import json
import os
from dataclasses import dataclass

import numpy as np

import coco
from session import fail
from yolox import Objects

CLASS_INDEX = {name: index for index, name in enumerate(coco.NAMES)}


def read_lines(path: str):
    """(line number, object) of every line of a line-JSON file."""
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        yield number, json.loads(line)
                    except json.JSONDecodeError as error:
                        fail(f"{path}:{number}: not JSON: {error}")
    except OSError as error:
        fail(f"{path}: {error.strerror}")


def read_events(path: str) -> dict[str, dict[int, Objects]]:
    """Stream -> frame -> its objects of COCO classes that were found in the whole frame (no parent).

    Ends with an error where a stream's frames do not rise.
    """
    streams: dict[str, dict[int, Objects]] = {}
    for number, event in read_lines(path):
        try:
            stream, frame, objects = event["stream"], event["frame"], whole_frame_objects(event["objects"])
        except (KeyError, TypeError, ValueError) as error:
            fail(f"{path}:{number}: not an event line: {error!r}")
        frames = streams.setdefault(stream, {})
        if frames and frame <= next(reversed(frames)):
            fail(f"{path}:{number}: frame {frame} of {stream} is out of order or repeated")
        frames[frame] = objects
    if not streams:
        fail(f"{path}: no event lines")
    return streams


def whole_frame_objects(listed: list[dict]) -> Objects:
    """The objects of an event line that have no parent and a COCO class."""
    whole = [o for o in listed if o.get("parent") is None and o["class"] in CLASS_INDEX]
    return Objects(
        np.array([o["box"] for o in whole], dtype=np.float64).reshape(-1, 4),
        np.array([o["score"] for o in whole], dtype=np.float64),
        np.array([CLASS_INDEX[o["class"]] for o in whole], dtype=np.int64),
    )


def stream_of(streams: dict[str, dict[int, Objects]], entry: "Dumped") -> str:
    """The stream of a dumped input; where the index leaves it out, the only one."""
    if entry.stream is not None:
        return entry.stream
    if len(streams) > 1:
        fail("the index does not distinguish streams: dump the inputs of a run of one stream")
    return next(iter(streams))


def one_stream(streams: dict[str, dict[int, Objects]], name: str | None) -> dict[int, Objects]:
    """The named stream, or the only one."""
    if name is None and len(streams) == 1:
        return next(iter(streams.values()))
    if name not in streams:
        fail(f"choose one by --stream: {', '.join(sorted(streams))}")
    return streams[name]


def event_line(stream: str, frame: int, found: Objects) -> str:
    """An event line of these objects, as far as the comparisons read it."""
    objects = [
        {"id": i, "class": coco.NAMES[c], "score": round(float(s), 4), "box": [round(float(v), 1) for v in b],
         "parent": None, "attributes": {}}
        for i, (b, s, c) in enumerate(zip(found.boxes, found.scores, found.classes))
    ]
    return json.dumps({"stream": stream, "frame": frame, "objects": objects})


@dataclass(frozen=True)
class Dumped:
    """One line of a dump's index."""

    file: str
    model: str
    stream: str | None  # None where the index leaves it out: the run had one stream
    frame: int
    region: tuple[float, float, float, float]
    scale: tuple[float, float]
    offset: tuple[float, float]


def read_index(path: str) -> list[Dumped]:
    """Every line of one model's `NAME.index.jsonl`. Inputs that were turned (aligned faces) have no scale and are left out."""
    entries = []
    for number, line in read_lines(path):
        try:
            if line["scale"] is not None:
                entries.append(Dumped(line["file"], line["model"], line.get("stream"), line["frame"],
                                      tuple(line["region"]), tuple(line["scale"]), tuple(line["offset"])))
        except KeyError as missing:
            fail(f"{path}:{number}: no {missing}")
    return entries


def index_of(dump: str, name: str | None) -> str:
    """The index of the named model in a dump, or the only one."""
    ending = ".index.jsonl"
    names = sorted(os.path.basename(path).removesuffix(ending) for path in glob.glob(os.path.join(dump, "*" + ending)))
    if not names:
        fail(f"{dump}: no index in it")
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        fail(f"choose the detector by --name: {', '.join(names)}")
    return os.path.join(dump, name + ending)
