"""The clip of the street that benches read plates in, and what is true of it."""

import json
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
WEIR = os.environ.get("WEIR", str(TARGET / "release" / "weir"))
CLIP = ROOT / "videos" / "street-day"


def truth():
    """The objects of each frame."""
    with open(f"{CLIP}.truth.jsonl") as lines:
        next(lines)
        return [json.loads(line)["objects"] for line in lines]


def iou(one, other):
    """How much two boxes overlap, of corners."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    inner = max(wide, 0) * max(high, 0)
    area = lambda box: (box[2] - box[0]) * (box[3] - box[1])
    return inner / (area(one) + area(other) - inner) if inner else 0
