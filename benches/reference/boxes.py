"""Boxes as rows of corners (x0, y0, x1, y1), in continuous pixels: x right, y down."""

import numpy as np


def iou(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Intersection over union of every box of `left` [n,4] with every box of `right` [m,4]: [n,m]."""
    top = np.maximum(left[:, None, :2], right[None, :, :2])
    bottom = np.minimum(left[:, None, 2:], right[None, :, 2:])
    overlap = np.clip(bottom - top, 0.0, None).prod(axis=2)
    union = area(left)[:, None] + area(right)[None, :] - overlap
    return np.where(union > 0.0, overlap / np.where(union > 0.0, union, 1.0), 0.0)


def area(boxes: np.ndarray) -> np.ndarray:
    """Areas of boxes [n,4], 0 where a box is inside out."""
    return np.clip(boxes[:, 2:] - boxes[:, :2], 0.0, None).prod(axis=1)


def clip(boxes: np.ndarray, width: float, height: float) -> np.ndarray:
    """The parts of boxes [n,4] within a picture of `width` by `height`."""
    limit = np.array([width, height, width, height], dtype=boxes.dtype)
    return np.clip(boxes, 0.0, limit)


def suppress(boxes: np.ndarray, scores: np.ndarray, overlap: float | np.ndarray) -> list[int]:
    """Greedy non-maximum suppression: indices kept, best score first (ties: first row first).

    `overlap` is how far two boxes may overlap: one number, or a number for each pair [n,n].
    """
    overlap = np.broadcast_to(overlap, (len(scores), len(scores)))
    rest = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while rest.size:
        best = int(rest[0])
        kept.append(best)
        rest = rest[1:]
        rest = rest[iou(boxes[best : best + 1], boxes[rest])[0] <= overlap[best, rest]]
    return kept
