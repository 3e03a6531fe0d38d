"""Given the very tensors that the engine fed its detector, does plain ONNX Runtime find the same objects?

    same_tensors.py DUMP_DIR MODEL.onnx EVENTS.jsonl

What differs here from the engine is all that comes after the input: session, decoding, suppression,
mapping back. Exit code 0 where it agrees, 1 where it does not, 2 where the input is at fault.
"""

import argparse
import os
import sys

import numpy as np

from events import Dumped, index_of, read_events, read_index, stream_of
from letterbox import Placement
from matching import Agreement
from session import fail
from yolox import Objects, Yolox, as_written


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dump", help="folder written by --dump-inputs")
    parser.add_argument("model", help="the YOLOX file")
    parser.add_argument("events", help="event lines of the same run")
    parser.add_argument("--name", help="the detector's name in the graph, where several models were dumped")
    parser.add_argument("--threshold", type=float, default=0.3, help="score threshold of the detector (0.3)")
    parser.add_argument("--iou", type=float, default=0.9)
    parser.add_argument("--score", type=float, default=0.4, help="score of the objects that count (0.4)")
    parser.add_argument("--lenient-score", type=float, default=0.35, help="score of a reference object that excuses an extra (0.35)")
    parser.add_argument("--min-matched", type=float, default=0.99)
    parser.add_argument("--max-extra", type=float, default=0.01)
    parser.add_argument("--allow-missing", action="store_true", help="a dumped frame without an event line was dropped: skip it")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def load(dump: str, entry: Dumped, model: Yolox) -> np.ndarray:
    """The dumped tensor [3,H,W]; a leading batch dimension of one is removed."""
    try:
        tensor = np.load(os.path.join(dump, entry.file))
    except (OSError, ValueError) as error:
        fail(f"{entry.file}: {error}")
    tensor = tensor[0] if tensor.ndim == 4 and tensor.shape[0] == 1 else tensor
    if tensor.shape != (3, model.height, model.width) or tensor.dtype != np.float32:
        fail(f"{entry.file}: {tensor.dtype} {tensor.shape}, the model wants float32 {(3, model.height, model.width)}")
    return tensor


def reference(tensor: np.ndarray, entry: Dumped, model: Yolox, threshold: float) -> Objects:
    """Objects by plain ONNX Runtime in source pixels, as an event line would hold them."""
    found = model.run(tensor, threshold)
    x0, y0, x1, y1 = entry.region
    if x0 != 0 or y0 != 0:
        fail(f"{entry.file}: its region starts at ({x0}, {y0}): only detectors of whole frames can be compared")
    found.boxes = Placement((x0, y0), entry.scale, entry.offset).to_source(found.boxes)
    return as_written(found, x1, y1)


def main() -> int:
    args = arguments()
    streams = read_events(args.events)
    model = Yolox(args.model, args.threads)
    entries = read_index(index_of(args.dump, args.name))
    agreement = Agreement(args.iou, args.score, args.lenient_score)
    missing, seen = 0, set()
    for entry in entries:
        stream = stream_of(streams, entry)
        key = (stream, entry.frame)
        if key in seen:
            fail(f"{entry.file}: frame {entry.frame} of {stream} was dumped twice")
        seen.add(key)
        subject = streams.get(stream, {}).get(entry.frame)
        if subject is None:
            missing += 1
            continue
        agreement.add(reference(load(args.dump, entry, model), entry, model, args.threshold), subject)
    undumped = sum(len(frames) for frames in streams.values()) - agreement.frames
    print(agreement.describe("same tensors"))
    print(f"  dumped frames without an event line {missing}, event lines without a tensor {undumped}")
    agrees = agreement.share_matched >= args.min_matched and agreement.share_extra <= args.max_extra
    complete = agreement.frames > 0 and undumped == 0 and (missing == 0 or args.allow_missing)
    print("agrees" if agrees and complete else "does NOT agree" if not agrees else "is NOT complete")
    return 0 if agrees and complete else 1


if __name__ == "__main__":
    sys.exit(main())
