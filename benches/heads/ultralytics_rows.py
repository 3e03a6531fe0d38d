"""Exports of Ultralytics. Objects are those of its own `predict` on the same weights, or on the export where that computes another thing."""

import shutil
from pathlib import Path

from common import Export, Found, Row, calibrate_norms, column_runs, pictures, rescale, runs, score_some

IOU = 0.45


def rows(assets: Path) -> list:
    def row(model: str, options: str, head: str | None, **extra) -> Row:
        return Row("Ultralytics", model, options, lambda folder: export(assets, folder, model, head, **extra))

    plain = [
        row("yolov3-tiny", "opset 17", "yolov8", opset=17),
        row("yolov5n", "opset 17, imgsz 640", "yolov8", opset=17, imgsz=(640, 640)),
        row("yolov6n", "opset 17", "yolov8", opset=17),
        row("yolov8n", "opset 17, imgsz 640", "yolov8", opset=17, imgsz=(640, 640)),
        row("yolov8n", "opset 12, simplify=False", "yolov8", opset=12, simplify=False),
        row("yolov8n", "dynamic=True", "yolov8", dynamic=True),
        row("yolov8n", "half=True", "yolov8", half=True),
        row("yolov8n", "nms=True", "end2end", nms=True),
        row("yolov8n", "nms=True, dynamic=True", "end2end", nms=True, dynamic=True),
        row("yolov8n", "nms=True, half=True", "end2end", nms=True, half=True),
        row("yolov8n", "imgsz 384 x 640", "yolov8", imgsz=(384, 640)),
        row("yolov8n", "batch=4", "yolov8", batch=4),
        row("yolov8n", "1 class", "yolov8", classes=1),
        row("yolov8n-p2", "default", "yolov8"),
        row("yolov8n-p6", "default", "yolov8"),
        row("yolov9t", "opset 17", "yolov8", opset=17),
        row("yolov10n", "default: one-to-many", "yolov8"),
        row("yolov10n", "nms=False: end-to-end", "end2end", nms=False),
        row("yolov10n", "nms=False, dynamic=True", "end2end", nms=False, dynamic=True),
        row("yolo11n", "default", "yolov8"),
        row("yolo11n", "dynamic=True, half=True", "yolov8", dynamic=True, half=True),
        row("yolo11n", "nms=True", "end2end", nms=True),
        row("yolo12n", "default", "yolov8"),
        row("yolo12n", "nms=True", "end2end", nms=True),
        row("yolo26n", "default: one-to-many", "yolov8"),
        row("yolo26n", "nms=True", "end2end", nms=True),
        row("yolo26n", "nms=False: end-to-end", "end2end", nms=False),
        row("yolo26n", "nms=False, half=True", "end2end", nms=False, half=True),
        row("yolo26n", "nms=False, dynamic=True", "end2end", nms=False, dynamic=True),
        row("rtdetr-resnet50", "default", "rtdetr"),
        row("rtdetr-l", "default", "rtdetr"),
        row("rtdetr-l", "dynamic=True", "rtdetr", dynamic=True),
    ]
    others = [row("yolov8n-cls", "classifier", None, imgsz=(224, 224))]
    for task, text in [("seg", "segmentation"), ("pose", "pose"), ("obb", "rotated boxes")]:
        head = {"seg": "yolo-segment"}.get(task, f"yolo-{task}")
        others += [
            row(f"yolov8n-{task}", text, head),
            row(f"yolov8n-{task}", f"{text}, nms=True", head, nms=True),
            row(f"yolo11n-{task}", f"{text}, dynamic=True", head, dynamic=True),
            row(f"yolo26n-{task}", text, head),
            row(f"yolo26n-{task}", f"{text}, nms=False: end-to-end", head, nms=False),
        ]
    return plain + others


def last(branch):
    """The last convolution of each level."""
    return [level[-1] for level in branch]


def extra_layers(head) -> list:
    """The last layers of key points, angles and coefficients of masks."""
    import torch

    found = []
    for name in ("cv4", "one2one_cv4", "cv4_kpts", "one2one_cv4_kpts"):
        for level in getattr(head, name, None) or []:
            layer = level[-1] if isinstance(level, torch.nn.Sequential) else level
            if isinstance(layer, torch.nn.Conv2d):
                found.append(layer)
    return found


def smooth(proto) -> None:
    """Gives all taps of a kernel the same weight, so that masks are areas and not noise."""
    import torch

    with torch.no_grad():
        for layer in (proto.cv1.conv, proto.upsample, proto.cv2.conv):
            layer.weight.copy_(layer.weight.mean((2, 3), keepdim=True).expand_as(layer.weight))


def prepare(net, shown, threshold: float) -> None:
    """Makes weights drawn at random find some objects."""
    import torch

    head = net.model[-1]
    batch = torch.stack([torch.from_numpy(p) for p in shown])

    def run():
        net(batch)

    net.eval()
    if hasattr(head, "proto"):
        smooth(head.proto)
    calibrate_norms(net, run)
    kind = type(head).__name__
    if kind == "Classify":
        return
    if kind == "RTDETRDecoder":
        score_some(head.enc_score_head, run, 0.05, 0.25)
        # Only the last layer of the decoder gives scores, except in training.
        for layer in (layer for layer in head.dec_score_head if runs(layer, run)):
            score_some(layer, run, 0.1, threshold)
        return
    # Both branches of an end-to-end model run.
    pairs = [(head.cv2, head.cv3, 0.004)]
    if getattr(head, "one2one_cv2", None) is not None:
        pairs.append((head.one2one_cv2, head.one2one_cv3, 0.002))
    for boxes, scores, part in pairs:
        for box, score in zip(last(boxes), last(scores)):
            if head.reg_max > 1:
                rescale(box, run, 0.0, 1.5)
            else:
                rescale(box, run, 4.0, 1.0)
            score_some(score, run, part, threshold, std=1.2)
    for layer in extra_layers(head):
        if runs(layer, run):
            rescale(layer, run, 0.0, 1.5)


def details(result, count: int) -> list:
    """Key points, corners or mask of each object."""
    if result.obb is not None:
        return [{"corners": corners} for corners in result.obb.xyxyxyxy.tolist()]
    if result.keypoints is not None and count:
        return [{"points": points} for points in result.keypoints.data.tolist()]
    if result.masks is not None:
        return [{"mask": column_runs(mask)} for mask in result.masks.data.cpu().numpy()]
    return [{}] * count


def export(assets: Path, folder: Path, name: str, head: str | None, imgsz=(320, 320), half=False, classes=None, **options) -> Export:
    import numpy as np
    import torch
    from ultralytics import RTDETR, YOLO

    torch.manual_seed(11)
    np.random.seed(11)
    height, width = imgsz
    shown = [np.asarray(p, np.float32).transpose(2, 0, 1) / 255 for p in pictures(assets, (width, height))[:8]]
    make = RTDETR if name.startswith("rtdetr") else YOLO
    threshold = 0.25
    config = f"{name}.yaml"
    if classes:
        from ultralytics.nn.tasks import DetectionModel

        model = make(config)
        model.model = DetectionModel(config, nc=classes, verbose=False)
        model.model.args = dict(model.overrides)
        model.model.names = {0: "helmet"}
    else:
        model = make(config)
    net = model.model
    with torch.no_grad():
        prepare(net, shown, threshold)
    net.names = {number: f"c{number}" if len(net.names) > 1 else "helmet" for number in net.names}
    # Another name: it renames files that are called as its own.
    weights = folder / "weights.pt"
    model.ckpt = model.ckpt or {}
    model.save(weights)
    model = make(weights)
    if options.get("nms"):
        options |= {"conf": threshold, "iou": IOU}
    size = height if height == width else [height, width]
    made = Path(model.export(format="onnx", imgsz=size, half=half, device="cpu", **options))
    file = folder / "model.onnx"
    shutil.move(made, file)
    if head is None:
        return Export(file, (width, height), None)
    by_file = half or "nms" in options
    task = {"seg": "segment", "pose": "pose", "obb": "obb"}.get(name.rpartition("-")[2], "detect")
    model = make(file, task=task) if by_file else make(weights)

    def answer(whole: list) -> list:
        found = []
        for picture in whole:
            # It takes arrays with blue first.
            array = np.ascontiguousarray(np.asarray(picture)[:, :, ::-1])
            result = model.predict(array, imgsz=size, conf=threshold, iou=IOU, rect=False, device="cpu", verbose=False)[0]
            boxes = result.boxes if result.obb is None else result.obb
            each = zip(boxes.cls.tolist(), boxes.conf.tolist(), boxes.xyxy.tolist(), details(result, len(boxes)))
            found.append([Found(result.names[int(c)], s, tuple(b), d) for c, s, b, d in each])
        return found

    # Objects that the file selects are not suppressed again.
    keys = {} if head in ("end2end", "rtdetr") or "nms" in options else {"nms_iou": IOU}
    # Its padding is on both sides, in whole strides here; Weir's is below.
    padded = (width, height * 7 // 10 // 64 * 64) if height == width else None
    resized = answer if padded and not by_file else None
    return Export(file, (width, height), head, answer, resized, padded, threshold, keys=keys)
