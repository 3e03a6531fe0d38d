"""Reference figures of reading plates: the labelled crops through LPRNet.

    plates.py [--assets FOLDER]

A crop's file name is its label. Prints each misread crop and how many are read exactly: as they are, and
enlarged and brought back by several scalers, since crops of the reader's own size show no scaler at fault.
Exit code 0 where at least `--min-exact` of them are read exactly as they are.
"""

import argparse
import os
import sys

import cv2
import numpy as np

from lprnet import LprNet
from session import assets_folder, fail

SCALERS = {"linear": cv2.INTER_LINEAR, "cubic": cv2.INTER_CUBIC, "area": cv2.INTER_AREA, "nearest": cv2.INTER_NEAREST}
ENLARGED = 3


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--assets", help="the asset pack (WEIR_ASSETS)")
    parser.add_argument("--min-exact", type=float, default=0.85)
    return parser.parse_args()


def labelled(folder: str) -> list[tuple[str, np.ndarray]]:
    """(label, BGR crop) of every plate in a folder, by label."""
    if not os.path.isdir(folder):
        fail(f"no folder at {folder}")
    crops = []
    for name in sorted(os.listdir(folder)):
        # Not cv2.imread: it does not open every name outside ASCII on every system.
        picture = cv2.imdecode(np.fromfile(os.path.join(folder, name), dtype=np.uint8), cv2.IMREAD_COLOR)
        if picture is not None:
            crops.append((os.path.splitext(name)[0], picture))
    return crops or fail(f"no pictures in {folder}")


def report(title: str, reader: LprNet, crops: list[tuple[str, np.ndarray]], interpolation: int) -> int:
    """Prints how the crops are read; how many exactly."""
    readings = [(label, *reader.read(picture, interpolation)) for label, picture in crops]
    wrong = [reading for reading in readings if reading[0] != reading[1]]
    exact = len(crops) - len(wrong)
    print(f"{title}: exact {exact} of {len(crops)} = {exact / len(crops):.0%},"
          f" mean score {np.mean([score for _, _, score in readings]):.3f}")
    for label, text, score in wrong:
        print(f"  {label} read as {text} ({score:.2f})")
    return exact


def main() -> int:
    args = arguments()
    assets = assets_folder(args.assets)
    reader = LprNet(os.path.join(assets, "models/lprnet_plate_24x94.onnx"))
    crops = labelled(os.path.join(assets, "images/plates"))
    sizes = [picture.shape[:2] for _, picture in crops]
    print(f"{len(crops)} crops of {min(s[1] for s in sizes)}x{min(s[0] for s in sizes)}"
          f" to {max(s[1] for s in sizes)}x{max(s[0] for s in sizes)} pixels")
    exact = report("as they are", reader, crops, cv2.INTER_LINEAR)
    large = [(label, cv2.resize(picture, None, fx=ENLARGED, fy=ENLARGED, interpolation=cv2.INTER_CUBIC))
             for label, picture in crops]
    for name, interpolation in SCALERS.items():
        report(f"{ENLARGED} times as large, then {name}", reader, large, interpolation)
    return 0 if exact >= args.min_exact * len(crops) else 1


if __name__ == "__main__":
    sys.exit(main())
