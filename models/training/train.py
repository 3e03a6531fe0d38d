"""Trains nets from scratch on rendered stills and scenes, and writes each as ONNX with its card.

    python train.py --stills DIR --out DIR [NET ...]

DIR holds folders of stills and of scenes as `scripts/train-models.sh` renders them: street-train, street-validation and so on.
"""

import argparse
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

import detector
import scribe
from fit import fit, relit
from nets import NETS
from readers import TASKS
from stills import Stills, crops, frames, portraits

SEED = 20


def train_detector(net, learn, check):
    size = (net.width, net.height)
    pictures, boxes = frames_in_all_lights(learn, size, net)
    model = detector.Detector(net.labels, size, net.widths, net.neck)

    def loss(model, indices):
        looks_whole = net.whole and torch.rand(()) < net.whole
        indices = indices[: len(indices) // 2] if looks_whole else indices
        x, truth = pictures[indices], detector.padded([boxes[i] for i in indices.tolist()])
        if net.window and not looks_whole:
            x, truth = detector.windowed(x, truth, net.window)
        x = relit(x)
        if net.world != "game" and torch.rand(()) < 0.5:
            x, truth = detector.mirrored(x, truth)
        return detector.loss(model.sized((x.shape[3], x.shape[2])), x, truth, net.boxes)

    model = fit(net.name, model, len(pictures), loss, net.steps, net.batch, net.rate, SEED)
    model, figures = model.sized(size), {}
    for kind, stills in [("", check), *((f"_{light}", check.lit(light)) for light in net.lights)]:
        found = detector.precision(model, *frames(stills, size, net.labels), net.labels)
        figures |= {f"ap_{label}{kind}": value for label, value in found.items()}
    return detector.Export(model), figures, len(pictures)


def frames_in_all_lights(learn, size, net):
    seen = [frames(stills, size, net.labels) for stills in (learn, *(learn.lit(light) for light in net.lights))]
    pictures = torch.cat([some for some, _ in seen]) if net.lights else seen[0][0]
    return pictures, [each for _, some in seen for each in some]


def train_reader(net, learn, check, also=None):
    task = TASKS[net.task](net)
    seen = [crops(learn, net, net.jitter, SEED, net.at_least)]
    if also:
        seen.append(crops(also, net, net.jitter, SEED, net.at_least))
    if net.task == "identity":
        # Who is to be known again is known from a gallery.
        seen.append(portraits(learn.folder.parent / "gallery-train", net))
        task.gallery = portraits(learn.folder.parent / "gallery-validation", net)
    x, about = torch.cat([x for x, _ in seen]), [each for _, about in seen for each in about]
    model, truth = task.model(about), task.truth(about)
    some = (lambda indices: [truth[i] for i in indices.tolist()]) if isinstance(truth, list) else truth.__getitem__
    loss = lambda model, indices: task.loss(model, x[indices], some(indices))
    model = fit(net.name, model, len(x), loss, net.steps, net.batch, net.rate, SEED)
    with torch.no_grad():
        # A detector's boxes are a little off, too.
        figures = task.score(model, *crops(check, net, 0.03, SEED, net.at_least))
    return task.export(model).eval(), figures, len(x)


def work(model, net):
    """Multiply-accumulates for one picture."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, net.channels, net.height, net.width))
    return counter.get_total_flops() // 2


def share_of_next(net):
    """Of the work of the net that a cascade has after this one, the share that this one takes."""
    both = [work(untrained(each).eval(), each) for each in (net, NETS[net.before])]
    return both[0] / both[1]


def untrained(net):
    if net.task == "detect":
        return detector.Detector(net.labels, (net.width, net.height), net.widths, net.neck)
    return TASKS[net.task](net).model([])


def export(model, net, path):
    """Writes the net with a free batch."""
    blank = torch.zeros(2, net.channels, net.height, net.width)
    torch.onnx.export(model, (blank,), str(path), dynamo=False, opset_version=17, input_names=["input"],
                      output_names=["output"], dynamic_axes={"input": {0: "n"}, "output": {0: "n"}})


def train(name, stills, out):
    """Trains one net on one core: several nets at a time use a machine better than one net on all of it."""
    torch.set_num_threads(1)
    net, begun = NETS[name], time.monotonic()
    if net.before and share_of_next(net) > 1 / 3:
        raise ValueError(f"{name} takes more than a third of the work of {net.before}")
    torch.manual_seed(SEED)
    if net.task == "report":
        return train_scribe(net, stills, out, begun)
    folders = [f"{net.world}-train", f"{net.world}-validation"] + ([f"{net.also}-train"] if net.also else [])
    learn = train_detector if net.task == "detect" else train_reader
    model, figures, samples = learn(net, *(Stills(stills / folder) for folder in folders))
    export(model, net, out / f"{name}.onnx")
    minutes = round((time.monotonic() - begun) / 60, 1)
    path = out / "cards" / f"{name}.md"
    # What was measured through the engine is of the net before: it stays as a reminder to measure it again.
    _, mark, measured = path.read_text().partition("\n## Operating") if path.exists() else ("", "", "")
    path.write_text(card(net, model, samples, minutes, figures) + mark + measured)
    return f"{name}: {minutes} min, " + ", ".join(f"{figure} {value:.4f}" for figure, value in figures.items())


def train_scribe(net, stills, out, begun):
    model, figures, samples = scribe.learn(net, stills / net.world, SEED)
    scribe.export(model, out / f"{net.name}.onnx")
    minutes = round((time.monotonic() - begun) / 60, 1)
    path = out / "cards" / f"{net.name}.md"
    # As below: what was measured through the engine stays.
    _, mark, measured = path.read_text().partition("\n## Through") if path.exists() else ("", "", "")
    path.write_text(scribe.card(net, model, samples, minutes, figures) + mark + measured)
    return f"{net.name}: {minutes} min, " + ", ".join(f"{figure} {value:.4f}" for figure, value in figures.items())


def card(net, model, samples, minutes, figures):
    """What is to be known of a net, as its card says it."""
    sees = "whole frames, letterboxed" if net.task == "detect" else f"crops of `{net.of}`, wider and higher by {net.widen:g}"
    parameters = sum(each.numel() for each in model.parameters())
    rows = "\n".join(f"| {figure} | {value:.4f} |" for figure, value in figures.items())
    labels = f"Labels, in order: {', '.join(net.labels)}.\n" if net.labels else ""
    lights = f", of them stills at {' and in '.join(net.lights)}" if net.lights else ""
    stage = f"The first stage of a cascade before `{net.before}`: {share_of_next(net):.2f} of its work.\n" if net.before else ""
    return f"""# {net.name}

Looks at {sees}; {net.channels} x {net.height} x {net.width}. Task: {net.task}{f", attribute `{net.attribute}`" if net.attribute else ""}.
{labels}{stage}
Trained from scratch on rendered stills of the world `{net.world}`{f" and `{net.also}`" if net.also else ""} and on nothing else; it knows no other.
{parameters} parameters, {work(model, net) / 1e6:.1f} million multiply-accumulates for one picture.
{samples} samples{lights}, {net.steps} steps of {net.batch}, {minutes} minutes on one core of two in use.

On stills of seeds that it was not trained on:

| figure | value |
|---|---|
{rows}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stills", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("nets", nargs="*", default=list(NETS), metavar="NET")
    args = parser.parse_args()
    unknown = set(args.nets) - set(NETS)
    if unknown:
        parser.error(f"there is no net {', '.join(sorted(unknown))}; there are {', '.join(NETS)}")
    (args.out / "cards").mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        # What takes longest comes first.
        names = sorted(args.nets, key=lambda name: NETS[name].task not in ("detect", "report"))
        trained = [pool.submit(train, name, args.stills, args.out) for name in names]
        for net in trained:
            print(net.result(), flush=True)


if __name__ == "__main__":
    main()
