"""InferencePipeline of Roboflow's `inference` on many cameras: a peer of `make bench NAME=peers`.

    peer_inference.py MODEL.onnx VIDEO --mode default|freshest --cameras 16 --threads 2 --out results.jsonl

The detector is its custom logic. The cameras are live sources to it: its `VideoSource` reads each in a thread and drops what is not
consumed. `freshest` is its mode that takes the latest frame of each source without waiting for all.
"""

import signal

import cv2
import numpy as np
from streamvision.camera.entities import SourceProperties, VideoFrameProducer
from streamvision.stream.pipeline import InferencePipeline, SinkMode

from peer_parts import Detector, PacedClip, Results, arguments, end_at_once


class DueFrame(np.ndarray):
    """A picture with the time at which it was due."""

    due = 0.0


class Camera(VideoFrameProducer):
    """A paced clip as a source of the pipeline."""

    def __init__(self, clip: PacedClip):
        self.clip, self.due = clip, 0.0

    def grab(self) -> bool:
        self.due = self.clip.grab()
        return True

    def retrieve(self) -> tuple[bool, np.ndarray]:
        picture = self.clip.retrieve().view(DueFrame)
        picture.due = self.due
        return True, picture

    def release(self) -> None:
        self.clip.capture.release()

    def isOpened(self) -> bool:
        return self.clip.capture.isOpened()

    def discover_source_properties(self) -> SourceProperties:
        width, height = self.clip.size
        return SourceProperties(width=width, height=height, total_frames=-1, is_file=False, fps=self.clip.fps)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--mode", choices=["default", "freshest"], default="default")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    detector, results = Detector(args), Results(args.out)
    cameras = [Camera(PacedClip(args.video, number / args.cameras)) for number in range(args.cameras)]
    is_ready = False

    def on_video_frame(frames: list) -> list:
        return [detector.objects(frame.image) for frame in frames]

    def on_prediction(predictions: list, frames: list) -> None:
        nonlocal is_ready
        for objects, frame in zip(predictions, frames):
            if frame is not None:
                results.write(frame.source_id, frame.image.due, objects)
        if not is_ready:
            is_ready = True
            print("ready", flush=True)

    signal.signal(signal.SIGTERM, end_at_once)
    pipeline = InferencePipeline.init_with_custom_logic(
        video_reference=[lambda camera=camera: camera for camera in cameras],
        on_video_frame=on_video_frame,
        on_prediction=on_prediction,
        sink_mode=SinkMode.BATCH,
        video_processing_mode="freshest" if args.mode == "freshest" else None,
    )
    # The handler of SIGTERM runs in the main thread, which must not wait in a lock.
    pipeline.start(use_main_thread=False)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
