"""A plain program of OpenCV and ONNX Runtime on many cameras: a peer of `make bench NAME=peers`.

    peer_loop.py MODEL.onnx VIDEO --keep newest|all --cameras 16 --threads 2 --out results.jsonl

A thread a camera reads it. One loop takes a frame of each camera in turn and runs the model: the newest frame (`newest`), or the oldest
that waits (`all`), where every frame waits and readers stop while the queues are full.
"""

import collections
import threading

import cv2

from peer_parts import Detector, PacedClip, Results, arguments, play_until_stopped

# Memory for frames that wait, of all cameras together. 64 cameras of 640x360 fill it in two seconds.
MAX_WAITING_BYTES = 2 << 30
MIN_WAITING = 2


class Reader(threading.Thread):
    """Reads a camera into its queue."""

    def __init__(self, clip: PacedClip, length: int, keeps_all: bool, wake: threading.Event):
        super().__init__(daemon=True)
        self.clip, self.keeps_all, self.wake = clip, keeps_all, wake
        self.waiting = collections.deque(maxlen=None if keeps_all else 1)
        self.room = threading.Semaphore(length)

    def run(self) -> None:
        while True:
            due = self.clip.grab()
            if self.keeps_all:
                self.room.acquire()
            self.waiting.append((due, self.clip.retrieve()))
            self.wake.set()

    def take(self):
        """The next frame and when it was due; `None` where no frame waits."""
        try:
            taken = self.waiting.popleft()
        except IndexError:
            return None
        if self.keeps_all:
            self.room.release()
        return taken


class Inference(threading.Thread):
    """Runs the model on a frame of each camera in turn."""

    def __init__(self, detector: Detector, readers: list[Reader], results: Results, wake: threading.Event):
        super().__init__(daemon=True)
        self.detector, self.readers, self.results, self.wake = detector, readers, results, wake

    def run(self) -> None:
        while True:
            self.wake.clear()
            taken_any = False
            for camera, reader in enumerate(self.readers):
                taken = reader.take()
                if taken is None:
                    continue
                taken_any = True
                due, picture = taken
                self.results.write(camera, due, self.detector.objects(picture))
            if not taken_any:
                self.wake.wait()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--keep", choices=["newest", "all"], default="newest")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    detector, results = Detector(args), Results(args.out)
    keeps_all, wake = args.keep == "all", threading.Event()
    clips = [PacedClip(args.video, number / args.cameras, keeps_all) for number in range(args.cameras)]
    width, height = clips[0].size
    length = max(MIN_WAITING, MAX_WAITING_BYTES // (args.cameras * width * height * 3))
    readers = [Reader(clip, length, keeps_all, wake) for clip in clips]
    play_until_stopped([*readers, Inference(detector, readers, results, wake)])


if __name__ == "__main__":
    main()
