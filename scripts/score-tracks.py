#!/usr/bin/env python3
"""How well tracks hold: score-tracks.py NAME=DETECTIONS.jsonl ...

HOTA, MOTA and IDF1 (trackeval 1.3.0) on the clips that ship, NAME being one of videos/NAME.truth.jsonl, beside ByteTrack
(supervision 0.26.1, as it comes, and likened to ours) on the same boxes: the true ones, and detected
ones (events of a `jsonl` sink, mode lossless, `score_threshold` of the model 0.05); of all frames, of half of them at random
(mean of SEEDS), and of frames as FRAMES names them, a file of events of a live run under overload. A frame that is left out
is in neither the truth nor the tracks.

Objects of the truth that are hard to see (`ignore`) are neither given as true boxes nor asked for; detected boxes on them are
left out before scoring, as MOTChallenge does. Classes are not distinguished by the score. Embeddings, where the events have
them (`vector = true`), are used unless `--no-appearance` is given.

    pip install trackeval==1.3.0 supervision==0.26.1
    cargo build --release -p weir-analytics --example track_boxes
"""

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import supervision as sv
from scipy.optimize import linear_sum_assignment
from trackeval.metrics import CLEAR, HOTA, Identity

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
TRACK = os.environ.get("TRACK_BOXES", str(TARGET / "release" / "examples" / "track_boxes"))
SEEDS = int(os.environ.get("SEEDS", "5"))
# What a display shows is followed by nobody.
DISPLAY = {"kills", "alive", "health", "icon"}
PARTS = {"plate", "face"}


def truth(name):
    """Frames with their media time, objects that count and objects that do not: (id, class, box)."""
    with open(ROOT / "videos" / f"{name}.truth.jsonl") as lines:
        header = json.loads(next(lines))
        frames = []
        for line in lines:
            frame = json.loads(line)
            whole = [o for o in frame["objects"] if o["class"] not in DISPLAY | PARTS]
            split = [[], []]
            for o in whole:
                split[bool(o.get("ignore"))].append((o["id"], o["class"], o["box"]))
            frames.append({"pts_ms": frame["pts_ms"], "objects": split[0], "ignored": split[1]})
    return header["fps"], frames


def owner(o, whole):
    """The id of the object that one is, was found in the crop of, or is part of, as `parts = ["face of person"]` has it."""
    if o["class"] not in PARTS or o["parent"] is not None:
        return o["id"] if o["parent"] is None else o["parent"]
    def within(other):
        low, high = np.maximum(o["box"][:2], other["box"][:2]), np.minimum(o["box"][2:], other["box"][2:])
        return np.clip(high - low, 0, None).prod() >= 0.7 * np.prod(np.subtract(o["box"][2:], o["box"][:2]))
    persons = [other for other in whole if other["class"] == "person" and within(other)]
    return max(persons, key=lambda other: other["box"][3])["id"] if persons else None


def detections(path):
    """Boxes by frame: (box, score, class, embedding of it or of what was found within it, or none)."""
    found = {}
    with open(path) as lines:
        for line in map(json.loads, lines):
            if line["type"] == "frame":
                whole = [o for o in line["objects"] if o["class"] not in DISPLAY | PARTS]
                vectors = {}
                for o in line["objects"]:
                    for attribute in o["attributes"].values():
                        if isinstance(attribute, dict) and attribute.get("vector"):
                            vectors[owner(o, whole)] = attribute["vector"]
                found[line["frame"]] = [(o["box"], o["score"], o["class"], vectors.get(o["id"], ())) for o in whole]
    return found


def iou(one, other):
    one, other = np.asarray(one, float).reshape(-1, 4), np.asarray(other, float).reshape(-1, 4)
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    inner = np.clip(high - low, 0, None).prod(2)
    area = lambda boxes: (boxes[:, 2:] - boxes[:, :2]).prod(1)
    return inner / np.maximum(area(one)[:, None] + area(other)[None] - inner, 1e-9)


def weir(frames, settings=()):
    """Tracks by frame of (index, pts_ms, boxes): (id, box)."""
    text = []
    for index, pts_ms, boxes in frames:
        text.append(f"F {index} {pts_ms}")
        text += [" ".join(map(str, ["D", *box, score, kind, *embedding])) for box, score, kind, *rest in boxes
                 for embedding in [rest[0] if rest else ()]]
    out = subprocess.run([TRACK, *settings], input="\n".join(text), text=True, capture_output=True, check=True).stdout
    tracks = {index: [] for index, _, _ in frames}
    for line in out.splitlines():
        index, track, *box = line.split()
        tracks[int(index)].append((int(track), [float(side) for side in box]))
    return tracks


# As it comes: tracks are lost after a second, and begin from 0.35 on.
PLAIN = {}
# Likened to ours: after two seconds, and from 0.6 on.
LIKE = {"track_activation_threshold": 0.5, "lost_track_buffer": 60}


def bytetrack(frames, fps, settings):
    tracker = sv.ByteTrack(frame_rate=round(fps), **settings)
    tracks = {}
    for index, _, boxes in frames:
        given = sv.Detections(
            xyxy=np.array([box for box, *_ in boxes], float).reshape(-1, 4),
            confidence=np.array([score for _, score, *_ in boxes], float),
            class_id=np.zeros(len(boxes), int),
        )
        seen = tracker.update_with_detections(given)
        tracks[index] = [(int(i), list(b)) for i, b in zip(seen.tracker_id, seen.xyxy)]
    return tracks


def score(frames, kept, tracks):
    gt_ids, tr_ids, gt_of, tr_of, like = {}, {}, [], [], []
    for index in kept:
        frame, found = frames[index], tracks.get(index, [])
        everything = frame["objects"] + frame["ignored"]
        overlap = iou([o[2] for o in everything], [t[1] for t in found])
        rows, columns = linear_sum_assignment(-np.where(overlap >= 0.5, overlap, 0))
        matched = {c for r, c in zip(rows, columns) if overlap[r, c] >= 0.5 and r >= len(frame["objects"])}
        found = [track for c, track in enumerate(found) if c not in matched]
        gt_of.append(np.array([gt_ids.setdefault(o[0], len(gt_ids)) for o in frame["objects"]], int))
        tr_of.append(np.array([tr_ids.setdefault(t[0], len(tr_ids)) for t in found], int))
        like.append(iou([o[2] for o in frame["objects"]], [t[1] for t in found]))
    data = {
        "num_timesteps": len(kept),
        "num_gt_ids": len(gt_ids),
        "num_tracker_ids": len(tr_ids),
        "num_gt_dets": sum(map(len, gt_of)),
        "num_tracker_dets": sum(map(len, tr_of)),
        "gt_ids": gt_of,
        "tracker_ids": tr_of,
        "similarity_scores": like,
    }
    quiet = {"PRINT_CONFIG": False, "THRESHOLD": 0.5}
    clear = CLEAR(quiet).eval_sequence(data)
    return np.array([
        100 * HOTA().eval_sequence(data)["HOTA"].mean(),
        100 * clear["MOTA"],
        100 * Identity(quiet).eval_sequence(data)["IDF1"],
        clear["IDSW"],
        len(tr_ids),
        len(gt_ids),
    ])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("detections", nargs="+", help="NAME=DETECTIONS.jsonl")
    parser.add_argument("--frames", default=None, help="events of a live run whose frames are kept")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE of the tracker")
    parser.add_argument("--no-appearance", action="store_true", help="leave embeddings out")
    parser.add_argument("--only", default="weir,bytetrack,bytetrack-like", help="which trackers")
    arguments = parser.parse_args()
    print("clip         boxes     frames    tracker         HOTA   MOTA   IDF1   switches  tracks  objects")
    for pair in arguments.detections:
        name, path = pair.split("=")
        fps, frames = truth(name)
        true_boxes = [[(o[2], 1.0, o[1]) for o in frame["objects"]] for frame in frames]
        found = detections(path)
        if arguments.no_appearance:
            found = {index: [box[:3] for box in boxes] for index, boxes in found.items()}
        for boxes_name, boxes in [("true", true_boxes), ("detected", [found.get(i, []) for i in range(len(frames))])]:
            rates = [("all", [list(range(len(frames)))])]
            halves = []
            for seed in range(SEEDS):
                draw = random.Random(seed)
                halves.append([i for i in range(len(frames)) if draw.random() < 0.5])
            rates.append(("half", halves))
            if arguments.frames:
                rates.append(("policy", [[i for i in sorted(detections(arguments.frames)) if i < len(frames)]]))
            for rate, samples in rates:
                for tracker in arguments.only.split(","):
                    rows = []
                    for kept in samples:
                        given = [(i, frames[i]["pts_ms"], boxes[i]) for i in kept]
                        if tracker == "weir":
                            tracks = weir(given, arguments.set)
                        else:
                            tracks = bytetrack(given, fps, PLAIN if tracker == "bytetrack" else LIKE)
                        rows.append(score(frames, kept, tracks))
                    hota, mota, idf1, switches, count, objects = np.mean(rows, axis=0)
                    print(f"{name:12} {boxes_name:9} {rate:9} {tracker:14} {hota:5.1f}  {mota:5.1f}  {idf1:5.1f}"
                          f"  {switches:8.1f}  {count:6.1f}  {objects:7.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
