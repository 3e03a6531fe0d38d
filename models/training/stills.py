"""Rendered stills: pictures, what is true of them, and crops of the objects in them, cut as the engine cuts them."""

import io
import json
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image


class Stills:
    """A folder that `render stills` wrote."""

    def __init__(self, folder):
        self.folder = Path(folder)
        with open(self.folder / "truth.jsonl", encoding="utf-8") as lines:
            self.clip = json.loads(next(lines))
            self.frames = [json.loads(line) for line in lines]

    def lit(self, light):
        """The stills of that light which lie beside these: `street-night-train` beside `street-train`."""
        world, part = self.folder.name.rsplit("-", 1)
        return Stills(self.folder.with_name(f"{world}-{light}-{part}"))

    def path(self, frame):
        return self.folder / f"{frame['frame']:06d}.jpg"


def spread(work, tasks):
    """What `work` makes of each task, on all cores, in order."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, tasks, chunksize=max(1, len(tasks) // 64)))


# Whole frames, for detectors.


def _frame(task):
    path, (width, height) = task
    picture = Image.open(path)
    # Whole steps are averaged while decoding: what the engine's box average or, at two, its bilinear samples give.
    picture.draft("RGB", (width, height))
    picture = picture.convert("RGB")
    scale = min(width / picture.width, height / picture.height)
    inner = (round(picture.width * scale), round(picture.height * scale))
    if inner != picture.size:
        picture = picture.resize(inner, Image.Resampling.BOX)
    laid = Image.new("RGB", (width, height), (114, 114, 114))
    laid.paste(picture, (0, 0))
    return np.asarray(laid)


def frames(stills, size, labels):
    """All frames as bytes `[n, 3, height, width]`, letterboxed at the top left, and of each its boxes `[m, 6]`:
    left, top, right, bottom in input pixels, class, and whether it is not to be asked for."""
    width, height = size
    pictures = spread(_frame, [(stills.path(frame), size) for frame in stills.frames])
    scale = min(width / stills.clip["width"], height / stills.clip["height"])
    boxes = []
    for frame in stills.frames:
        rows = [
            [side * scale for side in seen["box"]] + [labels.index(seen["class"]), float(seen.get("ignore", False))]
            for seen in frame["objects"]
            if seen["class"] in labels
        ]
        boxes.append(torch.tensor(rows, dtype=torch.float32).reshape(-1, 6))
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous(), boxes


# Pictures that a gallery holds.


def portraits(folder, net):
    """The pictures of a gallery as `crops` gives crops; the box of each is all of it."""
    paths = sorted(Path(folder).glob("*/*.png"))
    whole = [(path, [(0, 0) + Image.open(path).size], (net.width, net.height), False, None) for path in paths]
    pictures = torch.from_numpy(np.concatenate([_crops(task) for task in whole])).permute(0, 3, 1, 2).contiguous()
    about = [({"attributes": {"identity": {"match": path.parent.name}}}, box) for path, (box,), *_ in whole]
    return pictures, about


# Crops, for everything that looks at one object.


def _crops(task):
    path, cuts, (width, height), gray, quality = task
    picture = Image.open(path)
    if quality:
        coded = io.BytesIO()
        picture.save(coded, "JPEG", quality=quality)
        picture = Image.open(coded)
    picture = picture.convert("L" if gray else "RGB")
    cut = [
        np.asarray(picture.resize((width, height), Image.Resampling.BILINEAR, box=box)) for box in cuts
    ]
    return np.stack(cut) if cut else None


def widened(box, part, jitter, rng, bounds):
    """The box made wider and higher by `part`, each edge moved by up to `jitter` of the side, within the picture."""
    x0, y0, x1, y1 = box
    w, h = x1 - x0, y1 - y0
    move = rng.uniform(-jitter, jitter, 4)
    x0, x1 = x0 - w * (part / 2 + move[0]), x1 + w * (part / 2 + move[1])
    y0, y1 = y0 - h * (part / 2 + move[2]), y1 + h * (part / 2 + move[3])
    x0, y0 = max(0.0, x0), max(0.0, y0)
    return x0, y0, max(x0 + 2, min(bounds[0], x1)), max(y0 + 2, min(bounds[1], y1))


def crops(stills, net, jitter, seed, at_least=0.0):
    """Crops of all objects of `net.of` as bytes `[n, channels, height, width]`, and of each (object, box it was cut by).
    What is too small or hidden is left out, and what is narrower than `at_least` pixels. Of small faces a video's coding
    leaves less than stills show: for identities half of the pictures are coded worse first."""
    rng = np.random.default_rng(seed)
    bounds = (stills.clip["width"], stills.clip["height"])
    tasks, about = [], []
    for frame in stills.frames:
        cuts = []
        for seen in frame["objects"]:
            wide = seen["box"][2] - seen["box"][0]
            if seen["class"] != net.of or seen.get("ignore") or wide < at_least or not net.wants(seen):
                continue
            box = widened(seen["box"], net.widen, jitter, rng, bounds)
            cuts.append(box)
            about.append((seen, box))
        quality = int(rng.integers(15, 70)) if net.task == "identity" and rng.random() < 0.5 else None
        tasks.append((stills.path(frame), cuts, (net.width, net.height), net.channels == 1, quality))
    pictures = [cut for cut in spread(_crops, tasks) if cut is not None]
    stacked = torch.from_numpy(np.concatenate(pictures))
    stacked = stacked[:, None] if net.channels == 1 else stacked.permute(0, 3, 1, 2)
    return stacked.contiguous(), about
