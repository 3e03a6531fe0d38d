"""Detectors: three scales, no anchors. Each cell gives the distances to the four edges of its object and a score by class;
which cells answer for an object is decided by how well they do (task-aligned assignment, Feng et al., ICCV 2021)."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from layers import Residual, conv

STRIDES = (8, 16, 32)


class OverScales(nn.Module):
    """A convolution that all scales share, normalised for each of them apart. Normalised as one, what is large came out larger when
    it was used than when it was learned, where each scale has its own mean."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(width) for _ in STRIDES])

    def forward(self, levels):
        return [F.relu(norm(self.conv(level))) for norm, level in zip(self.norms, levels)]


class Affine(nn.Module):
    """What a normalisation does in use. A file keeps the weights of a convolution before several of them once; normalisations
    themselves are folded into it on export, each into a copy."""

    def __init__(self, norm):
        super().__init__()
        scale = norm.weight / (norm.running_var + norm.eps).sqrt()
        self.register_buffer("scale", scale.detach()[:, None, None])
        self.register_buffer("shift", (norm.bias - norm.running_mean * scale).detach()[:, None, None])

    def forward(self, x):
        return x * self.scale + self.shift


class Detector(nn.Module):
    def __init__(self, labels, size, widths, neck):
        super().__init__()
        a, b, c, d, e = widths
        self.early = nn.Sequential(conv(3, a, stride=2), conv(a, b, stride=2), Residual(b))
        self.stages = nn.ModuleList([
            nn.Sequential(conv(b, c, stride=2), Residual(c), Residual(c)),
            nn.Sequential(conv(c, d, stride=2), Residual(d), Residual(d)),
            nn.Sequential(conv(d, e, stride=2), Residual(e), Residual(e)),
        ])
        self.lateral = nn.ModuleList([conv(width, neck, 1) for width in (c, d, e)])
        self.mixed = nn.ModuleList([conv(neck, neck) for _ in STRIDES])
        # What something is and where it ends are decided apart (decoupled heads, Ge et al., YOLOX 2021).
        self.kinds, self.places = OverScales(neck), OverScales(neck)
        self.scores = nn.Conv2d(neck, len(labels), 1)
        self.edges = nn.Conv2d(neck, 4, 1)
        nn.init.constant_(self.scores.bias, -4.6)
        nn.init.constant_(self.edges.bias, 1.0)
        self.sized(size)

    def sized(self, size):
        """Makes it look at pictures of that width and height: all its layers fit any multiple of the largest stride."""
        width, height = size
        cells = [
            torch.stack(torch.meshgrid(torch.arange(width // s) + 0.5, torch.arange(height // s) + 0.5, indexing="xy"), -1)
            .reshape(-1, 2) * s
            for s in STRIDES
        ]
        # No buffers: the mean of a net that sees several sizes is not taken of them.
        self.centres = torch.cat(cells)
        self.reach = torch.cat([torch.full((len(c), 1), float(s)) for c, s in zip(cells, STRIDES)])
        return self

    def forward(self, x):
        """Boxes `[n, cells, 4]` by their corners in input pixels, and scores `[n, cells, classes]` before the sigmoid."""
        x, levels = self.early(x), []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        above, outputs = None, []
        for index in (2, 1, 0):
            level = self.lateral[index](levels[index])
            if above is not None:
                level = level + F.interpolate(above, scale_factor=2, mode="nearest")
            above = self.mixed[index](level)
            outputs.insert(0, above)
        flat = lambda maps: torch.cat([each.flatten(2) for each in maps], 2).transpose(1, 2)
        scores = flat([self.scores(level) for level in self.kinds(outputs)])
        edges = F.softplus(flat([self.edges(level) for level in self.places(outputs)])) * self.reach
        boxes = torch.cat([self.centres - edges[..., :2], self.centres + edges[..., 2:]], -1)
        return boxes, scores


class Export(nn.Module):
    """As a YOLOv8 export gives it: `[n, 4 + classes, cells]`, middles and sizes in input pixels, probabilities."""

    def __init__(self, detector):
        super().__init__()
        self.detector = copy.deepcopy(detector)
        for head in (self.detector.kinds, self.detector.places):
            head.norms = nn.ModuleList([Affine(norm) for norm in head.norms])

    def forward(self, x):
        boxes, scores = self.detector(x)
        (low, high) = boxes[..., :2], boxes[..., 2:]
        return torch.cat([(low + high) / 2, high - low, scores.sigmoid()], -1).transpose(1, 2)


def overlap(a, b, general=False):
    """Intersection over union of boxes by their corners; `general` takes off the empty part of the hull (GIoU)."""
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    area = lambda box: (box[..., 2] - box[..., 0]).clamp(0) * (box[..., 3] - box[..., 1]).clamp(0)
    inner = (high - low).clamp(0).prod(-1)
    union = area(a) + area(b) - inner + 1e-6
    if not general:
        return inner / union
    hull = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(-1) + 1e-6
    return inner / union - (hull - union) / hull


@torch.no_grad()
def assign(detector, boxes, scores, truth, most=10):
    """For each cell of a batch: which object it answers for (-1 for none), how well it should score, and which classes it
    is not to be asked for, since something of them is there that is too small or too hidden. `truth` is `[n, m, 6]`,
    filled up with class -1."""
    n, m = truth.shape[:2]
    true, classes = truth[..., :4], truth[..., 4].long()
    real, ignored = (classes >= 0) & (truth[..., 5] == 0), (classes >= 0) & (truth[..., 5] > 0)
    x, y = detector.centres[:, 0], detector.centres[:, 1]
    inside = lambda box: (x > box[..., 0:1]) & (x < box[..., 2:3]) & (y > box[..., 1:2]) & (y < box[..., 3:4])
    # Small objects hold the middle of no cell: a cell that is near enough will do.
    grown = torch.cat([true[..., :2] - 5, true[..., 2:] + 5], -1)
    within = inside(grown)
    quality = overlap(true[:, :, None], boxes[:, None])
    chance = scores.sigmoid().gather(2, classes.clamp(0)[:, None].expand(n, boxes.shape[1], m)).transpose(1, 2)
    metric = chance.sqrt() * quality.pow(3) * within * real[..., None]
    best, cells = metric.topk(most, -1)
    chosen = torch.zeros_like(metric, dtype=torch.bool).scatter_(2, cells, best > 1e-9)
    # A cell wanted by several answers for the one that it fits best.
    metric = torch.where(chosen, metric, torch.zeros_like(metric))
    value, whose = (quality * chosen).max(1)
    whose = torch.where(value > 0, whose, -torch.ones_like(whose))
    top_metric, top_quality = metric.amax(2, keepdim=True), (quality * chosen).amax(2, keepdim=True)
    aim = (metric / (top_metric + 1e-9) * top_quality).gather(1, whose.clamp(0)[:, None])[:, 0] * (whose >= 0)
    kinds = F.one_hot(classes.clamp(0), scores.shape[-1])
    spared = torch.einsum("nma,nmc->nac", (within & ignored[..., None]).float(), kinds.float()) > 0
    return whose, aim, spared


def loss(detector, x, truth, weight_of_boxes):
    boxes, scores = detector(x)
    whose, aim, spared = assign(detector, boxes, scores, truth)
    index = whose.clamp(0)[..., None]
    classes = truth[..., 4].long().clamp(0).gather(1, index[..., 0])
    wanted = torch.zeros_like(scores).scatter_(2, classes[..., None], aim[..., None])
    chance = scores.sigmoid()
    # Cells that are sure of nothing weigh little (varifocal loss).
    weight = torch.where(wanted > 0, wanted, 0.75 * chance.detach().pow(2)) * ((wanted > 0) | ~spared)
    total = aim.sum().clamp(1)
    class_loss = (F.binary_cross_entropy_with_logits(scores, wanted, reduction="none") * weight).sum() / total
    true = truth[..., :4].gather(1, index.expand(-1, -1, 4))
    laid = ((1 - overlap(boxes, true, general=True)) * aim).sum() / total
    return class_loss + weight_of_boxes * laid


def padded(boxes):
    """Boxes of a batch as one tensor, filled up with class -1."""
    most = max(1, max(len(each) for each in boxes))
    filled = torch.full((len(boxes), most, 6), -1.0)
    for row, each in zip(filled, boxes):
        row[: len(each)] = each
    return filled


def mirrored(x, truth):
    """Left and right changed over."""
    width = x.shape[-1]
    turned = truth.clone()
    turned[..., 0], turned[..., 2] = width - truth[..., 2], width - truth[..., 0]
    return x.flip(-1), turned


def windowed(pictures, truth, size, zoom=(0.75, 1.2)):
    """Of each picture a window of chance, drawn larger or smaller by the same chance for all, at `size` in the end: what
    is learned of a part is known of the whole, for less work. Objects that are cut below half are not asked for."""
    width, height = size
    scale = float(torch.empty(()).uniform_(*zoom))
    w, h = (min(whole, round(side / scale)) for whole, side in zip((pictures.shape[3], pictures.shape[2]), size))
    left = torch.randint(0, pictures.shape[3] - w + 1, (len(pictures),))
    top = torch.randint(0, pictures.shape[2] - h + 1, (len(pictures),))
    cut = torch.stack([picture[:, y : y + h, x : x + w] for picture, x, y in zip(pictures, left, top)]).float()
    by = torch.tensor([width / w, height / h] * 2)
    corner = torch.stack([left, top, left, top], 1)[:, None]
    moved = (truth[..., :4] - corner) * by
    kept = moved.clone()
    kept[..., 0::2], kept[..., 1::2] = moved[..., 0::2].clamp(0, width), moved[..., 1::2].clamp(0, height)
    area = lambda box: (box[..., 2] - box[..., 0]) * (box[..., 3] - box[..., 1])
    inside = area(kept) / area(moved).clamp(1e-3)
    classes = torch.where(inside > 0.02, truth[..., 4], -torch.ones_like(inside))
    ignored = torch.maximum(truth[..., 5], (inside < 0.5).float())
    x = F.interpolate(cut, size=(height, width), mode="bilinear")
    return x, torch.cat([kept, classes[..., None], ignored[..., None]], -1)


@torch.no_grad()
def precision(detector, pictures, boxes, labels, at=0.5):
    """Average precision by class at IoU `at` (all points), as `weir score` counts it."""
    found = {label: [] for label in labels}
    asked = dict.fromkeys(labels, 0)
    for begin in range(0, len(pictures), 16):
        laid, scores = detector(pictures[begin : begin + 16].float() / 255)
        for own, chance, truth in zip(laid, scores.sigmoid(), boxes[begin : begin + 16]):
            for index, label in enumerate(labels):
                true = truth[truth[:, 4] == index]
                asked[label] += int((true[:, 5] == 0).sum())
                found[label] += matched(own, chance[:, index], true, at)
    return {label: area(found[label], asked[label]) for label in labels}


def matched(boxes, scores, true, at):
    """(score, right) of each detection of one class in one picture; those on what is not asked for are left out."""
    order = scores.argsort(descending=True)[:300]
    order = order[scores[order] > 0.05]
    boxes, scores = boxes[order], scores[order].tolist()
    same = (overlap(boxes[:, None], boxes[None]) > 0.5).tolist()
    of_true = overlap(boxes[:, None], true[None, :, :4]).tolist()
    ignored = (true[:, 5] > 0).tolist()
    rows, kept, taken = [], [], set()
    for index, score in enumerate(scores):
        if any(same[index][other] for other in kept):
            continue
        kept.append(index)
        free = [(quality, which) for which, quality in enumerate(of_true[index]) if ignored[which] or which not in taken]
        quality, which = max(free, default=(0.0, -1))
        hit = quality >= at
        if hit:
            taken.add(which)
        if not (hit and ignored[which]):
            rows.append((score, hit))
    return rows


def area(rows, asked):
    """Area under precision by recall, its later maxima taken for each recall."""
    rows = sorted(rows, reverse=True)
    right, curve = 0, []
    for count, (_, hit) in enumerate(rows, 1):
        right += hit
        curve.append((right / max(1, asked), right / count))
    total, best, before = 0.0, 0.0, None
    for recall, value in reversed(curve):
        if before is not None:
            total += (before - recall) * best
        best, before = max(best, value), recall
    return total + (before or 0.0) * best
