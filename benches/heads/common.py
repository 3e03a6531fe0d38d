"""What all exports share: pictures, weights that find something, and the objects of a framework."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import numpy as np
from PIL import Image, ImageFilter

PICTURES = 20
# Radius in pixels by which pictures that are resized are blurred before.
SMOOTH = 6


@dataclass
class Found:
    """An object as a framework gives it, in pixels of the picture."""

    name: str
    score: float
    box: tuple
    # Beside the box: "points" as x, y, score; "corners" as x, y; or "mask", the runs of its pixels down the columns, outside first.
    detail: dict = field(default_factory=dict)


@dataclass
class Export:
    """A file, and the framework's own answer for pictures."""

    file: Path
    # Width and height of pictures that need no resizing.
    size: tuple
    # The head that reads it; none where it must be refused.
    head: str | None
    # Pictures in, a list of objects for each out. None where the layout is refused.
    answer: Callable[[list], list] | None = None
    # The same for pictures of another size, which is none where these keep their own; none where that cannot be compared.
    answer_resized: Callable[[list], list] | None = None
    other_size: tuple | None = None
    threshold: float = 0.25
    # Objects of a picture that the framework gives at most.
    most: int = 300
    keys: dict = field(default_factory=dict)
    note: str = ""


@dataclass
class Row:
    """An export that is made when it is needed."""

    framework: str
    model: str
    options: str
    make: Callable[[Path], Export]

    @property
    def name(self) -> str:
        text = f"{self.framework} {self.model} {self.options}"
        return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def pictures(assets: Path, size: tuple | None) -> list:
    """So many pictures: of this size, or in their own shape and smooth where there is none."""
    files = sorted(file for file in (assets / "images").iterdir() if file.suffix == ".jpg")
    files += [assets / "images" / "ocr_issue_170.png"]
    whole = [Image.open(file).convert("RGB") for file in files]
    whole = [picture for picture in whole if min(picture.size) >= 300]
    out = []
    for number in range(PICTURES):
        picture = whole[number % len(whole)]
        if number >= len(whole):
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if size is None:
            scale = min(1.0, 1000 / max(picture.size))
            shape = [round(side * scale) for side in picture.size]
            # What filters differ in is taken away.
            out.append(picture.resize(shape, Image.Resampling.LANCZOS).filter(ImageFilter.GaussianBlur(SMOOTH)))
            continue
        scale = max(size[0] / picture.size[0], size[1] / picture.size[1])
        shape = [math.ceil(side * scale) for side in picture.size]
        picture = picture.resize(shape, Image.Resampling.LANCZOS)
        left, top = (shape[0] - size[0]) // 2, (shape[1] - size[1]) // 2
        out.append(picture.crop((left, top, left + size[0], top + size[1])))
    return out


def logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


def calibrate_norms(net, run) -> None:
    """Gives batch norms the statistics of these pictures, so that values neither vanish nor grow."""
    import torch

    norms = [m for m in net.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
        norm.train()
    with torch.no_grad():
        run()
    for norm in norms:
        norm.momentum = 0.1
        norm.eval()


def spread(net, gain: float = 1.5) -> None:
    """Draws the weights of a transformer anew, so wide that its queries differ."""
    import torch

    for module in net.modules():
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.xavier_uniform_(module.weight, gain)
        elif isinstance(module, torch.nn.Embedding):
            torch.nn.init.normal_(module.weight)


def runs(layer, run) -> bool:
    """Whether a layer takes part at all."""
    import torch

    seen = []
    hook = layer.register_forward_hook(lambda *_: seen.append(1))
    with torch.no_grad():
        run()
    hook.remove()
    return bool(seen)


def outputs_of(layer, run) -> np.ndarray:
    """Everything a last layer gives, one row a place and one column a channel."""
    import torch

    seen = []
    hook = layer.register_forward_hook(lambda _m, _i, out: seen.append(out.detach()))
    with torch.no_grad():
        run()
    hook.remove()
    channels = layer.out_channels if hasattr(layer, "out_channels") else layer.out_features
    rows = []
    for out in seen:
        if out.dim() == 4:
            out = out.permute(0, 2, 3, 1)
        rows.append(out.reshape(-1, channels).float().numpy())
    return np.concatenate(rows)


def rescale(layer, run, mean, std) -> None:
    """Gives each channel of a last layer this mean and deviation over the pictures."""
    import torch

    rows = outputs_of(layer, run)
    channels = rows.shape[1]
    mean = np.broadcast_to(np.asarray(mean, np.float64), channels)
    std = np.broadcast_to(np.asarray(std, np.float64), channels)
    factor = std / np.maximum(rows.std(0), 1e-6)
    with torch.no_grad():
        weight = layer.weight
        shape = [-1] + [1] * (weight.dim() - 1)
        if layer.bias is None:
            layer.bias = torch.nn.Parameter(torch.zeros(channels))
        weight.mul_(torch.tensor(factor, dtype=weight.dtype).reshape(shape))
        layer.bias.copy_(torch.tensor((layer.bias.numpy() - rows.mean(0)) * factor + mean, dtype=layer.bias.dtype))


def shift(layer, amount, columns=slice(None)) -> None:
    import torch

    with torch.no_grad():
        layer.bias[columns] += float(amount)


def score_some(layer, run, part: float, threshold: float, softmax: bool = False, std: float = 2.0, first: int = 0) -> None:
    """Makes this part of the places score above the threshold: by sigmoid, or by softmax against the last column."""
    rescale(layer, run, 0.0, std)
    rows = outputs_of(layer, run)

    def scores(offset: float) -> np.ndarray:
        if not softmax:
            return 1 / (1 + np.exp(-(rows + offset)))
        moved = rows.copy()
        classes = slice(0, -1) if first == 0 else slice(first, None)
        moved[:, classes] += offset
        share = np.exp(moved - moved.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        return share[:, classes]

    low, high = -40.0, 40.0
    for _ in range(50):
        middle = (low + high) / 2
        if (scores(middle).max(1) >= threshold).mean() > part:
            high = middle
        else:
            low = middle
    columns = slice(None)
    if softmax:
        columns = slice(0, -1) if first == 0 else slice(first, None)
    shift(layer, low, columns)


def column_runs(mask) -> list:
    """Lengths of the runs of a mask down its columns, pixels outside first."""
    pixels = np.asarray(mask, bool).T.reshape(-1)
    ends = np.flatnonzero(np.diff(pixels)) + 1
    runs = np.diff(np.concatenate([[0], ends, [pixels.size]])).tolist()
    return [0, *runs] if pixels.size and pixels[0] else runs


def coco_runs(text: str) -> list:
    """Run lengths in the compressed text of COCO."""
    counts, value, shift = [], 0, 0
    for character in text:
        bits = ord(character) - 48
        value |= (bits & 0x1F) << shift
        shift += 5
        if bits & 0x20:
            continue
        if bits & 0x10:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value, shift = 0, 0
    return counts


def pixels_of(runs: list) -> np.ndarray:
    """The pixels of runs, one after the other."""
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs)


def planes(picture, mean=0.0, std=255.0) -> np.ndarray:
    """A picture as [3, height, width]."""
    values = (np.asarray(picture, np.float32) - np.float32(mean)) / np.float32(std)
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def iou(a, b) -> float:
    w = min(a[2], b[2]) - max(a[0], b[0])
    h = min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    both = w * h
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def suppress(found: list, most: float) -> list:
    """Greedy suppression within each class, best first."""
    kept = []
    for one in sorted(found, key=lambda f: -f.score):
        if all(k.name != one.name or iou(k.box, one.box) <= most for k in kept):
            kept.append(one)
    return kept


def open_session(file: Path):
    """A session of ONNX Runtime that reports errors alone."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(file), options)
