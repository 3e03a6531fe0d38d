"""The one training loop: AdamW, a rate that rises and falls once, and the mean of late weights, which is what is kept."""

import copy
import time

import torch
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel


def fit(name, model, count, loss_of, steps, batch=32, rate=2e-3, seed=1, decay=0.995, weight_decay=0.02, keep=None):
    """Trains `model` on samples 0..count: `loss_of(model, indices)` gives the loss of a batch. Returns the averaged
    model, ready to be exported. Where it is up to is kept in the file `keep`: a training that was broken off goes on from there,
    with the result that it would have had."""
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
    about, first = [name, count, steps, batch, rate, seed], 0
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "average": average}
    if keep and keep.exists() and (state := torch.load(keep))["about"] == about:
        for part, of in parts.items():
            of.load_state_dict(state[part])
        first, order, smooth = state["step"], state["order"], state["smooth"]
        draws.set_state(state["draws"])
        torch.set_rng_state(state["random"])
        print(f"{name}: goes on from step {first}", flush=True)
    for step in range(first, steps):
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
        if keep and (step + 1) % 200 == 0:
            state = {part: of.state_dict() for part, of in parts.items()}
            state |= {"about": about, "step": step + 1, "order": order, "smooth": smooth}
            state |= {"draws": draws.get_state(), "random": torch.get_rng_state()}
            torch.save(state, keep.with_suffix(".part"))
            keep.with_suffix(".part").replace(keep)
    if keep:
        keep.unlink(missing_ok=True)
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
