"""Small networks with the inputs and outputs that other frameworks document, where these cannot be installed beside the others.

The objects are computed here, by each framework's description of its outputs.
"""

from pathlib import Path

import numpy as np

from common import Export, Found, Row, calibrate_norms, open_session, pictures, planes, score_some, rescale, suppress

CLASSES = 6
NAMES = [f"c{number}" for number in range(CLASSES)]
IMAGENET = ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375])


def rows(assets: Path) -> list:
    def row(framework: str, model: str, options: str, kind: str, **extra) -> Row:
        return Row(f"{framework} (emulated)", model, options, lambda folder: export(assets, folder, kind, **extra))

    return [
        row("YOLOv5", "yolov5n", "[25200, 5 + classes]", "yolov5"),
        row("YOLOv5", "yolov5n", "one class", "yolov5", classes=1),
        row("YOLOv5", "yolov5n", "half precision", "yolov5", half=True),
        row("YOLOv6", "yolov6n", "[8400, 5 + classes], objectness 1", "yolov6"),
        row("YOLOX", "yolox_nano", "raw cells", "yolox"),
        row("YOLOX", "yolox_nano", "decode_in_inference", "yolox-decoded"),
        row("TensorFlow", "SSD MobileNet", "bytes, detection_*", "tensorflow"),
        row("TensorFlow", "SSD MobileNet", "tf2onnx names with :0", "tensorflow", suffix=":0"),
        row("PaddleDetection", "PP-YOLOE", "image, scale_factor; [n, 6], count", "paddle"),
        row("PaddleDetection", "RT-DETR", "im_shape, image, scale_factor", "paddle", shape=True),
        row("RT-DETR, D-FINE, DEIM", "their repositories", "images, orig_target_sizes", "deploy"),
        row("RF-DETR", "rf-detr", "dets, labels", "rfdetr"),
        row("YOLOv7", "yolov7", "--end2end: [n, 7]", "yolov7"),
        row("YOLO-NAS", "yolo_nas_s", "pred_boxes [n, 4], pred_scores [n, classes]", "nas"),
        row("ONNX model zoo", "ssd-12", "bboxes, labels, scores", "ssd12"),
        row("OpenVINO", "SSD", "detection_out [1, 1, n, 7]", "openvino"),
        row("EfficientDet", "raw", "regression, classification", "efficientdet"),
        row("TensorFlow", "EfficientDet", "raw_detection_boxes alone", "raw"),
    ]


def network(columns: int, side: int, norms: tuple, channels: int = 3):
    """Cells of strides 8, 16 and 32 with so many values: [batch, cells, columns]."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            def block(a, b):
                return nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.SiLU())

            self.stem = nn.Sequential(block(channels, 16), block(16, 24), block(24, 32))
            self.down = nn.ModuleList([block(32, 48), block(48, 64)])
            self.heads = nn.ModuleList([nn.Conv2d(c, columns, 1) for c in (32, 48, 64)])

        def forward(self, x):
            levels = [self.stem(x)]
            for down in self.down:
                levels.append(down(levels[-1]))
            flat = [head(level).flatten(2).transpose(1, 2) for head, level in zip(self.heads, levels)]
            return torch.cat(flat, 1)

    return Net().eval()


def grid(side: int):
    """Column, row and stride of each cell."""
    cells = []
    for stride in (8, 16, 32):
        n = side // stride
        y, x = np.mgrid[:n, :n]
        cells.append(np.stack([x.ravel(), y.ravel(), np.full(n * n, stride)], 1))
    return np.concatenate(cells).astype(np.float32)


def clip(box, picture) -> tuple:
    w, h = picture.size
    return (min(max(box[0], 0), w), min(max(box[1], 0), h), min(max(box[2], 0), w), min(max(box[3], 0), h))


def run_file(file: Path, feed: dict) -> dict:
    session = open_session(file)
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feed)))


def export(assets: Path, folder: Path, kind: str, classes=CLASSES, half=False, suffix="", shape=False) -> Export:
    import torch

    torch.manual_seed(2)
    side = 640 if kind in ("yolov5", "yolov6", "yolov7") else 320
    names = NAMES[:classes]
    shown = pictures(assets, (side, side))[:8]
    norms = {"yolox": (0, 1), "yolox-decoded": (0, 1), "paddle": IMAGENET, "rfdetr": IMAGENET}.get(kind, (0, 255))
    anchors = 3 if kind == "yolov5" else 1
    columns = anchors * (5 + classes)
    net = network(columns, side, norms)
    blue_first = kind.startswith("yolox")
    batch = torch.from_numpy(np.stack([planes(np.asarray(p)[:, :, ::-1] if blue_first else p, *norms) for p in shown]))

    def run():
        net(batch)

    calibrate_norms(net, run)
    for head in net.heads:
        mean = np.tile([0, 0, 0, 0, -14.0 if kind == "yolov5" else -9.0] + [0.0] * classes, anchors)
        std = np.tile([0.6, 0.6, 0.6, 0.6, 4.0] + [2.0] * classes, anchors)
        rescale(head, run, mean, std)
    cells = torch.from_numpy(grid(side))
    best = 100

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def boxes(self, raw):
            """Centres and sizes in pixels."""
            xy = (raw[..., 0:2] + cells[:, :2]) * cells[:, 2:3]
            wh = torch.exp(raw[..., 2:4]) * 4 * cells[:, 2:3]
            return xy, wh

        def corners(self, raw):
            xy, wh = self.boxes(raw)
            return torch.cat([xy - wh / 2, xy + wh / 2], -1)

        def scores(self, raw):
            return torch.sigmoid(raw[..., 4:5]) * torch.sigmoid(raw[..., 5:])

        def top(self, raw):
            """The best places: score, class, corners."""
            score, index = self.scores(raw).max(-1)
            score, at = score.topk(best, 1)
            index = index.gather(1, at)
            corners = self.corners(raw).gather(1, at.unsqueeze(-1).expand(-1, -1, 4))
            return score, index, corners

        def forward(self, image, *extra):
            if kind == "tensorflow":
                image = image.permute(0, 3, 1, 2).float() / 255
            raw = self.net(image)
            if kind == "yolov5":
                n = raw.shape[1]
                raw = raw.reshape(1, n, 3, 5 + classes)
                xy = (torch.sigmoid(raw[..., 0:2]) * 2 - 0.5 + cells[:, None, :2]) * cells[:, None, 2:3]
                wh = (torch.sigmoid(raw[..., 2:4]) * 2) ** 2 * cells[:, None, 2:3] * torch.tensor([2.0, 4.0, 6.0]).reshape(1, 1, 3, 1)
                rows = torch.cat([xy, wh, torch.sigmoid(raw[..., 4:])], -1)
                return rows.permute(0, 2, 1, 3).reshape(1, n * 3, 5 + classes)
            if kind == "yolov6":
                xy, wh = self.boxes(raw)
                return torch.cat([xy, wh, torch.ones_like(raw[..., 4:5]), self.scores(raw)], -1)
            if kind == "yolox":
                return torch.cat([raw[..., :4], torch.sigmoid(raw[..., 4:])], -1)
            if kind == "yolox-decoded":
                xy = (raw[..., 0:2] + cells[:, :2]) * cells[:, 2:3]
                return torch.cat([xy, torch.exp(raw[..., 2:4]) * cells[:, 2:3], torch.sigmoid(raw[..., 4:])], -1)
            score, index, corners = self.top(raw)
            if kind == "tensorflow":
                relative = corners[..., [1, 0, 3, 2]] / side
                return relative, index.float() + 1, score, (score > 0).sum(1).float()
            if kind == "paddle":
                factor = extra[-1]
                # Boxes of the picture before it was resized; the factor is of height, then of width.
                corners = corners / torch.cat([factor[:, [1, 0]], factor[:, [1, 0]]], 1).unsqueeze(1)
                if shape:
                    corners = corners * (extra[0][:, :1] / side).unsqueeze(1)
                return torch.cat([index.unsqueeze(-1).float(), score.unsqueeze(-1), corners], -1)[0], torch.tensor([best], dtype=torch.int32)
            if kind == "deploy":
                size = extra[0]
                return index, corners / side * torch.cat([size, size], 1).unsqueeze(1), score
            if kind == "rfdetr":
                at = self.scores(raw).max(-1)[0].topk(best, 1)[1]
                xy, wh = self.boxes(raw)
                def pick(values):
                    return values.gather(1, at.unsqueeze(-1).expand(-1, -1, values.shape[-1]))

                return pick(torch.cat([xy, wh], -1)) / side, pick(raw[..., 5:] + raw[..., 4:5])
            if kind == "yolov7":
                return torch.cat([torch.zeros(best, 1), corners[0], index[0].unsqueeze(-1).float(), score[0].unsqueeze(-1)], -1)
            if kind == "nas":
                return self.corners(raw), self.scores(raw)
            if kind == "ssd12":
                return corners / side, index + 1, score
            if kind == "openvino":
                return torch.cat([torch.zeros(1, best, 1), index.unsqueeze(-1).float(), score.unsqueeze(-1), corners / side], -1).unsqueeze(1)
            if kind == "efficientdet":
                return raw[..., :4], raw[..., 5:]
            if kind == "raw":
                return corners[..., [1, 0, 3, 2]] / side, self.scores(raw)
            raise ValueError(kind)

    inputs = {
        "tensorflow": [f"input_tensor{suffix}"],
        "paddle": ["im_shape", "image", "scale_factor"] if shape else ["image", "scale_factor"],
        "deploy": ["images", "orig_target_sizes"],
        "rfdetr": ["input"],
    }.get(kind, ["images"])
    outputs = {
        "tensorflow": [f"{name}{suffix}" for name in ("detection_boxes", "detection_classes", "detection_scores", "num_detections")],
        "paddle": ["multiclass_nms3_0.tmp_0", "multiclass_nms3_0.tmp_2"],
        "deploy": ["labels", "boxes", "scores"],
        "rfdetr": ["dets", "labels"],
        "nas": ["pred_boxes", "pred_scores"],
        "ssd12": ["bboxes", "labels", "scores"],
        "openvino": ["detection_out"],
        "efficientdet": ["regression", "classification"],
        "raw": ["raw_detection_boxes", "raw_detection_scores"],
    }.get(kind, ["output"])
    whole = Whole().eval()
    file = folder / "model.onnx"
    image = batch[:1] if kind != "tensorflow" else torch.zeros(1, side, side, 3, dtype=torch.uint8)
    extra = {"paddle": (torch.ones(1, 2),), "deploy": (torch.tensor([[side, side]]),)}.get(kind, ())
    fed = (image, *extra)
    if shape:
        size = torch.tensor([[float(side), float(side)]])
        ordered = Reordered(whole)
        with torch.no_grad():
            torch.onnx.export(ordered, (size, image, extra[0]), str(file), input_names=inputs, output_names=outputs, opset_version=17, dynamo=False)
    else:
        with torch.no_grad():
            torch.onnx.export(whole, fed, str(file), input_names=inputs, output_names=outputs, opset_version=17, dynamo=False)
    if half:
        import onnx
        from onnxruntime.transformers.float16 import convert_float_to_float16

        onnx.save(convert_float_to_float16(onnx.load(str(file)), keep_io_types=False), str(file))
    size = (side, side)
    heads = {"yolov5": "yolov5", "yolov6": "yolov5", "yolox": "yolox", "yolox-decoded": "yolov5", "tensorflow": "ssd", "paddle": "paddle",
             "deploy": "rtdetr", "rfdetr": "detr"}
    if kind not in heads:
        return Export(file, size, None)
    threshold = {"yolov5": 0.25, "yolov6": 0.25, "yolox": 0.3, "yolox-decoded": 0.25}.get(kind, 0.5)
    keys = {"labels": names}
    if kind == "paddle":
        (folder / "infer_cfg.yml").write_text(INFER_CFG.format(names="\n".join(f"- {name}" for name in names)))
        keys = {}
    if kind in ("yolov6", "yolox-decoded"):
        # Their values would fit YOLOX's: the head is named.
        keys |= {"head": "yolov5"}
    if kind == "yolox-decoded":
        keys |= {"channels": "bgr", "mean": "0", "std": "1"}

    def answer(whole: list) -> list:
        return [objects(kind, file, picture, side, names, norms, threshold, half, shape, inputs) for picture in whole]

    stretches = kind not in ("yolov5", "yolov6", "yolox", "yolox-decoded")
    return Export(file, size, heads[kind], answer, answer if stretches else None, None, threshold, keys=keys)


def Reordered(whole):
    import torch

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.whole = whole

        def forward(self, size, image, factor):
            return self.whole(image, size, factor)

    return Module().eval()


INFER_CFG = """mode: paddle
arch: YOLO
Preprocess:
- interp: 2
  keep_ratio: false
  target_size:
  - 320
  - 320
  type: Resize
- is_scale: true
  mean:
  - 0.485
  - 0.456
  - 0.406
  norm_type: mean_std
  std:
  - 0.229
  - 0.224
  - 0.225
  type: NormalizeImage
- type: Permute
label_list:
{names}
"""


def objects(kind, file, picture, side, names, norms, threshold, half, shape, inputs) -> list:
    """The objects of one picture by the description of the outputs."""
    width, height = picture.size
    shown = picture.resize((side, side), 2) if picture.size != (side, side) else picture
    values = planes(np.asarray(shown)[:, :, ::-1] if kind.startswith("yolox") else shown, *norms)[None]
    if half:
        values = values.astype(np.float16)
    feed = {inputs[0]: values}
    if kind == "tensorflow":
        feed = {inputs[0]: np.asarray(shown)[None]}
    if kind == "paddle":
        factor = np.array([[side / height, side / width]], np.float32)
        feed = {"image": values, "scale_factor": factor}
        if shape:
            feed["im_shape"] = np.array([[side, side]], np.float32)
    if kind == "deploy":
        feed["orig_target_sizes"] = np.array([[width, height]], np.int64)
    out = run_file(file, feed)
    found = []
    if kind in ("yolov5", "yolov6", "yolox", "yolox-decoded"):
        rows = out["output"][0].astype(np.float32)
        if kind == "yolox":
            cells = grid(side)
            rows[:, :2] = (rows[:, :2] + cells[:, :2]) * cells[:, 2:3]
            rows[:, 2:4] = np.exp(rows[:, 2:4]) * cells[:, 2:3]
        for row in rows:
            scores = row[4] * row[5:]
            c = int(scores.argmax())
            if scores[c] >= threshold:
                x, y, w, h = row[:4]
                found.append(Found(names[c], float(scores[c]), (x - w / 2, y - h / 2, x + w / 2, y + h / 2)))
        found = suppress(found, 0.45)
    elif kind == "tensorflow":
        by = {name.split(":")[0]: value[0] for name, value in out.items()}
        for box, c, s in zip(by["detection_boxes"], by["detection_classes"], by["detection_scores"]):
            top, left, bottom, right = box
            if s >= threshold:
                found.append(Found(names[int(c) - 1], float(s), (left * width, top * height, right * width, bottom * height)))
    elif kind == "paddle":
        for row in list(out.values())[0]:
            if row[1] >= threshold:
                found.append(Found(names[int(row[0])], float(row[1]), tuple(row[2:])))
    elif kind == "deploy":
        for c, box, s in zip(out["labels"][0], out["boxes"][0], out["scores"][0]):
            if s >= threshold:
                found.append(Found(names[int(c)], float(s), tuple(box)))
    elif kind == "rfdetr":
        for box, logits in zip(out["dets"][0], out["labels"][0]):
            x, y, w, h = box * [width, height, width, height]
            for c, s in enumerate(1 / (1 + np.exp(-logits))):
                if s >= threshold:
                    found.append(Found(names[c], float(s), (x - w / 2, y - h / 2, x + w / 2, y + h / 2)))
    found = [Found(f.name, f.score, clip([float(v) for v in f.box], picture)) for f in found]
    return [f for f in found if f.box[2] > f.box[0] and f.box[3] > f.box[1]]
