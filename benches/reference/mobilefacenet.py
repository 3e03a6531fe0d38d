"""MobileFaceNet: a face, aligned by its five points to the ArcFace template, to a unit vector of 128.

Input [1,3,112,112] float32, RGB, (x - 127.5) / 127.5.
"""

import cv2
import numpy as np

from session import open_session

SIDE = 112
TEMPLATE = np.array(
    [(38.2946, 51.6963), (73.5318, 51.5014), (56.0252, 71.7366), (41.5493, 92.3655), (70.7299, 92.2041)])


def similarity(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The least-squares map [2,3] of points [n,2] by rotation, one scale and a shift (Umeyama, 1991)."""
    source_mean, target_mean = source.mean(axis=0), target.mean(axis=0)
    from_mean, to_mean = source - source_mean, target - target_mean
    u, stretch, vt = np.linalg.svd(to_mean.T @ from_mean / len(source))
    sign = np.array([1.0, np.sign(np.linalg.det(u @ vt))])  # never a mirror image
    rotation = u @ np.diag(sign) @ vt
    scale = (stretch * sign).sum() / from_mean.var(axis=0).sum()
    return np.column_stack([scale * rotation, target_mean - scale * rotation @ source_mean])


def align(picture: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The face of these five points [5,2] as a [112,112,3] crop, bilinear, black beyond the picture."""
    return cv2.warpAffine(picture, similarity(points, TEMPLATE), (SIDE, SIDE), flags=cv2.INTER_LINEAR)


class MobileFaceNet:
    """A session of the embedder."""

    def __init__(self, path: str, threads: int = 1):
        self.session = open_session(path, threads)
        self.input = self.session.get_inputs()[0].name

    def embed(self, aligned: np.ndarray) -> np.ndarray:
        """The unit vector [128] of an aligned BGR u8 face."""
        rgb = aligned[:, :, ::-1].astype(np.float32)
        tensor = np.ascontiguousarray(((rgb - 127.5) / 127.5).transpose(2, 0, 1)[None])
        (vector,) = self.session.run(None, {self.input: tensor})
        return vector[0] / np.linalg.norm(vector[0])
