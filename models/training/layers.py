"""The layers that all nets are built of: convolutions with batch normalisation and ReLU, which any runtime runs fast."""

import torch
from torch import nn
from torch.nn import functional as F


def conv(inputs, outputs, kernel=3, stride=1):
    """Convolution, batch normalisation, ReLU. `kernel` and `stride` are a number or (rows, columns)."""
    pair = (kernel, kernel) if isinstance(kernel, int) else kernel
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, pair, stride, tuple(side // 2 for side in pair), bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Residual(nn.Module):
    """Half the channels by 1x1, back by 3x3, added to what came in."""

    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(conv(channels, channels // 2, 1), conv(channels // 2, channels))

    def forward(self, x):
        return x + self.body(x)


def trunk(channels, widths):
    """Halves the picture once for each width; from the second on, each is followed by a residual block."""
    stages, before = [], channels
    for index, width in enumerate(widths):
        stages.append(conv(before, width, stride=2))
        if index > 0:
            stages.append(Residual(width))
        before = width
    return nn.Sequential(*stages)


class Pooled(nn.Module):
    """A trunk, its mean and its flattened small map, and one linear layer: says something of the whole crop.
    The map keeps where things are, which a mean alone forgets."""

    def __init__(self, net, widths, outputs):
        super().__init__()
        self.trunk = trunk(net.channels, widths)
        factor = 2 ** len(widths)
        cells = -(-net.height // factor) * -(-net.width // factor)
        self.squeeze = conv(widths[-1], 32, 1)
        self.last = nn.Linear(widths[-1] + 32 * cells, outputs)

    def forward(self, x):
        x = self.trunk(x)
        mean = x.mean((2, 3))
        return self.last(F.dropout(torch.cat([mean, self.squeeze(x).flatten(1)], 1), 0.1, self.training))

