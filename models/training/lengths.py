"""The nets that predict how long the reports of scribe become, by the tokens of its prompt.

    python lengths.py --scenes DIR --out FILE.json

DIR holds train.jsonl and validation.jsonl as `render scenes` writes them. Nine nets are trained by tiers of the lengths of prompts
and reports on one half of the scenes, then a gate on the other half with the nets frozen (GoodServe 3.2); beside them one net on
all. What the engine reads is in engine/policy/src/lengths/model.rs.
"""

import argparse
import itertools
import json
from pathlib import Path

import numpy as np

from words import CHARACTERS, CLASSES, PLACES, TOKENS, pairs

SEED = 20
SCENES, EPOCHS, BATCH, RATE = 120000, 20, 32, 2e-3
WIDTHS, GATE, TIERS = (24, 16, 1), 32, 3
# Tokens that say the same of a scene: which thing where, that one is new, that it has a plate or a name, and characters of those.
KINDS = [
    *([TOKENS[f" {name} {place}"]] for name in CLASSES for place in PLACES),
    [TOKENS["New:"]], [TOKENS[" #"]], [TOKENS[" @"]], [TOKENS[one] for one in CHARACTERS],
]


class Net:
    """Layers of weights; between them what is below zero is zero."""

    def __init__(self, inputs, outputs, rng):
        sizes = (inputs, *outputs)
        self.parts = []
        for before, after in itertools.pairwise(sizes):
            scale = (6 / before) ** 0.5
            self.parts += [rng.uniform(-scale, scale, (after, before)), np.zeros(after)]
        self.moments = [(np.zeros_like(part), np.zeros_like(part)) for part in self.parts]
        self.steps = 0

    def values(self, x):
        """What each layer gives, the input first."""
        values = [x]
        for weights, biases in zip(self.parts[::2], self.parts[1::2]):
            x = values[-1] @ weights.T + biases
            values.append(x if biases is self.parts[-1] else np.maximum(x, 0))
        return values

    def __call__(self, x):
        return self.values(x)[-1]

    def step(self, x, slopes, rate):
        """One step of Adam; `slopes` gives the derivative of the loss by the outputs."""
        values = self.values(x)
        slope = slopes(values[-1]) / len(x)
        gradients = []
        for layer in reversed(range(len(self.parts) // 2)):
            gradients[:0] = [slope.T @ values[layer], slope.sum(0)]
            slope = (slope @ self.parts[2 * layer]) * (values[layer] > 0)
        self.steps += 1
        for part, gradient, (mean, square) in zip(self.parts, gradients, self.moments):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient ** 2 - square)
            part -= rate * mean / (1 - 0.9 ** self.steps) / (np.sqrt(square / (1 - 0.999 ** self.steps)) + 1e-8)

    def layers(self):
        number = lambda value: float(f"{value:.5g}")
        return [
            {"weights": [number(each) for each in weights.ravel()], "biases": [number(each) for each in biases]}
            for weights, biases in zip(self.parts[::2], self.parts[1::2])
        ]


def slope(error):
    """Derivative of the absolute error, smoothed near zero."""
    return np.clip(error / 0.02, -1, 1)


def fit(net, x, slopes, rng):
    for epoch in range(EPOCHS):
        rate = RATE * (1 - 0.95 * epoch / EPOCHS)
        order = rng.permutation(len(x))
        for at in range(0, len(x), BATCH):
            some = order[at:at + BATCH]
            net.step(x[some], lambda out: slopes(out, some), rate)
    return net


def learned(x, y, rng):
    net = Net(x.shape[1], WIDTHS, rng)
    # From the mean on.
    net.parts[-1][:] = y.mean()
    return fit(net, x, lambda out, some: slope(out - y[some, None]), rng)


def softmax(scores):
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def gated(x, y, nets, rng):
    """A gate, with the nets frozen."""
    said = np.hstack([net(x) for net in nets])

    def slopes(scores, some):
        weights = softmax(scores)
        mixed = (weights * said[some]).sum(1, keepdims=True)
        return slope(mixed - y[some, None]) * weights * (said[some] - mixed)

    return fit(Net(x.shape[1], (GATE, len(nets)), rng), x, slopes, rng)


def tiers(values):
    bounds = np.quantile(values, [tier / TIERS for tier in range(1, TIERS)])
    return np.searchsorted(bounds, values, side="right")


def read(path, most):
    """Logarithms of what is counted of each prompt, and of the tokens of its report."""
    x, lengths = [], []
    kind_of = {token: kind for kind, tokens in enumerate(KINDS) for token in tokens}
    for prompt, report in itertools.islice(pairs(path), most):
        counts = np.zeros(len(KINDS) + 1)
        for token in prompt:
            if token in kind_of:
                counts[kind_of[token]] += 1
        counts[-1] = len(prompt)
        x.append(np.log1p(counts))
        lengths.append(len(report))
    return np.array(x), np.array(lengths)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scenes", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options = options.parse_args()
    rng = np.random.default_rng(SEED)
    x, lengths = read(options.scenes / "train.jsonl", SCENES)
    y = np.log(lengths)
    single = learned(x, y, rng)
    half = len(x) // 2
    of_prompt, of_report = tiers(x[:half, -1]), tiers(lengths[:half])
    nets = []
    for own in itertools.product(range(TIERS), repeat=2):
        own = (of_prompt == own[0]) & (of_report == own[1])
        if own.sum() >= 4 * BATCH:
            nets.append(learned(x[:half][own], y[:half][own], rng))
    gate = gated(x[half:], y[half:], nets, rng)
    written = {"kinds": KINDS, "single": single.layers(),
               "experts": {"gate": gate.layers(), "experts": [net.layers() for net in nets]}}
    options.out.write_text(json.dumps(written, separators=(",", ":")) + "\n")

    unseen, truth = read(options.scenes / "validation.jsonl", None)
    said = {
        "experts": np.exp((softmax(gate(unseen)) * np.hstack([net(unseen) for net in nets])).sum(1)),
        "single": np.exp(single(unseen)[:, 0]),
        "mean": np.full(len(truth), lengths.mean()),
        "history": rng.choice(lengths, len(truth)),
    }
    for name, predicted in said.items():
        print(f"{name}: mean absolute error {np.abs(predicted.round() - truth).mean():.2f} tokens of {truth.mean():.1f}")


if __name__ == "__main__":
    main()
