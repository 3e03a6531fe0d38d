"""Exports of Hugging Face's transformers by torch.onnx. Objects are those of the image processor's own post-processing."""

from pathlib import Path

from common import Export, Found, Row, calibrate_norms, pictures, rescale, runs, score_some, spread

SIDE = 320
# A multiple of the four windows of 14 pixels of RF-DETR.
WINDOWED_SIDE = 336
CLASSES = 7


def rows(assets: Path) -> list:
    def row(model: str, options: str, kind: str, **extra) -> Row:
        return Row("transformers", model, options, lambda folder: export(assets, folder, kind, **extra))

    return [
        row("DETR", "opset 17", "detr"),
        row("DETR", "opset 18, dynamo", "detr", dynamo=True),
        row("DETR", "input pixel_mask", "detr", mask=True),
        row("DETR", "dynamic sizes", "detr", dynamic=True),
        row("DETR", "91 columns of COCO", "detr", classes=91),
        row("DETR", "half precision", "detr", half=True),
        row("Conditional DETR", "opset 17", "conditional"),
        row("Deformable DETR", "opset 17", "deformable"),
        row("Deformable DETR", "opset 18, dynamo", "deformable", dynamo=True),
        row("Deformable DETR", "two-stage, box refinement, dynamo", "deformable", two_stage=True, dynamo=True),
        row("DAB-DETR", "opset 17", "dab"),
        row("RT-DETR", "opset 17", "rtdetr"),
        row("RT-DETR", "opset 18, dynamo", "rtdetr", dynamo=True),
        row("RT-DETR", "half precision", "rtdetr", half=True),
        row("RT-DETR", "one class", "rtdetr", classes=1),
        row("RT-DETRv2", "opset 17", "rtdetrv2"),
        row("D-FINE", "opset 17", "dfine"),
        row("YOLOS", "opset 17", "yolos"),
        row("LW-DETR", "opset 17", "lwdetr"),
        row("RF-DETR", "opset 18, dynamo", "rfdetr", dynamo=True),
        row("RT-DETR", "with the repository's post-processing (emulated)", "rtdetr", post=True),
    ]


def resnet(stages):
    from transformers import ResNetConfig

    return ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], layer_type="basic", out_features=stages)


def small(kind: str, classes: int, two_stage: bool):
    """A small model of the kind, its image processor, its last layers (scores, boxes), and whether scores are by softmax."""
    import transformers as t

    names = {number: f"c{number}" for number in range(classes)}
    labels = {"id2label": names, "label2id": {name: number for number, name in names.items()}}
    sizes = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    sizes |= {"encoder_ffn_dim": 128, "decoder_ffn_dim": 128}
    own = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, **labels}
    last = ["stage4"]
    if kind == "detr":
        config = t.DetrConfig(**sizes, **own, num_queries=60, backbone_config=resnet(last))
        net = t.DetrForObjectDetection(config)
        return net, t.DetrImageProcessor, [net.class_labels_classifier], [net.bbox_predictor.layers[-1]], True
    if kind == "conditional":
        config = t.ConditionalDetrConfig(**sizes, **own, num_queries=60, backbone_config=resnet(last))
        net = t.ConditionalDetrForObjectDetection(config)
        return net, t.ConditionalDetrImageProcessor, [net.class_labels_classifier], [net.bbox_predictor.layers[-1]], False
    if kind == "dab":
        config = t.DabDetrConfig(hidden_size=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                                 encoder_ffn_dim=128, decoder_ffn_dim=128, **own, num_queries=60, backbone_config=resnet(last))
        net = t.DabDetrForObjectDetection(config)
        return net, t.ConditionalDetrImageProcessor, [net.class_embed], [], False
    if kind == "deformable":
        more = {"two_stage": True, "with_box_refine": True, "two_stage_num_proposals": 60} if two_stage else {}
        config = t.DeformableDetrConfig(**sizes, **own, num_queries=60, backbone_config=resnet(["stage2", "stage3", "stage4"]), **more)
        net = t.DeformableDetrForObjectDetection(config)
        boxes = [] if two_stage else list({id(m.layers[-1]): m.layers[-1] for m in net.bbox_embed}.values())
        scores = list({id(m): m for m in net.class_embed}.values())
        return net, t.DeformableDetrImageProcessor, scores, boxes, False
    if kind in ("rtdetr", "rtdetrv2"):
        backbone = t.RTDetrResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], layer_type="basic",
                                        out_features=["stage2", "stage3", "stage4"])
        more = {"backbone_config": backbone, "encoder_hidden_dim": 64, "d_model": 64, "encoder_in_channels": [32, 48, 64], "num_queries": 60,
                "decoder_in_channels": [64, 64, 64], "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "decoder_layers": 2, "num_denoising": 0}
        config = (t.RTDetrConfig if kind == "rtdetr" else t.RTDetrV2Config)(**more, **own)
        net = (t.RTDetrForObjectDetection if kind == "rtdetr" else t.RTDetrV2ForObjectDetection)(config)
        decoder = net.model.decoder
        return net, t.RTDetrImageProcessor, [net.model.enc_score_head, *decoder.class_embed], [], False
    if kind == "dfine":
        backbone = t.HGNetV2Config(stem_channels=[3, 8, 8], stage_in_channels=[8, 16, 32, 48], stage_mid_channels=[8, 8, 16, 16],
                                   stage_out_channels=[16, 32, 48, 64], stage_num_blocks=[1, 1, 1, 1], stage_numb_of_layers=[2, 2, 2, 2],
                                   hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], embedding_size=8,
                                   out_features=["stage2", "stage3", "stage4"])
        more = {"backbone_config": backbone, "encoder_hidden_dim": 64, "d_model": 64, "encoder_in_channels": [32, 48, 64], "num_queries": 60,
                "decoder_in_channels": [64, 64, 64], "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "decoder_layers": 2, "num_denoising": 0}
        net = t.DFineForObjectDetection(t.DFineConfig(**more, **own))
        return net, t.RTDetrImageProcessor, [net.model.enc_score_head, *net.model.decoder.class_embed], [], False
    if kind == "yolos":
        config = t.YolosConfig(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=128, image_size=[SIDE, SIDE],
                               patch_size=16, num_detection_tokens=60, use_mid_position_embeddings=False, initializer_range=0.2, **labels)
        net = t.YolosForObjectDetection(config)
        return net, t.YolosImageProcessor, [net.class_labels_classifier.layers[-1]], [net.bbox_predictor.layers[-1]], True
    if kind == "lwdetr":
        backbone = t.LwDetrViTConfig(hidden_size=64, num_hidden_layers=4, num_attention_heads=4, image_size=SIDE, out_indices=[2, 4],
                                     window_block_indices=[0, 2])
        more = {"backbone_config": backbone, "projector_scale_factors": [1.0], "d_model": 64, "decoder_ffn_dim": 128}
        net = t.LwDetrForObjectDetection(t.LwDetrConfig(**labels, **more, num_queries=60))
        return net, t.DeformableDetrImageProcessor, [net.class_embed], [net.bbox_embed.layers[-1]], False
    if kind == "rfdetr":
        backbone = t.RfDetrDinov2Config(hidden_size=96, num_hidden_layers=4, num_attention_heads=4, image_size=WINDOWED_SIDE,
                                        num_windows=4, window_block_indexes=[0, 2], out_indices=[2, 4])
        more = {"backbone_config": backbone, "d_model": 64, "decoder_ffn_dim": 128}
        net = t.RfDetrForObjectDetection(t.RfDetrConfig(**labels, **more, num_queries=60))
        return net, t.RfDetrImageProcessor, [net.class_embed], [net.bbox_embed.layers[-1]], False
    raise ValueError(kind)


def export(assets: Path, folder: Path, kind: str, classes=CLASSES, mask=False, dynamo=False, dynamic=False, half=False, post=False,
           two_stage=False) -> Export:
    import numpy as np
    import onnxruntime
    import torch

    torch.manual_seed(5)
    net, processor_kind, scores, boxes, softmax = small(kind, classes, two_stage)
    spread(net)
    net.eval()
    # Shifts of centres in sizes of boxes, and logarithms of sizes: nothing keeps the boxes of these within the picture.
    is_free = kind in ("lwdetr", "rfdetr")
    if is_free:
        boxes = [net.model.enc_out_bbox_embed[0].layers[-1], *boxes]
        with torch.no_grad():
            net.model.reference_point_embed.weight.mul_(0.3)
    side = WINDOWED_SIDE if kind == "rfdetr" else SIDE
    processor = processor_kind(size={"height": side, "width": side})
    shown = pictures(assets, (side, side))[:8]
    batch = processor(images=shown, return_tensors="pt")["pixel_values"]
    threshold = 0.5

    def run():
        net(pixel_values=batch)

    calibrate_norms(net, run)
    for layer in boxes:
        sides = layer.out_features
        mean, std = ([0, 0, 0.5, 0.5], [0.3] * 4) if is_free else ([0, 0, -1.5, -1.5], [1.2, 1.2, 0.6, 0.6])
        rescale(layer, run, mean[:sides], std[:sides])
    for layer in (layer for layer in scores if runs(layer, run)):
        score_some(layer, run, 0.1, threshold, softmax, std=3.0)

    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, pixel_values, extra=None):
            if mask:
                out = self.net(pixel_values=pixel_values, pixel_mask=extra)
            else:
                out = self.net(pixel_values=pixel_values)
            if not post:
                return out.logits, out.pred_boxes
            # After the repository of RT-DETR: the best queries and classes, corners in pixels of the size that was given.
            best, index = torch.topk(torch.sigmoid(out.logits).flatten(1), 60)
            x, y, w, h = out.pred_boxes.unbind(-1)
            corners = torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], -1) * extra.repeat(1, 2).unsqueeze(1)
            query = torch.div(index, classes, rounding_mode="floor")
            corners = corners.gather(1, query.unsqueeze(-1).repeat(1, 1, 4))
            return index - query * classes, corners, best

    wrapped = Wrapped().eval()
    one = batch[:1]
    extra = ()
    inputs, outputs = ["pixel_values"], ["logits", "pred_boxes"]
    if mask:
        # The mask must be looked at in the file: a part of it is 0 while tracing.
        extra = (torch.ones(1, SIDE, SIDE, dtype=torch.int64),)
        inputs = ["pixel_values", "pixel_mask"]
    if post:
        extra, inputs = (torch.tensor([[SIDE, SIDE]]),), ["images", "orig_target_sizes"]
        outputs = ["labels", "boxes", "scores"]
    file = folder / "model.onnx"
    more = {"dynamo": True, "opset_version": 18} if dynamo else {"dynamo": False, "opset_version": 17}
    if dynamic:
        free = {0: "batch", 2: "height", 3: "width"}
        more["dynamic_axes"] = {"pixel_values": free, "logits": {0: "batch"}, "pred_boxes": {0: "batch"}}
    with torch.no_grad():
        torch.onnx.export(wrapped, (one, *extra), str(file), input_names=inputs, output_names=outputs, **more)
    if half:
        import onnx
        from onnxruntime.transformers.float16 import convert_float_to_float16

        onnx.save(convert_float_to_float16(onnx.load(str(file)), keep_io_types=False, disable_shape_infer=True), str(file))
    net.config.save_pretrained(folder)
    processor.save_pretrained(folder)
    session = onnxruntime.InferenceSession(str(file)) if half else None
    names = net.config.id2label

    def answer(whole: list) -> list:
        found = []
        for picture in whole:
            fed = processor(images=[picture], return_tensors="pt")["pixel_values"]
            with torch.no_grad():
                if session:
                    logits, relative = session.run(["logits", "pred_boxes"], {"pixel_values": fed.numpy().astype(np.float16)})
                    from types import SimpleNamespace

                    out = SimpleNamespace(logits=torch.tensor(logits).float(), pred_boxes=torch.tensor(relative).float())
                else:
                    out = net(pixel_values=fed)
            sized = [(picture.size[1], picture.size[0])]
            result = processor.post_process_object_detection(out, threshold=threshold, target_sizes=sized)[0]
            each = zip(result["labels"].tolist(), result["scores"].tolist(), result["boxes"].tolist())
            found.append([Found(names[c], s, tuple(b)) for c, s, b in each])
        return found

    head = "rtdetr" if post else "detr"
    keys = {"labels": [names[number] for number in range(classes)]} if post else {}
    # As many as queries, or a hundred.
    most = 60 if kind.startswith(("rtdetr", "dfine")) else 100
    return Export(file, (side, side), head, answer, answer, None, threshold, most, keys)
