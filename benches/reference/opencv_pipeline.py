"""An independent pipeline, from the file to the objects: OpenCV decodes and scales, plain ONNX Runtime infers.

    opencv_pipeline.py VIDEO MODEL.onnx EVENTS.jsonl
    opencv_pipeline.py VIDEO MODEL.onnx --write-events OUT.jsonl [--resize area] [--dump-inputs DIR]

Frame i of the file is frame i of the engine. Prints how the engine agrees with the pipeline by a bilinear
and by an area scaler, and how these two agree with each other: no engine can be asked for much more.
The verdict is about one of the two, bilinear unless given (`--resize area`).
Exit code 0 where the engine agrees, 1 where it does not, 2 where the input is at fault.
"""

import argparse
import json
import os
import sys

import cv2
import numpy as np

from events import event_line, one_stream, read_events
from letterbox import letterbox, planar
from matching import Agreement
from session import fail
from yolox import FILL, Objects, Yolox, as_written

RESIZERS = {"linear": cv2.INTER_LINEAR, "area": cv2.INTER_AREA}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("video")
    parser.add_argument("model", help="the YOLOX file")
    parser.add_argument("events", nargs="?", help="event lines of a run on the video; without them the two scalers are compared")
    parser.add_argument("--stream", help="the stream of the video, where there are several")
    parser.add_argument("--threshold", type=float, default=0.3, help="score threshold of the pipeline (0.3)")
    parser.add_argument("--iou", type=float, default=0.75)
    parser.add_argument("--score", type=float, default=0.4, help="score of the objects that count (0.4)")
    parser.add_argument("--lenient-score", type=float, default=0.3, help="score of a reference object that excuses an extra (0.3)")
    parser.add_argument("--min-matched", type=float, default=0.98)
    parser.add_argument("--frames", type=int, help="stop after so many frames")
    parser.add_argument("--write-events", metavar="FILE", help="write the pipeline's own objects as event lines")
    parser.add_argument("--dump-inputs", metavar="DIR", help="write the pipeline's own tensors and their index")
    parser.add_argument("--resize", choices=sorted(RESIZERS), default="linear", help="the scaler that the verdict is about, and of what is written")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def pictures(path: str, limit: int | None):
    """Every decoded frame, BGR u8 [h,w,3], in order."""
    capture = cv2.VideoCapture(path, cv2.CAP_FFMPEG)
    if not capture.isOpened():
        fail(f"OpenCV cannot open {path}")
    count = 0
    while limit is None or count < limit:
        good, picture = capture.read()
        if not good:
            break
        yield count, picture
        count += 1
    capture.release()
    if count == 0:
        fail(f"no frame in {path}")


class Recording:
    """The pipeline's own objects and tensors, written as the engine writes its own."""

    def __init__(self, args: argparse.Namespace):
        self.events = open(args.write_events, "w", encoding="utf-8") if args.write_events else None
        self.folder = args.dump_inputs
        self.index = None
        if self.folder:
            os.makedirs(self.folder, exist_ok=True)
            self.index = open(os.path.join(self.folder, "detector.index.jsonl"), "w", encoding="utf-8")

    def add(self, frame: int, picture: np.ndarray, tensor: np.ndarray, placement, found: Objects) -> None:
        """Writes one frame."""
        if self.events:
            self.events.write(event_line("video", frame, found) + "\n")
        if self.index:
            name = f"video-{frame:06}.npy"
            np.save(os.path.join(self.folder, name), tensor)
            self.index.write(json.dumps({
                "file": name, "model": "detector", "stream": "video", "frame": frame,
                "region": [0, 0, picture.shape[1], picture.shape[0]],
                "scale": placement.scale, "offset": placement.offset}) + "\n")

    def close(self) -> None:
        """Finishes the files."""
        for file in (self.events, self.index):
            if file:
                file.close()


def main() -> int:
    args = arguments()
    subject = one_stream(read_events(args.events), args.stream) if args.events else None
    model = Yolox(args.model, args.threads)
    with_engine = {name: Agreement(args.iou, args.score, args.lenient_score) for name in RESIZERS}
    scalers = Agreement(args.iou, args.score, args.lenient_score)
    totals = dict.fromkeys(RESIZERS, 0)
    recording, frames, missing = Recording(args), 0, 0
    for frame, picture in pictures(args.video, args.frames):
        frames += 1
        found = {}
        for name, interpolation in RESIZERS.items():
            box, placement = letterbox(picture, model.width, model.height, FILL, interpolation)
            tensor = planar(box)
            objects = model.run(tensor, args.threshold)
            objects.boxes = placement.to_source(objects.boxes)
            found[name] = as_written(objects, picture.shape[1], picture.shape[0])
            totals[name] += len(found[name].at_least(args.score))
            if name == args.resize:
                recording.add(frame, picture, tensor, placement, found[name])
        scalers.add(found["area"], found["linear"])
        if subject is not None and frame not in subject:
            missing += 1
        elif subject is not None:
            for name, agreement in with_engine.items():
                agreement.add(found[name], subject[frame])
    recording.close()
    means = ", ".join(f"{name} {total / frames:.3f}" for name, total in totals.items())
    print(f"{frames} frames decoded; objects a frame of score >= {args.score}: {means}")
    print(scalers.describe("linear checked against area"))
    return 0 if subject is None else verdict(args, with_engine, frames, missing, len(subject))


def verdict(args: argparse.Namespace, with_engine: dict[str, Agreement], frames: int, missing: int, lines: int) -> int:
    """Prints the engine's agreement; the exit code."""
    for name, agreement in with_engine.items():
        print(agreement.describe(f"events checked against {name}"))
    beyond = lines - (frames - missing) if args.frames is None else 0
    print(f"  frames without an event line {missing}, event lines beyond the video {beyond}")
    agrees = with_engine[args.resize].share_matched >= args.min_matched
    complete = missing == 0 and beyond == 0
    print(f"{args.resize}: " + ("agrees" if agrees and complete else "does NOT agree" if not agrees else "is NOT complete"))
    return 0 if agrees and complete else 1


if __name__ == "__main__":
    sys.exit(main())
