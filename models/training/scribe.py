"""The net that reports: a decoder that goes on from what is in a scene with sentences about it.

It learns from pairs of a prompt and a report that `render scenes` writes. Its vocabulary is words, and single characters for
plates and names, which it copies; it stands in the metadata of the ONNX file.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from fit import fit
from words import END, PIECES, decode, pairs

# Positions that the net knows.
LENGTH = 512


def turned(x, cos, sin):
    """Rotary positions: pairs of numbers turned by an angle that grows with the position."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asked, self.said = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, angles, mask, past=None):
        batch, tokens, width = x.shape
        query, key, value = (
            part.reshape(batch, tokens, self.heads, self.size).transpose(1, 2)
            for part in self.asked(self.before(x)).chunk(3, -1)
        )
        query, key = turned(query, *angles), turned(key, *angles)
        if past is None:
            said = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
            weights = query @ key.transpose(-1, -2) / math.sqrt(self.size) + mask
            said = weights.softmax(-1) @ value
        x = x + self.said(said.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.narrow(F.relu(self.wide(self.between(x)))), (key, value)


class Scribe(nn.Module):
    def __init__(self, width=96, heads=6, layers=3):
        super().__init__()
        self.words = nn.Embedding(len(PIECES), width)
        nn.init.normal_(self.words.weight, std=0.05)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.last = nn.LayerNorm(width)
        self.logits = nn.Linear(width, len(PIECES), bias=False)
        half = width // heads // 2
        angles = torch.arange(LENGTH)[:, None] / 10000 ** (torch.arange(half) / half)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens, positions=None, mask=None, past=None):
        """Logits, and the caches of all layers; without `past` for whole texts."""
        x = self.words(tokens)
        if positions is None:
            angles = tuple(table[:tokens.shape[1]] for table in (self.cos, self.sin))
        else:
            angles = tuple(table[positions][:, None] for table in (self.cos, self.sin))
        caches = []
        for number, block in enumerate(self.blocks):
            x, cache = block(x, angles, mask, past and past[number])
            caches.append(cache)
        return self.logits(self.last(x)), caches


class Export(nn.Module):
    """With flat inputs and outputs, as ONNX has them."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, tokens, positions, mask, *past):
        logits, caches = self.net(tokens, positions, mask, list(zip(past[::2], past[1::2])))
        return logits, *(part for cache in caches for part in cache)


def batches(path, count, size):
    """Batches of texts of about equal length: tokens, and how many of each are its prompt."""
    made, pool = [], []
    for pair in pairs(path):
        pool.append(pair)
        if len(pool) == 32 * size:
            pool.sort(key=lambda pair: len(pair[0]) + len(pair[1]))
            made += [packed(pool[at:at + size]) for at in range(0, len(pool), size)]
            pool = []
            if len(made) >= count:
                break
    return made[:count]


def packed(part):
    longest = max(len(prompt) + len(report) for prompt, report in part)
    tokens = torch.zeros(len(part), longest, dtype=torch.int16)
    wanted = torch.zeros(len(part), longest, dtype=torch.bool)
    for row, (prompt, report) in enumerate(part):
        tokens[row, :len(prompt) + len(report)] = torch.tensor(prompt + report, dtype=torch.int16)
        wanted[row, len(prompt):len(prompt) + len(report)] = True
    return tokens, wanted


def loss(model, batch):
    """Of the report alone: nothing says what comes next in a prompt."""
    tokens, wanted = batch[0].long(), batch[1][:, 1:]
    logits, _ = model(tokens[:, :-1])
    return F.cross_entropy(logits[wanted], tokens[:, 1:][wanted])


@torch.no_grad()
def generate(model, prompts, most=192):
    """The most probable token each time, for prompts of one length."""
    tokens = torch.tensor(prompts)
    batch, length = tokens.shape
    empty = torch.zeros(batch, model.blocks[0].heads, 0, model.blocks[0].size)
    past = [(empty, empty) for _ in model.blocks]
    mask = torch.full((length, length), -1e9).triu(1)[None, None]
    positions = torch.arange(length).expand(batch, length)
    said = []
    ended = torch.zeros(batch, dtype=torch.bool)
    for step in range(most):
        logits, past = model(tokens, positions, mask, past)
        tokens = logits[:, -1:].argmax(-1)
        said.append(tokens[:, 0])
        ended |= tokens[:, 0] == END
        if ended.all():
            break
        mask, positions = torch.zeros(1), torch.full((batch, 1), length + step)
    rows = torch.stack(said, 1).tolist()
    return [row[:row.index(END)] if END in row else row for row in rows]


def score(model, path):
    """Which part of the sentences, and of whole reports, is said to the letter."""
    by_length = {}
    for prompt, report in pairs(path):
        by_length.setdefault(len(prompt), []).append((prompt, report))
    right = sentences = whole = reports = 0
    for part in by_length.values():
        for row, (_, report) in zip(generate(model, [prompt for prompt, _ in part]), part):
            expected, said = (decode(tokens).split(". ") for tokens in (report[:-1], row))
            right += sum(a.rstrip(".") == b.rstrip(".") for a, b in zip(expected, said))
            sentences += max(len(expected), len(said))
            whole += expected == said
            reports += 1
    return {"sentences_right": right / sentences, "reports_right": whole / reports}


def learn(net, scenes, seed):
    """Trains on scenes each of which it sees once."""
    made = batches(scenes / "train.jsonl", net.steps, net.batch)
    torch.manual_seed(seed)
    model = Scribe()
    steps = len(made)
    model = fit(net.name, model, steps, lambda model, index: loss(model, made[index.item()]), steps, 1, net.rate, seed,
                keep=scenes / f"{net.name}.state")
    return model, score(model, scenes / "validation.jsonl"), steps * net.batch


def export(model, path):
    """Writes the net with its vocabulary; batch, tokens and past are free."""
    import onnx

    layers = range(len(model.blocks))
    past = [f"past.{layer}.{part}" for layer in layers for part in ("key", "value")]
    present = [f"present.{layer}.{part}" for layer in layers for part in ("key", "value")]
    block = model.blocks[0]
    cache = torch.zeros(2, block.heads, 5, block.size)
    inputs = (torch.ones(2, 3, dtype=torch.long), torch.arange(5, 8).expand(2, 3), torch.zeros(2, 1, 3, 8))
    axes = {"input_ids": {0: "n", 1: "tokens"}, "position_ids": {0: "n", 1: "tokens"}, "logits": {0: "n", 1: "tokens"},
            "attention_mask": {0: "n", 2: "tokens", 3: "all"}}
    axes |= {name: {0: "n", 2: "past"} for name in past} | {name: {0: "n", 2: "all"} for name in present}
    torch.onnx.export(Export(model).eval(), (*inputs, *[cache] * len(past)), str(path), dynamo=False, opset_version=17,
                      input_names=["input_ids", "position_ids", "attention_mask", *past],
                      output_names=["logits", *present], dynamic_axes=axes)
    made = onnx.load(path)
    escaped = [piece.replace("\\", "\\\\").replace("\n", "\\n") for piece in PIECES]
    onnx.helper.set_model_props(made, {"vocabulary": "\n".join(escaped)})
    onnx.save(made, path)


def card(net, model, samples, minutes, figures):
    """What is to be known of the net, as its card says it."""
    parameters = sum(each.numel() for each in model.parameters())
    block = model.blocks[0]
    rows = "\n".join(f"| {figure} | {value:.4f} |" for figure, value in figures.items())
    return f"""# {net.name}

Goes on from what is in a scene, in words, with two to ten sentences about it. Task: {net.task}, attribute `report`.
A decoder: {len(model.blocks)} layers of width {block.heads * block.size} with {block.heads} heads, rotary positions up to {LENGTH}, a cache for keys and one for values of each layer.
{len(PIECES)} pieces in its vocabulary: words, and single characters for plates and names, which it copies. It stands in the metadata of the file.

Trained from scratch on scenes drawn by chance (`render scenes`) and on nothing else; it knows one form of prompt and one grammar.
{parameters} parameters. {samples} samples, {net.steps} steps of {net.batch}, {minutes} minutes on one core of two in use.

On scenes of seeds that it was not trained on, the most probable token taken each time:

| figure | value |
|---|---|
{rows}
"""
