"""The y5fu plate detector: plates with four corners, and the flat picture of one.

Input [1,3,320,320] float32, RGB / 255, letterboxed with 114. Output [1,6300,15]: centre x, y, width, height,
objectness, four corners x, y, two classes, all in input pixels and already sigmoid; score = objectness * best class.
"""

from dataclasses import dataclass

import cv2
import numpy as np

import boxes as plane
from letterbox import letterbox, planar
from session import open_session

SIDE = 320
FILL = 114
NMS_OVERLAP = 0.45


@dataclass
class Plates:
    """Plates in the pixels of the picture given, best first: boxes [n,4], scores [n], corners [n,4,2], classes [n]."""

    boxes: np.ndarray
    scores: np.ndarray
    corners: np.ndarray
    classes: np.ndarray

    def __len__(self) -> int:
        return len(self.scores)


class Y5fu:
    """A session of the plate detector."""

    def __init__(self, path: str, threads: int = 1):
        self.session = open_session(path, threads)
        self.input = self.session.get_inputs()[0].name

    def find(self, picture: np.ndarray, threshold: float) -> Plates:
        """Plates of a BGR u8 picture."""
        box, placement = letterbox(picture, SIDE, SIDE, FILL, cv2.INTER_LINEAR)
        tensor = planar(box[:, :, ::-1]) / np.float32(255.0)
        raw = self.session.run(None, {self.input: tensor[None]})[0][0].astype(np.float64)
        scores = raw[:, 4] * raw[:, 13:].max(axis=1)
        likely = raw[scores >= threshold]
        scores = scores[scores >= threshold]
        half = likely[:, 2:4] / 2.0
        corners_of = np.concatenate([likely[:, :2] - half, likely[:, :2] + half], axis=1)
        kept = plane.suppress(corners_of, scores, NMS_OVERLAP)
        return Plates(placement.to_source(corners_of[kept]), scores[kept],
                      placement.to_source(likely[kept, 5:13]).reshape(-1, 4, 2), likely[kept, 13:].argmax(axis=1))


def flatten(picture: np.ndarray, corners: np.ndarray, width: int, height: int) -> np.ndarray:
    """The plate of these corners [4,2] (from the top left, clockwise) as a flat [height,width,3] picture."""
    target = np.array([(0, 0), (width, 0), (width, height), (0, height)], dtype=np.float32)
    # Corners are in continuous pixels, where OpenCV counts from the middle of the first one.
    to_flat = cv2.getPerspectiveTransform(corners.astype(np.float32) - 0.5, target - 0.5)
    return cv2.warpPerspective(picture, to_flat, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
