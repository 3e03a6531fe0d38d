"""Faces, palms and MMDeploy's detectors: small networks of ONNX nodes alone, with the outputs that these frameworks document, and BlazeFace
with its published weights.

The objects are computed here, by the published description of each: scrfd.py of InsightFace, prior_box.py and box_utils.py of
Pytorch_Retinaface, ssd_anchors_calculator.cc and tensors_to_detections_calculator.cc of MediaPipe, docs of MMDeploy. Points of faces are
not in event lines, so that only those of MediaPipe are compared.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import Export, Found, Row, open_session, pictures, planes, suppress

CLASSES = [f"c{number}" for number in range(6)]


def rows(assets: Path) -> list:
    def row(framework: str, model: str, options: str, make, *arguments) -> Row:
        return Row(f"{framework} (emulated)", model, options, lambda folder: make(assets, folder, *arguments))

    return [
        row("InsightFace", "SCRFD", "flat, five points", scrfd, 3, "flat"),
        row("InsightFace", "SCRFD", "flat with a batch, boxes alone", scrfd, 2, "batch"),
        row("InsightFace", "SCRFD", "grids, five points", scrfd, 3, "grid"),
        row("RetinaFace", "mobilenet0.25", "loc, conf, landms with softmax", retinaface, True),
        row("RetinaFace", "mobilenet0.25", "loc, conf, landms without softmax", retinaface, False),
        row("MediaPipe", "palm detection", "192 pixels, 2016 anchors", palms),
        row("MMDeploy", "RTMDet", "dets, labels", mmdeploy),
        Row("MediaPipe", "BlazeFace, published weights", "128 pixels, outputs by grid", lambda folder: blazeface(assets)),
    ]


class Graph:
    """Nodes of a network whose values are mean colours of squares, times weights drawn at random."""

    def __init__(self, side: int, pixels_last: bool = False):
        self.random = np.random.default_rng(7)
        self.nodes, self.weights, self.outputs = [], [], []
        shape = [1, side, side, 3] if pixels_last else [1, 3, side, side]
        self.input = helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)
        self.image = self.add("Transpose", ["image"], perm=[0, 3, 1, 2]) if pixels_last else "image"

    def add(self, kind: str, inputs: list, count: int = 1, **attributes):
        names = [f"{kind}{len(self.nodes)}_{number}" for number in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0] if count == 1 else names

    def constant(self, values) -> str:
        name = f"weights{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def linear(self, stride: int, values: int, gain: float, bias: float) -> str:
        """So many planes of cells of a stride."""
        pooled = self.add("AveragePool", [self.image], kernel_shape=[stride, stride], strides=[stride, stride])
        drawn = self.random.normal(0, gain, (values, 3, 1, 1)).astype(np.float32)
        return self.add("Conv", [pooled, self.constant(drawn), self.constant(np.full(values, bias, np.float32))])

    def rows(self, planes: str, size: int) -> str:
        """[1, cells * anchors, size]."""
        last = self.add("Transpose", [planes], perm=[0, 2, 3, 1])
        return self.add("Reshape", [last, self.constant(np.array([1, -1, size], np.int64))])

    def output(self, value: str, name: str, shape: list, element=TensorProto.FLOAT) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, element, shape))

    def save(self, file: Path) -> Path:
        graph = helper.make_graph(self.nodes, "g", [self.input], self.outputs, self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(file))
        return file


def run(file: Path, picture, mean, std, blue_first=False, pixels_last=False) -> list:
    session = open_session(file)
    pixels = np.asarray(picture)[:, :, ::-1] if blue_first else picture
    values = planes(pixels, mean, std)
    values = values.transpose(1, 2, 0) if pixels_last else values
    return session.run(None, {session.get_inputs()[0].name: np.ascontiguousarray(values)[None]})


def best_of(boxes, scores, points, name: str, threshold: float, overlap: float) -> list:
    """Objects above the threshold, by greedy suppression; each with its points."""
    found = []
    for at in np.flatnonzero(scores >= threshold):
        detail = {"points": [[float(x), float(y), float(scores[at])] for x, y in points[at]]} if points is not None else {}
        found.append(Found(name, float(scores[at]), tuple(map(float, boxes[at])), detail))
    return suppress(found, overlap)[:300]


def raised(make, assets: Path, side: int, scores, share: float = 0.01) -> float:
    """The bias by which this share of the places reaches a probability of one half in half of the pictures."""
    seen = [np.quantile(scores(make(0.0), picture), 1 - share) for picture in pictures(assets, (side, side))[:6]]
    return -float(np.median(seen))


def logit(probability):
    return np.log(np.clip(probability, 1e-7, 1 - 1e-7) / (1 - np.clip(probability, 1e-7, 1 - 1e-7)))


def scrfd(assets: Path, folder: Path, kinds: int, layout: str) -> Export:
    side, strides = 320, (8, 16, 32)

    def make(bias: float) -> Path:
        graph = Graph(side)
        for kind, (name, size) in list(enumerate([("score", 1), ("bbox", 4), ("kps", 10)]))[:kinds]:
            for stride in strides:
                value = graph.linear(stride, 2 * size, 3.0 if kind == 0 else 0.4, bias if kind == 0 else 1.0)
                value = graph.add("Sigmoid", [value]) if kind == 0 else graph.add("Exp", [value])
                cells = side // stride
                shape = [1, 2 * size, cells, cells]
                if layout != "grid":
                    value, shape = graph.rows(value, size), [1, 2 * cells * cells, size]
                if layout == "flat":
                    value, shape = graph.add("Squeeze", [value, graph.constant(np.array([0], np.int64))]), shape[1:]
                graph.output(value, f"{name}_{stride}", shape)
        return graph.save(folder / "model.onnx")

    def outputs(file: Path, picture) -> list:
        out = run(file, picture, 127.5, 128.0)
        if layout == "grid":
            size = {2: 1, 8: 4, 20: 10}
            out = [value[0].transpose(1, 2, 0).reshape(-1, size[value.shape[1]]) for value in out]
        return [value.reshape(-1, value.shape[-1]) for value in out]

    bias = raised(make, assets, side, lambda file, picture: logit(np.concatenate(outputs(file, picture)[:3])), 0.003)
    file = make(bias)

    def objects(picture) -> list:
        out = outputs(file, picture)
        boxes = []
        for level, stride in enumerate(strides):
            height = width = side // stride
            centers = np.stack(np.mgrid[:height, :width][::-1], axis=-1).astype(np.float32)
            centers = (centers * stride).reshape((-1, 2))
            centers = np.stack([centers] * 2, axis=1).reshape((-1, 2))
            distance = out[3 + level] * stride
            boxes.append(np.stack([centers[:, 0] - distance[:, 0], centers[:, 1] - distance[:, 1],
                                   centers[:, 0] + distance[:, 2], centers[:, 1] + distance[:, 3]], axis=-1))
        return best_of(np.concatenate(boxes), np.concatenate(out[:3])[:, 0], None, "face", 0.5, 0.4)

    return Export(file, (side, side), "scrfd", lambda whole: [objects(picture) for picture in whole], threshold=0.5)


def retinaface(assets: Path, folder: Path, softmax: bool) -> Export:
    side, mean = 320, np.array([104, 117, 123], np.float32)

    def make(bias: float) -> Path:
        graph = Graph(side)
        for name, size, gain in [("loc", 4, 0.02), ("conf", 2, 0.02), ("landms", 10, 0.02)]:
            levels = []
            for stride in (8, 16, 32):
                value = graph.linear(stride, 2 * size, gain, 0.0)
                levels.append(graph.rows(value, size))
            value = graph.add("Concat", levels, axis=1)
            if name == "conf":
                value = graph.add("Add", [value, graph.constant(np.array([0, bias], np.float32))])
                value = graph.add("Softmax", [value], axis=-1) if softmax else value
            graph.output(value, name, [1, 2 * sum((side // s) ** 2 for s in (8, 16, 32)), size])
        return graph.save(folder / "model.onnx")

    def scored(file: Path, picture):
        loc, conf, landms = (value[0] for value in run(file, picture, mean, 1.0, blue_first=True))
        if not softmax:
            share = np.exp(conf - conf.max(axis=1, keepdims=True))
            conf = share / share.sum(axis=1, keepdims=True)
        return loc, conf[:, 1], landms

    bias = raised(make, assets, side, lambda file, picture: logit(scored(file, picture)[1]), 0.003)
    file = make(bias)
    anchors = []
    for stride, sizes in ((8, [16, 32]), (16, [64, 128]), (32, [256, 512])):
        for i in range(side // stride):
            for j in range(side // stride):
                for size in sizes:
                    anchors.append([(j + 0.5) * stride / side, (i + 0.5) * stride / side, size / side, size / side])
    priors = np.array(anchors)

    def objects(picture) -> list:
        loc, scores, _ = scored(file, picture)
        boxes = np.concatenate((priors[:, :2] + loc[:, :2] * 0.1 * priors[:, 2:], priors[:, 2:] * np.exp(loc[:, 2:] * 0.2)), 1)
        boxes[:, :2] -= boxes[:, 2:] / 2
        boxes[:, 2:] += boxes[:, :2]
        return best_of(boxes * side, scores, None, "face", 0.5, 0.4)

    return Export(file, (side, side), "retinaface", lambda whole: [objects(picture) for picture in whole], threshold=0.5)


def mediapipe_anchors(side: int, grids: list) -> np.ndarray:
    """Centres of anchors of a fixed size, from 0 to 1: a grid after the other, row by row, several in each cell."""
    centers = []
    for stride, each in grids:
        cells = -(-side // stride)
        for y in range(cells):
            for x in range(cells):
                centers += [((x + 0.5) / cells, (y + 0.5) / cells)] * each
    return np.array(centers)


def mediapipe(raw, scores, anchors, side: int, points: int, name: str) -> list:
    """Detections of tensors: centre, size and points by the size of the input, from the anchors."""
    scores = 1 / (1 + np.exp(-np.clip(scores.ravel(), -100, 100)))
    center = raw[:, :2] / side + anchors
    size = raw[:, 2:4] / side
    boxes = np.concatenate([center - size / 2, center + size / 2], 1) * side
    at = raw[:, 4:].reshape(-1, points, 2) / side + anchors[:, None]
    # Points are compared within the picture.
    return best_of(boxes, scores, np.clip(at * side, 0, side), name, 0.5, 0.3)


def palms(assets: Path, folder: Path) -> Export:
    side, grids = 192, [(8, 2), (16, 6)]

    def make(bias: float) -> Path:
        graph = Graph(side, pixels_last=True)
        for name, size, gain, first in [("Identity", 18, 12.0, 0.0), ("Identity_1", 1, 4.0, bias)]:
            levels = []
            for stride, each in grids:
                value = graph.linear(stride, each * size, gain, first)
                levels.append(graph.rows(value, size))
            value = graph.add("Concat", levels, axis=1)
            if size == 18:
                # Boxes of about 40 pixels.
                value = graph.add("Add", [value, graph.constant(np.array([0, 0, 40, 40] + [0] * 14, np.float32))])
            graph.output(value, name, [1, 2016, size])
        return graph.save(folder / "model.onnx")

    def outputs(file: Path, picture):
        return run(file, picture, 0.0, 255.0, pixels_last=True)

    bias = raised(make, assets, side, lambda file, picture: outputs(file, picture)[1])
    file, anchors = make(bias), mediapipe_anchors(side, grids)

    def objects(picture) -> list:
        raw, scores = (value[0] for value in outputs(file, picture))
        return mediapipe(raw, scores, anchors, side, 7, "palm")

    return Export(file, (side, side), "palm", lambda whole: [objects(picture) for picture in whole], threshold=0.5)


def blazeface(assets: Path) -> Export:
    side, file = 128, assets / "models" / "blazeface_front_128.onnx"
    anchors = mediapipe_anchors(side, [(8, 2), (16, 6)])

    def objects(picture) -> list:
        fine, coarse, fine_raw, coarse_raw = (value[0] for value in run(file, picture, 127.5, 127.5, pixels_last=True))
        return mediapipe(np.concatenate([fine_raw, coarse_raw]), np.concatenate([fine, coarse]), anchors, side, 6, "face")

    return Export(file, (side, side), "blazeface", lambda whole: [objects(picture) for picture in whole], threshold=0.5)


def mmdeploy(assets: Path, folder: Path) -> Export:
    side, most = 320, 50
    mean, std = np.array([103.53, 116.28, 123.675], np.float32), np.array([57.375, 57.12, 58.395], np.float32)
    cells = np.concatenate([np.stack([g.ravel() for g in np.mgrid[:side // s, :side // s][::-1]] + [np.full((side // s) ** 2, s)], 1) for s in (8, 16, 32)])

    def make(bias: float) -> Path:
        graph = Graph(side)
        scores = graph.add("Concat", [graph.rows(graph.linear(s, 6, 1.0, bias), 6) for s in (8, 16, 32)], axis=1)
        offsets = graph.add("Concat", [graph.rows(graph.linear(s, 4, 0.4, 1.0), 4) for s in (8, 16, 32)], axis=1)
        signed = graph.add("Mul", [graph.add("Exp", [offsets]), graph.constant((cells[:, 2:] * [[-1, -1, 1, 1]]).astype(np.float32))])
        centers = ((cells[:, :2] + 0.5) * cells[:, 2:]).astype(np.float32)
        boxes = graph.add("Add", [signed, graph.constant(np.concatenate([centers, centers], 1))])
        shares = graph.add("Sigmoid", [scores])
        best = graph.add("ReduceMax", [shares], axes=[2], keepdims=0)
        score, at = graph.add("TopK", [best, graph.constant(np.array([most], np.int64))], count=2, axis=1)
        label = graph.add("GatherElements", [graph.add("ArgMax", [shares], axis=2, keepdims=0), at], axis=1)
        last = graph.constant(np.array([2], np.int64))
        wide = graph.add("Expand", [graph.add("Unsqueeze", [at, last]), graph.constant(np.array([1, most, 4], np.int64))])
        rows = graph.add("GatherElements", [boxes, wide], axis=1)
        graph.output(graph.add("Concat", [rows, graph.add("Unsqueeze", [score, last])], axis=2), "dets", [1, most, 5])
        graph.output(label, "labels", [1, most], TensorProto.INT64)
        return graph.save(folder / "model.onnx")

    def outputs(file: Path, picture):
        return run(file, picture, mean, std, blue_first=True)

    bias = raised(make, assets, side, lambda file, picture: logit(outputs(file, picture)[0][..., 4]), 0.5)
    file = make(bias)

    def objects(picture) -> list:
        dets, labels = (value[0] for value in outputs(file, picture))
        return [Found(CLASSES[c], float(row[4]), tuple(map(float, row[:4]))) for row, c in zip(dets, labels) if row[4] >= 0.5]

    keys = {"labels": CLASSES, "mean": "103.53, 116.28, 123.675", "std": "57.375, 57.12, 58.395"}
    return Export(file, (side, side), "mmdeploy", lambda whole: [objects(picture) for picture in whole], threshold=0.5, keys=keys)
