"""Reference figures of faces: portraits by person, and how many faces a clip holds.

    faces.py [--assets FOLDER] [--width 320] [--crops DIR]

Prints what YuNet finds in the four portraits, the matrix of their cosines by MobileFaceNet, and, for the
people clip, the mean number of faces a frame with the whole frame seen at several widths.
Exit code 0 where all portraits match by person and none across.
"""

import argparse
import os
import sys

import cv2
import numpy as np

from mobilefacenet import MobileFaceNet, align
from opencv_pipeline import pictures
from session import assets_folder, fail
from yunet import YuNet

PORTRAITS = ("face_obama1", "face_obama2", "face_biden1", "face_biden2")
CLIP = "videos/o4n_people_faces_800x450.mp4"
CLIP_WIDTHS = (320, 640, 800)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--assets", help="the asset pack (WEIR_ASSETS)")
    parser.add_argument("--width", type=int, default=320, help="side of the square in which a portrait's face is sought (320)")
    parser.add_argument("--same", type=float, default=0.5, help="cosine from which two faces are of one person (0.5)")
    parser.add_argument("--crops", metavar="DIR", help="write the aligned faces")
    parser.add_argument("--frames", type=int, help="stop the clip after so many frames")
    return parser.parse_args()


def portraits(args: argparse.Namespace, assets: str, finder: YuNet) -> bool:
    """Prints the portraits' table and matrix; whether they match by person and not across."""
    embedder = MobileFaceNet(os.path.join(assets, "models/mobilefacenet_112.onnx"))
    vectors = []
    for name in PORTRAITS:
        picture = cv2.imread(os.path.join(assets, f"images/{name}.jpg"))
        if picture is None:
            fail(f"no portrait {name}")
        found = finder.find(picture, args.width, args.width)
        if not len(found):
            fail(f"no face in {name}")
        box = " ".join(f"{v:.1f}" for v in found.boxes[0])
        print(f"{name}: {picture.shape[1]}x{picture.shape[0]}, faces {len(found)}, best {found.scores[0]:.3f} at [{box}]")
        crop = align(picture, found.points[0])
        if args.crops:
            os.makedirs(args.crops, exist_ok=True)
            cv2.imwrite(os.path.join(args.crops, f"{name}.png"), crop)
        vectors.append(embedder.embed(crop))
    cosines = np.array(vectors) @ np.array(vectors).T
    print(" " * 12 + " ".join(f"{name.removeprefix('face_'):>7}" for name in PORTRAITS))
    for name, row in zip(PORTRAITS, cosines):
        print(f"{name.removeprefix('face_'):12}" + " ".join(f"{value:7.3f}" for value in row))
    person = np.array([name.rstrip("12") for name in PORTRAITS])
    same = person[:, None] == person[None, :]
    print(f"least within a person {cosines[same].min():.3f}, most across {cosines[~same].max():.3f}")
    return bool(cosines[same].min() >= args.same > cosines[~same].max())


def clip(args: argparse.Namespace, assets: str, finder: YuNet) -> None:
    """Prints the mean faces a frame of the clip, for each width."""
    counts = {width: [] for width in CLIP_WIDTHS}
    for _, picture in pictures(os.path.join(assets, CLIP), args.frames):
        for width in CLIP_WIDTHS:
            found = finder.find(picture, width)
            counts[width].append([len(found), *(found.boxes[:, 2] - found.boxes[:, 0])])
    print(os.path.basename(CLIP))
    for width, frames in counts.items():
        numbers = [frame[0] for frame in frames]
        sides = [side for frame in frames for side in frame[1:]]
        narrow, wide = (min(sides), max(sides)) if sides else (0.0, 0.0)
        print(f"  at {width} wide: {np.mean(numbers):.3f} faces a frame, most {max(numbers)},"
              f" frames without {numbers.count(0)} of {len(numbers)}; {narrow:.0f} to {wide:.0f} px wide in the source")


def main() -> int:
    args = arguments()
    assets = assets_folder(args.assets)
    finder = YuNet(os.path.join(assets, "models/yunet_n_dynamic.onnx"))
    separate = portraits(args, assets, finder)
    clip(args, assets, finder)
    return 0 if separate else 1


if __name__ == "__main__":
    sys.exit(main())
