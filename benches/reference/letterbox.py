"""Scale a picture to fit, lay it at the top left, fill the rest: and the map back to its pixels."""

from dataclasses import dataclass

import cv2
import numpy as np


@dataclass(frozen=True)
class Placement:
    """Where a region of the source lies in a model's input: input = (source - origin) * scale + offset."""

    origin: tuple[float, float]
    scale: tuple[float, float]
    offset: tuple[float, float]

    def to_source(self, points: np.ndarray) -> np.ndarray:
        """Points (or boxes) [n, 2k] of x, y pairs in input pixels, mapped to source pixels."""
        pairs = points.shape[1] // 2
        scale, offset, origin = (
            np.tile(np.asarray(v, dtype=np.float64), pairs) for v in (self.scale, self.offset, self.origin)
        )
        return (points - offset) / scale + origin


def letterbox(picture: np.ndarray, width: int, height: int, fill: int, interpolation: int) -> tuple[np.ndarray, Placement]:
    """`picture` [h,w,3] u8 fitted into [height,width,3]. The scale returned is the one that really
    came out after rounding the sides to whole pixels, so it may differ slightly between the axes."""
    h, w = picture.shape[:2]
    fit = min(width / w, height / h)
    inner_w, inner_h = max(1, round(w * fit)), max(1, round(h * fit))
    canvas = np.full((height, width, 3), fill, dtype=np.uint8)
    canvas[:inner_h, :inner_w] = cv2.resize(picture, (inner_w, inner_h), interpolation=interpolation)
    return canvas, Placement((0.0, 0.0), (inner_w / w, inner_h / h), (0.0, 0.0))


def planar(picture: np.ndarray) -> np.ndarray:
    """[h,w,3] u8 as a contiguous float32 [3,h,w], values unchanged."""
    return np.ascontiguousarray(picture.transpose(2, 0, 1), dtype=np.float32)
