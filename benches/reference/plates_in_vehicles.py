"""What the chain vehicles -> plates -> text finds in pictures or clips: how many plates, how wide, read as what.

    plates_in_vehicles.py [--assets FOLDER] FILE...

Exit code 0 always: there is no ground truth, the figures are for a person.
"""

import argparse
import os
import sys
from collections import Counter

import numpy as np

import boxes as plane
import coco
from letterbox import letterbox, planar
from lprnet import HEIGHT, WIDTH, LprNet
from opencv_pipeline import RESIZERS, pictures
from session import assets_folder
from y5fu import Y5fu, flatten
from yolox import FILL, Yolox

SMALLEST_VEHICLE = 16  # pixels of the lesser side: below it there is nothing to look at


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", help="clips or pictures")
    parser.add_argument("--assets", help="the asset pack (WEIR_ASSETS)")
    parser.add_argument("--threshold", type=float, default=0.5, help="score threshold of plates (0.5)")
    parser.add_argument("--vehicle", type=float, default=0.4, help="score threshold of vehicles (0.4)")
    parser.add_argument("--every", type=int, default=1, help="look at each n-th frame only")
    parser.add_argument("--whole", action="store_true", help="look for plates in the whole frame, not in vehicles")
    return parser.parse_args()


def regions(picture: np.ndarray, detector: Yolox, args: argparse.Namespace) -> list[tuple[int, int, int, int]]:
    """Where plates are looked for: x0, y0, x1, y1 in whole pixels."""
    height, width = picture.shape[:2]
    if args.whole:
        return [(0, 0, width, height)]
    box, placement = letterbox(picture, detector.width, detector.height, FILL, RESIZERS["linear"])
    found = detector.run(planar(box), args.vehicle)
    found = found.take([coco.NAMES[c] in coco.VEHICLES for c in found.classes])
    clipped = plane.clip(placement.to_source(found.boxes), width, height)
    whole = [(int(x0), int(y0), int(np.ceil(x1)), int(np.ceil(y1))) for x0, y0, x1, y1 in clipped]
    return [r for r in whole if min(r[2] - r[0], r[3] - r[1]) >= SMALLEST_VEHICLE]


def main() -> int:
    args = arguments()
    models = os.path.join(assets_folder(args.assets), "models")
    detector = Yolox(os.path.join(models, "yolox_nano_416.onnx"))
    finder = Y5fu(os.path.join(models, "hyperlpr_y5fu_320.onnx"))
    reader = LprNet(os.path.join(models, "lprnet_plate_24x94.onnx"))
    for file in args.files:
        frames = searched = 0
        widths, texts = [], Counter()
        for index, picture in pictures(file, None):
            if index % args.every:
                continue
            frames += 1
            for x0, y0, x1, y1 in regions(picture, detector, args):
                searched += 1
                crop = picture[y0:y1, x0:x1]
                plates = finder.find(crop, args.threshold)
                for box, corners in zip(plates.boxes, plates.corners):
                    widths.append(box[2] - box[0])
                    texts[reader.read(flatten(crop, corners, WIDTH, HEIGHT))[0]] += 1
        size = f"{np.median(widths):.0f} px wide (most {max(widths):.0f})" if widths else "none"
        print(f"{os.path.basename(file)}: {frames} frames, {searched} regions, {len(widths)} plates, {size}")
        for text, count in texts.most_common(5):
            print(f"  {count:4} x {text or '(nothing)'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
