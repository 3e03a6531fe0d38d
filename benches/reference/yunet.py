"""YuNet: faces with five points (eyes, nose, mouth corners, left to right in the picture).

Input [1,3,H,W] float32, BGR 0-255, letterboxed with 0, sides multiples of 32. Outputs of strides 8, 16, 32:
cls, obj, bbox (centre offset, log size), kps; score = sqrt(cls * obj).
"""

from dataclasses import dataclass

import cv2
import numpy as np

import boxes as plane
from letterbox import letterbox, planar
from session import open_session

STRIDES = (8, 16, 32)
THRESHOLD = 0.6
NMS_OVERLAP = 0.4


@dataclass
class Faces:
    """Faces in source pixels, best first: boxes [n,4], scores [n], points [n,5,2]."""

    boxes: np.ndarray
    scores: np.ndarray
    points: np.ndarray

    def __len__(self) -> int:
        return len(self.scores)


class YuNet:
    """A session of the model with free input size."""

    def __init__(self, path: str, threads: int = 1):
        self.session = open_session(path, threads)
        self.input = self.session.get_inputs()[0].name
        self.outputs = [out.name for out in self.session.get_outputs()]

    def find(self, picture: np.ndarray, width: int, height: int | None = None, threshold: float = THRESHOLD) -> Faces:
        """Faces of a BGR u8 picture, fitted into `width` by `height` (by default: the picture's own
        shape at this width, grown to a multiple of 32)."""
        width = -(-width // 32) * 32
        if height is None:
            height = -(-round(picture.shape[0] * width / picture.shape[1]) // 32) * 32
        box, placement = letterbox(picture, width, height, 0, cv2.INTER_LINEAR)
        raw = dict(zip(self.outputs, self.session.run(None, {self.input: planar(box)[None]})))
        faces = decode(raw, width, height, threshold)
        return Faces(placement.to_source(faces.boxes), faces.scores,
                     placement.to_source(faces.points.reshape(-1, 10)).reshape(-1, 5, 2))


def decode(raw: dict[str, np.ndarray], width: int, height: int, threshold: float) -> Faces:
    """Raw outputs to faces in input pixels."""
    boxes, scores, points = [], [], []
    for stride in STRIDES:
        cls, obj, box, kps = (raw[f"{name}_{stride}"][0].astype(np.float64) for name in ("cls", "obj", "bbox", "kps"))
        ys, xs = np.mgrid[0 : height // stride, 0 : width // stride]
        cells = np.stack([xs.ravel(), ys.ravel()], axis=1)
        centre, half = (box[:, :2] + cells) * stride, np.exp(box[:, 2:]) * stride / 2.0
        boxes.append(np.concatenate([centre - half, centre + half], axis=1))
        scores.append(np.sqrt(np.clip(cls[:, 0], 0, 1) * np.clip(obj[:, 0], 0, 1)))
        points.append((kps.reshape(-1, 5, 2) + cells[:, None, :]) * stride)
    boxes, scores, points = np.concatenate(boxes), np.concatenate(scores), np.concatenate(points)
    likely = np.flatnonzero(scores >= threshold)
    kept = likely[plane.suppress(boxes[likely], scores[likely], NMS_OVERLAP)]
    return Faces(boxes[kept], scores[kept], points[kept])
