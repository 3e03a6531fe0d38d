"""The clip of the street that benches read plates in, and what is true of it; and runs of graphs."""

import json
import os
import subprocess
import sys
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


def run_graph(folder, text, seconds, options=(), meanwhile=None):
    """The report of a run of a graph in a folder; the bench ends with the error of a run that fails.

    `meanwhile` is called with the process.
    """
    (folder / "graph.toml").write_text(text)
    command = [WEIR, "run", "graph.toml", "--duration", f"{seconds:.0f}s", "--report", "report.json", *options]
    with open(folder / "errors.txt", "w+") as errors:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)
        if meanwhile:
            meanwhile(process)
        if process.wait():
            errors.seek(0)
            sys.exit(errors.read())
    return json.loads((folder / "report.json").read_text())
