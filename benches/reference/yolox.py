"""YOLOX: raw grid output to objects. Written from the model's definition, sharing nothing with the engine.

Input [3,H,W] float32, BGR 0-255, letterboxed. Output [1,cells,5+classes]: centre offset, log size,
objectness, class scores (both already sigmoid); cells of strides 8, 16, 32, each row by row.
"""

from dataclasses import dataclass

import numpy as np

import boxes as plane
from coco import NAMES
from session import open_session

STRIDES = (8, 16, 32)
NMS_OVERLAP = 0.45
# What one thing may be taken for, and how far two of different classes may overlap and be two: as the zoo says it.
GROUP = ("car", "truck", "bus", "train")
GROUP_OVERLAP = 0.8
FILL = 114


@dataclass
class Objects:
    """What was found in one frame: boxes [n,4], scores [n], classes [n], row for row."""

    boxes: np.ndarray
    scores: np.ndarray
    classes: np.ndarray

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, rows) -> "Objects":
        """The chosen rows (indices or a mask)."""
        return Objects(self.boxes[rows], self.scores[rows], self.classes[rows])

    def at_least(self, score: float) -> "Objects":
        """Those of at least this score."""
        return self.take(self.scores >= score)

    @staticmethod
    def none() -> "Objects":
        """No objects."""
        return Objects(np.zeros((0, 4)), np.zeros(0), np.zeros(0, dtype=np.int64))


class Yolox:
    """A session and the grid of its input size."""

    def __init__(self, path: str, threads: int = 1):
        self.session = open_session(path, threads)
        self.input = self.session.get_inputs()[0].name
        self.height, self.width = self.session.get_inputs()[0].shape[2:]
        self.cells, self.strides = grid(self.height, self.width)

    def run(self, tensor: np.ndarray, threshold: float) -> Objects:
        """Objects of one input [3,H,W], in input pixels."""
        (raw,) = self.session.run(None, {self.input: tensor[None].astype(np.float32)})
        return decode(raw[0].astype(np.float64), self.cells, self.strides, threshold)


def grid(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Cell corners [cells,2] (x, y in cells) and their strides [cells,1]."""
    cells, strides = [], []
    for stride in STRIDES:
        ys, xs = np.mgrid[0 : height // stride, 0 : width // stride]
        cells.append(np.stack([xs.ravel(), ys.ravel()], axis=1))
        strides.append(np.full((xs.size, 1), stride))
    return np.concatenate(cells).astype(np.float64), np.concatenate(strides).astype(np.float64)


def decode(raw: np.ndarray, cells: np.ndarray, strides: np.ndarray, threshold: float) -> Objects:
    """Raw output [cells,5+classes] to objects: score = objectness * class, NMS within each class and, far less, within the group.

    A cell may give several classes, each above the threshold: what is not of one group is kept.
    """
    scores = raw[:, 4:5] * raw[:, 5:]
    centre = (raw[:, :2] + cells) * strides
    half = np.exp(raw[:, 2:4]) * strides / 2.0
    corners = np.concatenate([centre - half, centre + half], axis=1)
    rows, classes = np.nonzero(scores >= threshold)
    found = Objects(corners[rows], scores[rows, classes], classes)
    grouped = np.isin(classes, [NAMES.index(name) for name in GROUP])
    overlap = np.where(grouped[:, None] & grouped[None, :], GROUP_OVERLAP, 1.0)
    overlap = np.where(classes[:, None] == classes[None, :], NMS_OVERLAP, overlap)
    kept = plane.suppress(found.boxes, found.scores, overlap)
    return found.take(np.array(kept, dtype=np.int64))


def as_written(found: Objects, width: float, height: float) -> Objects:
    """The same objects as an event line holds them: clipped to the picture, boxes to 0.1 px, scores to 4 digits.

    Both sides of a comparison go through the same rounding, so it favours neither.
    """
    clipped = plane.clip(found.boxes, width, height)
    return Objects(np.round(clipped, 1), np.round(found.scores, 4), found.classes)
