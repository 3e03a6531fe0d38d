"""LPRNet: a flat plate crop to its text by greedy CTC.

Input [1,3,24,94] float32, BGR, (x - 127.5) / 128. Output logits [1,68,18]: 67 characters and the blank (67) over 18 steps.
"""

import cv2
import numpy as np

from session import open_session

CHARACTERS = "京沪津渝冀晋蒙辽吉黑苏浙皖闽赣鲁豫鄂湘粤桂琼川贵云藏陕甘青宁新0123456789ABCDEFGHJKLMNPQRSTUVWXYZIO"
BLANK = len(CHARACTERS)
WIDTH, HEIGHT = 94, 24


class LprNet:
    """A session of the plate reader."""

    def __init__(self, path: str, threads: int = 1):
        self.session = open_session(path, threads)
        self.input = self.session.get_inputs()[0].name

    def read(self, plate: np.ndarray, interpolation: int = cv2.INTER_LINEAR) -> tuple[str, float]:
        """Text of a BGR u8 plate crop of any size, and the mean probability of its characters."""
        flat = cv2.resize(plate, (WIDTH, HEIGHT), interpolation=interpolation).astype(np.float32)
        tensor = ((flat - 127.5) / 128.0).transpose(2, 0, 1)[None]
        (logits,) = self.session.run(None, {self.input: np.ascontiguousarray(tensor)})
        return greedy_ctc(logits[0])


def greedy_ctc(logits: np.ndarray) -> tuple[str, float]:
    """Logits [characters + blank, steps]: the best of each step, repeats collapsed, blanks removed."""
    shifted = np.exp(logits - logits.max(axis=0))
    probability = shifted / shifted.sum(axis=0)
    best = logits.argmax(axis=0)
    text, scores, before = "", [], BLANK
    for step, symbol in enumerate(best):
        if symbol not in (BLANK, before):
            text += CHARACTERS[symbol]
            scores.append(probability[symbol, step])
        before = symbol
    return text, float(np.mean(scores)) if scores else 0.0
