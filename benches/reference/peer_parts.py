"""Parts of the programs that `make bench NAME=peers` runs beside Weir: a paced camera, the detector, and the file of results.

A program prints `ready` once its cameras play. Each result is a JSON line with the camera, the times at which its frame was due and its
result was there (seconds of the system clock), and the objects.
"""

import argparse
import json
import os
import signal
import threading
import time

import cv2
import numpy as np

import yolox
from coco import NAMES
from letterbox import letterbox
from session import fail, open_session

# A live reader that is this far behind the schedule skips to the present, as if the camera had lost the frames between.
MAX_BEHIND_S = 0.2


class PacedClip:
    """A clip played in real time and endlessly from an offset, as a fraction of its length."""

    def __init__(self, video: str, offset: float, keeps_all: bool = False):
        self.capture = cv2.VideoCapture(video, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
        if not self.capture.isOpened():
            fail(f"OpenCV cannot open {video}")
        self.fps = self.capture.get(cv2.CAP_PROP_FPS) or 25.0
        self.size = [int(self.capture.get(side)) for side in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT)]
        self.keeps_all, self.due = keeps_all, None
        # Frames are passed over rather than sought: seeking is exact in no container.
        for _ in range(int(offset * self.capture.get(cv2.CAP_PROP_FRAME_COUNT))):
            self.capture.grab()

    def grab(self) -> float:
        """Decodes the next frame and waits until it is due; returns that time."""
        while not self.capture.grab():
            if not self.capture.set(cv2.CAP_PROP_POS_FRAMES, 0):
                fail("the clip cannot be played again")
        now = time.time()
        self.due = now if self.due is None else self.due + 1.0 / self.fps
        if now - self.due > MAX_BEHIND_S and not self.keeps_all:
            self.due = now
        time.sleep(max(0.0, self.due - now))
        return self.due

    def retrieve(self) -> np.ndarray:
        """The frame that was decoded last, as BGR."""
        return self.capture.retrieve()[1]


class Detector:
    """YOLOX on pictures, with the threshold and the suppression of Weir's `zoo:yolox-nano`."""

    def __init__(self, args: argparse.Namespace):
        self.session = open_session(args.model, args.threads, spins=False)
        self.input = self.session.get_inputs()[0].name
        self.height, self.width = self.session.get_inputs()[0].shape[2:]
        self.cells, self.strides = yolox.grid(self.height, self.width)
        self.threshold = args.threshold

    def objects(self, picture: np.ndarray) -> list[dict]:
        """Objects of a picture, in its pixels."""
        box, placement = letterbox(picture, self.width, self.height, yolox.FILL, cv2.INTER_LINEAR)
        (raw,) = self.session.run(None, {self.input: cv2.dnn.blobFromImage(box)})
        # A class scores at most the objectness, so no object of the other rows reaches the threshold.
        rows = raw[0][:, 4] >= self.threshold
        found = yolox.decode(raw[0][rows].astype(np.float64), self.cells[rows], self.strides[rows], self.threshold)
        boxes = placement.to_source(found.boxes).round(1).tolist()
        classes = [NAMES[number] for number in found.classes]
        return [
            {"class": name, "score": round(score, 4), "box": box}
            for name, score, box in zip(classes, found.scores.tolist(), boxes)
        ]


class Results:
    """The file of results."""

    def __init__(self, path: str):
        self.file, self.lock = open(path, "w", buffering=1), threading.Lock()

    def write(self, camera: int, due: float, objects: list[dict]) -> None:
        """One result, which is there now."""
        line = json.dumps({"camera": camera, "due": due, "done": time.time(), "objects": objects})
        with self.lock:
            self.file.write(line + "\n")


def arguments(description: str) -> argparse.ArgumentParser:
    """The arguments that all of the programs take."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("video")
    parser.add_argument("--cameras", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1, help="of ONNX Runtime")
    parser.add_argument("--threshold", type=float, default=0.3)
    parser.add_argument("--out", required=True, help="file of results")
    return parser


def end_at_once(*_) -> None:
    """Ends without waiting for threads: OpenCV aborts where one still reads as the interpreter ends."""
    os._exit(0)


def play_until_stopped(threads: list[threading.Thread]) -> None:
    """Starts the threads, says so, and waits for SIGTERM."""
    signal.signal(signal.SIGTERM, end_at_once)
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    while True:
        signal.pause()
