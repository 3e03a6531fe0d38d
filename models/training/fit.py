"""The one training loop: AdamW, a rate that rises and falls once, and the mean of late weights, which is what is kept."""

import copy
import time

import torch
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel


def fit(name, model, count, loss_of, steps, batch=32, rate=2e-3, seed=1, decay=0.995, weight_decay=0.02):
    """Trains `model` on samples 0..count: `loss_of(model, indices)` gives the loss of a batch. Returns the averaged
    model, ready to be exported."""
    torch.manual_seed(seed)
    # A fifth faster on a processor, with the same result.
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.15)
    # At first the mean is of few steps: what was before anything was learned must not weigh on it.
    newer = lambda mean, now, count: mean + (now - mean) * max(1 - decay, 9 / (10 + count))
    average = AveragedModel(model, avg_fn=newer, use_buffers=True)
    draws = torch.Generator().manual_seed(seed)
    order, begun, smooth = torch.empty(0, dtype=torch.long), time.monotonic(), None
    model.train()
    for step in range(steps):
        while len(order) < batch:
            order = torch.cat([order, torch.randperm(count, generator=draws)])
        indices, order = order[:batch], order[batch:]
        loss = loss_of(model, indices)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        schedule.step()
        average.update_parameters(model)
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        if (step + 1) % max(1, steps // 10) == 0:
            print(f"{name}: {step + 1}/{steps} loss {smooth:.4f} after {time.monotonic() - begun:.0f} s", flush=True)
    return copy.deepcopy(average.module).eval()


def relit(x, generator=None):
    """Bytes to 0..1 under a light of chance: brightness, contrast and tint differ a little from sample to sample."""
    x = x.float() / 255
    n, channels = x.shape[:2]
    draw = lambda *shape: torch.rand(*shape, generator=generator) * 2 - 1
    mean = x.mean((1, 2, 3), keepdim=True)
    x = (x - mean) * (1 + 0.25 * draw(n, 1, 1, 1)) + mean * (1 + 0.2 * draw(n, 1, 1, 1))
    # The same grain for all: to draw one for each takes as long as a part of the net.
    x = x * (1 + 0.06 * draw(n, channels, 1, 1)) + 0.02 * torch.randn(x.shape[1:], generator=generator)
    return x.clamp(0, 1)


def nudged(x, part=0.07):
    """Moved, and made larger or smaller in each direction, by up to `part` of its sides: as if detectors had cut it."""
    draw = (torch.rand(len(x), 4) * 2 - 1) * part
    turn = torch.zeros(len(x), 2, 3)
    turn[:, 0, 0], turn[:, 1, 1] = 1 + draw[:, 0], 1 + draw[:, 1]
    turn[:, :, 2] = draw[:, 2:]
    grid = F.affine_grid(turn, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)
