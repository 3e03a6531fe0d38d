"""What a plain loop of OpenCV and ONNX Runtime does with many cameras: the peer of `make bench NAME=cameras`.

    latest_frame.py MODEL.onnx VIDEO... --cameras 16 --seconds 30 --slo-ms 400

A thread a camera plays a video at its own rate, endlessly, and keeps the latest picture. A thread a core takes the latest
picture of each camera in turn, scales it, and runs the model. A picture is in time where its result is there within the
SLO of the moment at which it was due. Prints one line of JSON.
"""

import argparse
import json
import os
import resource
import threading
import time

import cv2
import numpy as np

from letterbox import letterbox, planar
from session import fail, open_session
from yolox import FILL

WARM_UP_S = 2.0


class Camera(threading.Thread):
    """Plays a video in real time and keeps its latest picture."""

    def __init__(self, video: str, stop: threading.Event):
        super().__init__(daemon=True)
        self.capture = cv2.VideoCapture(video, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
        if not self.capture.isOpened():
            fail(f"OpenCV cannot open {video}")
        self.interval = 1.0 / (self.capture.get(cv2.CAP_PROP_FPS) or 25.0)
        self.stop, self.lock, self.latest, self.frames = stop, threading.Lock(), None, 0

    def run(self) -> None:
        due = time.monotonic()
        while not self.stop.is_set():
            good, picture = self.capture.read()
            if not good:
                self.capture.set(cv2.CAP_PROP_POS_FRAMES, 0)
                continue
            time.sleep(max(0.0, due - time.monotonic()))
            with self.lock:
                self.latest, self.frames = (due, picture), self.frames + 1
            due += self.interval

    def take(self):
        """The latest picture and when it was due, once."""
        with self.lock:
            latest, self.latest = self.latest, None
        return latest


class Inference(threading.Thread):
    """Runs the model on the latest picture of each camera in turn."""

    def __init__(self, model: str, cameras: list[Camera], first: int, slo_s: float, stop: threading.Event):
        super().__init__(daemon=True)
        self.session = open_session(model)
        self.input = self.session.get_inputs()[0]
        self.cameras, self.first, self.slo_s, self.stop = cameras, first, slo_s, stop
        self.in_time, self.late = 0, 0

    def run(self) -> None:
        height, width = self.input.shape[2:]
        turn = self.first
        while not self.stop.is_set():
            idle = True
            for _ in self.cameras:
                latest = self.cameras[turn % len(self.cameras)].take()
                turn += 1
                if latest is None:
                    continue
                idle = False
                due, picture = latest
                box, _ = letterbox(picture, width, height, FILL, cv2.INTER_LINEAR)
                self.session.run(None, {self.input.name: planar(box)[None].astype(np.float32)})
                if time.monotonic() - due <= self.slo_s:
                    self.in_time += 1
                else:
                    self.late += 1
                break
            if idle:
                time.sleep(0.001)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("videos", nargs="+")
    parser.add_argument("--cameras", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--slo-ms", type=float, default=400.0)
    args = parser.parse_args()
    cv2.setNumThreads(1)
    stop = threading.Event()
    cameras = [Camera(args.videos[index % len(args.videos)], stop) for index in range(args.cameras)]
    workers = [
        Inference(args.model, cameras, core, args.slo_ms / 1000.0, stop) for core in range(os.cpu_count() or 1)
    ]
    for thread in [*cameras, *workers]:
        thread.start()
    time.sleep(WARM_UP_S)
    begin, in_time = time.monotonic(), sum(worker.in_time for worker in workers)
    time.sleep(args.seconds)
    seconds, in_time = time.monotonic() - begin, sum(worker.in_time for worker in workers) - in_time
    stop.set()
    # OpenCV aborts where a thread still reads as the interpreter ends.
    for thread in [*cameras, *workers]:
        thread.join()
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({
        "cameras": args.cameras,
        "goodput_rps": in_time / seconds,
        "late": sum(worker.late for worker in workers),
        "cpu_s": used.ru_utime + used.ru_stime,
    }))


if __name__ == "__main__":
    main()
