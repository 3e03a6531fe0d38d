"""What is said of one crop: text, who, which, where to, how much, and key points. Each task has its net, its loss, and the
figure by which it is known on validation stills."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from fit import nudged, relit
from layers import Pooled, Residual, conv, trunk


class Task:
    """A net for crops: `truth` makes tensors of what is known of objects, `loss` is what is trained on, `score` what is
    said of it in its card: a dictionary of figures."""

    def __init__(self, net):
        self.net = net

    def export(self, model):
        return model


# Text.


class Line(nn.Module):
    """A line of text as logits `[n, steps, characters + 1]`. Each column sees the better part of the line: CTC does not
    say where a character is to be recognised, and may well settle on a column from which it could not be seen."""

    def __init__(self, net, symbols):
        super().__init__()
        a, b, c, d = net.widths
        self.body = nn.Sequential(
            conv(net.channels, a, stride=(2, 2)),
            conv(a, b, stride=(2, 2)),
            Residual(b),
            conv(b, c, stride=(2, 1)),
            Residual(c),
            conv(c, d, stride=(2, 1)),
            Residual(d),
        )
        self.column = nn.Sequential(nn.Conv2d(d, d, (net.height // 16, 3), padding=(0, 1)), nn.ReLU(inplace=True))
        self.along = nn.ModuleList([conv(d, d, (1, 7)) for _ in range(2)])
        self.last = nn.Conv2d(d, symbols, 1)

    def forward(self, x):
        x = self.column(self.body(x))
        for mixed in self.along:
            x = x + mixed(x)
        return self.last(x)[:, :, 0].transpose(1, 2)


class Text(Task):
    def __init__(self, net):
        super().__init__(net)
        self.alphabet = net.labels

    def model(self, about):
        return Line(self.net, len(self.alphabet) + 1)

    def truth(self, about):
        return [seen["attributes"][self.net.attribute]["text"] for seen, _ in about]

    def loss(self, model, x, truth):
        logits = model(nudged(relit(x))).log_softmax(-1).transpose(0, 1)
        codes = [torch.tensor([self.alphabet.index(c) + 1 for c in text]) for text in truth]
        lengths = torch.tensor([len(code) for code in codes])
        steps = torch.full((len(codes),), logits.shape[0])
        return F.ctc_loss(logits, torch.cat(codes), steps, lengths, zero_infinity=True)

    def read(self, logits):
        texts = []
        for path in logits.argmax(-1).tolist():
            kept = [now for now, before in zip(path, [0] + path) if now != 0 and now != before]
            texts.append("".join(self.alphabet[symbol - 1] for symbol in kept))
        return texts

    def score(self, model, x, about):
        read, true = self.read(torch.cat([model(part.float() / 255) for part in x.split(256)])), self.truth(about)
        wide = [seen["box"][2] - seen["box"][0] for seen, _ in about]
        exact = lambda least: mean(r == t for r, t, w in zip(read, true, wide) if w >= least)
        return {"exact": exact(0), "exact_from_80_px": exact(80)}


def mean(values):
    values = [float(value) for value in values]
    return sum(values) / len(values) if values else math.nan


# Who.


class Identity(Task):
    """An embedding, trained as a classifier over the people of the training part by cosine with a margin
    (CosFace, Wang et al., CVPR 2018). The people it is asked about later were never among them."""

    dimensions = 64

    def model(self, about):
        people = sorted({seen["attributes"]["identity"]["match"] for seen, _ in about})
        self.people = {name: index for index, name in enumerate(people)}
        model = Pooled(self.net, self.net.widths, self.dimensions)
        model.people = nn.Parameter(torch.randn(len(people), self.dimensions) * 0.1)
        return model

    def truth(self, about):
        return torch.tensor([self.people[seen["attributes"]["identity"]["match"]] for seen, _ in about])

    def loss(self, model, x, truth):
        # The engine feeds (x - 127.5) / 127.5.
        vectors = F.normalize(model(nudged(relit(x)) * 2 - 1))
        cosines = vectors @ F.normalize(model.people).T
        wanted = F.one_hot(truth, len(model.people)) * 0.3
        return F.cross_entropy((cosines - wanted) * 24, truth)

    def score(self, model, x, about, others=20):
        """Top-1 among galleries of 20 people, as the engine decides: the nearest of all their pictures."""
        embedded = lambda x: F.normalize(torch.cat([model(part.float() / 127.5 - 1) for part in x.split(256)]))
        name = lambda seen: seen["attributes"]["identity"]["match"]
        vectors, names = embedded(x), [name(seen) for seen, _ in about]
        pictures, shown = self.gallery
        known, owners = embedded(pictures), [name(seen) for seen, _ in shown]
        people, right = sorted(set(names)), []
        for begin in range(0, len(people) - others + 1, others):
            group = set(people[begin : begin + others])
            asked = [index for index, who in enumerate(names) if who in group]
            there = [index for index, who in enumerate(owners) if who in group]
            nearest = (vectors[asked] @ known[there].T).argmax(1).tolist()
            right += [names[index] == owners[there[place]] for index, place in zip(asked, nearest)]
        return {"top1_among_20": mean(right)}

    def export(self, model):
        del model.people
        return model


# Which, where to, how much.


class Class(Task):
    def model(self, about):
        return Pooled(self.net, self.net.widths, len(self.net.labels))

    def varied(self, x):
        x = nudged(relit(x))
        return x.flip(-1) if self.net.of == "face" and torch.rand(()) < 0.5 else x

    def truth(self, about):
        return torch.tensor([self.net.labels.index(seen["attributes"][self.net.attribute]["class"]) for seen, _ in about])

    def loss(self, model, x, truth):
        return F.cross_entropy(model(self.varied(x)), truth, label_smoothing=0.05)

    def score(self, model, x, about):
        predicted = torch.cat([model(part.float() / 255) for part in x.split(256)]).argmax(1)
        return {"accuracy": mean((predicted == self.truth(about)).tolist())}


class Direction(Task):
    """Yaw and pitch in degrees."""

    def model(self, about):
        return Pooled(self.net, self.net.widths, 2)

    def truth(self, about):
        angles = [seen["attributes"][self.net.attribute] for seen, _ in about]
        return torch.tensor([[angle["yaw"], angle["pitch"]] for angle in angles])

    def loss(self, model, x, truth):
        x = nudged(relit(x))
        if torch.rand(()) < 0.5:
            # Who looks to the left looks to the right in a mirror.
            x, truth = x.flip(-1), truth * torch.tensor([-1.0, 1.0])
        return F.smooth_l1_loss(model(x) / 3, truth / 30)

    def predicted(self, model, x):
        return model(x) * 10

    def score(self, model, x, about):
        predicted = torch.cat([self.predicted(model, part.float() / 255) for part in x.split(256)])
        ray = lambda a: torch.stack([a[:, 0].sin() * a[:, 1].cos(), a[:, 1].sin(), a[:, 0].cos() * a[:, 1].cos()], 1)
        cosine = (ray(predicted.deg2rad()) * ray(self.truth(about).deg2rad())).sum(1).clamp(-1, 1)
        return {"mean_degrees": mean(cosine.acos().rad2deg().tolist())}

    def export(self, model):
        return After(model, lambda x: x * 10)


class After(nn.Module):
    """A net and what is done with its outputs."""

    def __init__(self, body, then):
        super().__init__()
        self.body, self.then = body, then

    def forward(self, x):
        return self.then(self.body(x))


class Gauge(Task):
    """A value from nought to full, as a part of full: the mean over as many bins as it has values, whose chances are
    learned, too (label distributions, Gao et al., TIP 2017)."""

    full = 100

    def model(self, about):
        return Pooled(self.net, self.net.widths, self.full + 1)

    def truth(self, about):
        return torch.tensor([[seen["attributes"][self.net.attribute]["value"] / self.full] for seen, _ in about])

    def predicted(self, logits):
        return logits.softmax(1) @ torch.linspace(0, 1, self.full + 1)[:, None]

    def loss(self, model, x, truth):
        logits = model(nudged(relit(x), 0.03))
        away = (torch.linspace(0, 1, self.full + 1) - truth) * self.full
        near = (-away.pow(2) / 2).softmax(1)
        return F.cross_entropy(logits, near) + F.smooth_l1_loss(self.predicted(logits), truth, beta=0.02)

    def score(self, model, x, about):
        predicted = self.predicted(torch.cat([model(part.float() / 255) for part in x.split(256)]))
        wrong = (predicted - self.truth(about)).abs() * self.full
        return {"within_2": mean((wrong <= 2).flatten().tolist()), "mean_error": mean(wrong.flatten().tolist())}

    def export(self, model):
        return After(model, self.predicted)


# Key points.


class Pose(nn.Module):
    """A map for each point at a quarter of the input; where a point is, is the mean place under its map's softmax
    (integral regression, Sun et al., ECCV 2018). Gives `[n, points, 3]`: x, y as parts of the input, and a score."""

    def __init__(self, net, points):
        super().__init__()
        self.first = trunk(net.channels, (24, 48))
        self.second = nn.Sequential(conv(48, 72, stride=2), Residual(72), Residual(72))
        self.third = nn.Sequential(conv(72, 96, stride=2), Residual(96), Residual(96))
        self.fourth = nn.Sequential(conv(96, 112, stride=2), Residual(112))
        self.sides = nn.ModuleList([conv(width, 48, 1) for width in (48, 72, 96, 112)])
        self.mixed = conv(48, 64)
        self.maps = nn.Conv2d(64, points, 1)
        self.seen = nn.Linear(112, points)
        rows, columns = net.height // 4, net.width // 4
        self.register_buffer("across", (torch.arange(columns) + 0.5) / columns)
        self.register_buffer("down", (torch.arange(rows) + 0.5) / rows)

    def forward(self, x):
        levels = [self.first(x)]
        for stage in (self.second, self.third, self.fourth):
            levels.append(stage(levels[-1]))
        above = self.sides[3](levels[3])
        for index in (2, 1, 0):
            above = self.sides[index](levels[index]) + F.interpolate(above, scale_factor=2, mode="nearest")
        maps = self.maps(self.mixed(above))
        chance = maps.flatten(2).softmax(-1).reshape(maps.shape)
        across, down = (chance.sum(2) * self.across).sum(-1), (chance.sum(3) * self.down).sum(-1)
        seen = self.seen(levels[3].mean((2, 3)))
        return torch.stack([across, down, seen.sigmoid()], -1)


class Points(Task):
    count = 17

    def model(self, about):
        return Pose(self.net, self.count)

    def truth(self, about):
        rows = []
        for seen, (x0, y0, x1, y1) in about:
            points = seen["attributes"][self.net.attribute]
            rows.append([
                [(p["x"] - x0) / (x1 - x0), (p["y"] - y0) / (y1 - y0), float(p["visible"])] for p in points
            ])
        return torch.tensor(rows, dtype=torch.float32)

    def loss(self, model, x, truth):
        predicted = model(relit(x))
        inside = ((truth[..., :2] >= 0) & (truth[..., :2] <= 1)).all(-1)
        # What is hidden can still be guessed, and is worth a little.
        weight = inside * (0.2 + 0.8 * truth[..., 2])
        wrong = (predicted[..., :2] - truth[..., :2]).abs().sum(-1)
        seen = F.binary_cross_entropy(predicted[..., 2], truth[..., 2] * inside)
        return (wrong * weight).sum() / weight.sum().clamp(1) * 10 + 0.2 * seen

    def score(self, model, x, about):
        """PCK@0.2 over visible points, by the torso's longer diagonal, or half the box's height where it is not seen."""
        predicted = torch.cat([model(part.float() / 255) for part in x.split(256)])
        right = []
        for (seen, box), points in zip(about, predicted.tolist()):
            true = seen["attributes"][self.net.attribute]
            at = lambda i: (true[i]["x"], true[i]["y"])
            size = max(math.dist(at(5), at(12)), math.dist(at(6), at(11)))
            if not all(true[i]["visible"] for i in (5, 6, 11, 12)):
                size = max(size, (seen["box"][3] - seen["box"][1]) / 2)
            w, h = box[2] - box[0], box[3] - box[1]
            for (x, y, _), point in zip(points, true):
                if point["visible"]:
                    place = (box[0] + x * w, box[1] + y * h)
                    right.append(math.dist(place, (point["x"], point["y"])) <= 0.2 * size)
        return {"pck_at_0.2": mean(right)}


TASKS = {"text": Text, "identity": Identity, "class": Class, "direction": Direction, "gauge": Gauge, "points": Points}
