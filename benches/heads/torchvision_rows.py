"""Exports of torchvision by torch.onnx. Its models prepare their pictures and select their objects themselves, in the file too."""

from pathlib import Path

from common import Export, Found, Row, calibrate_norms, pictures, rescale, score_some

CLASSES = 8


def rows(assets: Path) -> list:
    def row(model: str, options: str, head: str | None = "ssd", **extra) -> Row:
        return Row("torchvision", model, options, lambda folder: export(assets, folder, model, head, **extra))

    return [
        row("ssd300_vgg16", "opset 17"),
        row("ssdlite320_mobilenet_v3_large", "opset 17"),
        row("ssdlite320_mobilenet_v3_large", "opset 17, a size of its own", size=(448, 320)),
        row("retinanet_resnet50_fpn", "opset 17"),
        row("fcos_resnet50_fpn", "opset 17"),
        row("fasterrcnn_mobilenet_v3_large_320_fpn", "opset 17"),
        row("fasterrcnn_resnet50_fpn", "opset 17"),
        row("ssdlite320_mobilenet_v3_large", "opset 17, outputs named in another order", None, names=["boxes", "labels", "scores"]),
        row("maskrcnn_resnet50_fpn", "opset 17, masks beside the boxes"),
        row("keypointrcnn_resnet50_fpn", "opset 17, key points beside the boxes"),
    ]


def layers(net):
    """Last layers of scores, with whether they are by softmax, and of boxes."""
    if hasattr(net, "rpn"):
        return [(net.roi_heads.box_predictor.cls_score, True)], [net.roi_heads.box_predictor.bbox_pred]
    head = net.head
    if hasattr(head, "regression_head") and hasattr(head.classification_head, "module_list"):
        def last(part):
            return [m if hasattr(m, "out_channels") else m[-1] for m in part.module_list]

        return [(m, True) for m in last(head.classification_head)], last(head.regression_head)
    return [(head.classification_head.cls_logits, False)], [head.regression_head.bbox_reg]


def export(assets: Path, folder: Path, kind: str, head: str | None, size=(320, 320), names=None) -> Export:
    import numpy as np
    import torch
    import torchvision

    torch.manual_seed(3)
    more = {} if kind.startswith(("ssd", "fasterrcnn_mobilenet")) else {"min_size": 320, "max_size": 448}
    net = getattr(torchvision.models.detection, kind)(weights=None, weights_backbone=None, num_classes=CLASSES if "keypoint" not in kind else 2,
                                                     **more)
    net.eval()
    shown = [torch.from_numpy(np.asarray(p, np.float32).transpose(2, 0, 1) / 255) for p in pictures(assets, size)[:6]]

    def run():
        net(shown)

    calibrate_norms(net, run)
    scores, boxes = layers(net)
    threshold = 0.5
    for layer in boxes:
        channels = getattr(layer, "out_channels", None) or layer.out_features
        rescale(layer, run, 0.0 if "fcos" not in kind else 1.0, 0.5, ) if channels else None
    for layer, softmax in scores:
        some(layer, run, softmax, kind)
    file = folder / "model.onnx"
    one = shown[0]
    with torch.no_grad():
        order = list(net([one])[0].keys())
        outputs = names or order
        torch.onnx.export(net, ([one],), str(file), input_names=["images"], output_names=outputs, opset_version=17, dynamo=False)
    if head is None:
        return Export(file, size, None, note=f"the framework's order is {', '.join(order)}")

    def answer(whole: list) -> list:
        found = []
        for picture in whole:
            with torch.no_grad():
                out = net([torch.from_numpy(np.asarray(picture, np.float32).transpose(2, 0, 1) / 255)])[0]
            each = zip(out["labels"].tolist(), out["scores"].tolist(), out["boxes"].tolist())
            found.append([Found(f"c{c}", s, tuple(b)) for c, s, b in each if s >= threshold])
        return found

    # Class 0 is the background.
    count = net.roi_heads.box_predictor.cls_score.out_features if hasattr(net, "rpn") else CLASSES
    labels = [f"c{number}" for number in range(1, count)]
    return Export(file, size, head, answer, threshold=threshold, keys={"labels": labels})


def some(layer, run, softmax: bool, kind: str) -> None:
    """Some places with an object: the layer has all classes, of each anchor where there are anchors."""
    from common import outputs_of, rescale, shift

    channels = getattr(layer, "out_channels", None) or layer.out_features
    rescale(layer, run, 0.0, 2.0)
    anchors = 1 if hasattr(layer, "out_features") else channels // CLASSES
    count = channels // anchors
    import numpy as np

    rows = outputs_of(layer, run).reshape(-1, count)
    low, high = -40.0, 40.0
    # RetinaNet has nine anchors a cell; scores of FCOS are the product with another probability.
    part = 0.1 if hasattr(layer, "out_features") else {"retinanet": 0.003, "fcos": 0.05}.get(kind.partition("_")[0], 0.01)
    for _ in range(50):
        middle = (low + high) / 2
        if softmax:
            moved = rows.copy()
            moved[:, 0] += middle
            share = np.exp(moved - moved.max(1, keepdims=True))
            share = (share / share.sum(1, keepdims=True))[:, 1:].max(1)
        else:
            # RetinaNet and FCOS have a column of the background, too, which is never taught: it must not win here.
            share = (1 / (1 + np.exp(-(rows[:, 1:] - middle)))).max(1)
        if (share >= 0.5).mean() > part:
            low = middle
        else:
            high = middle
    if softmax:
        shift(layer, high, slice(0, None, count))
    else:
        shift(layer, -high)
        shift(layer, -60.0, slice(0, None, count))
