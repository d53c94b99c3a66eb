"""Every entry of torchvision.models.list_models()."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
import torchvision
from torch import nn

from zoo.entry import Entry

_IMAGE_SIZES = {"inception_v3": 299, "googlenet": 224}
# The thresholds by prefix of the model's name. With random weights, no score passes the usual thresholds, and the code
# after them would not be tested.
_THRESHOLDS: dict[str, dict[str, Any]] = {
    "fasterrcnn_mobilenet": {"box_score_thresh": 0.012, "box_detections_per_img": 20},
    "fasterrcnn": {"box_score_thresh": 0.012},
    "maskrcnn": {"box_score_thresh": 0.012},
    "keypointrcnn": {"box_score_thresh": 0.001},
    "retinanet": {"score_thresh": 0.01},
    "fcos": {"score_thresh": 0.01},
    "ssdlite": {"score_thresh": 0.011, "detections_per_img": 20},
    "ssd": {"score_thresh": 0.012},
}


def entries() -> Iterator[Entry]:
    for name in torchvision.models.list_models():
        module = torchvision.models.get_model_builder(name).__module__
        options = next((value for prefix, value in _THRESHOLDS.items() if name.startswith(prefix)), {})
        build = functools.partial(_build, name, options if "detection" in module else {})
        if "detection" in module:
            yield Entry(
                f"torchvision/{name}",
                lambda build=build: _Detector(build()),
                _detection_input,
                batched=False,
                detections=True,
            )
        elif "video" in module:
            size = 112 if "mvit" not in name and "swin" not in name and "s3d" not in name else 224
            yield Entry(f"torchvision/{name}", build, functools.partial(_batch, (3, 16, size, size), "x"))
        elif "optical_flow" in module:
            yield Entry(f"torchvision/{name}", build, _flow_inputs, batched=False)
        else:
            size = _IMAGE_SIZES.get(name, 224)
            argument = "input" if "lraspp" in name else "x"
            yield Entry(f"torchvision/{name}", build, functools.partial(_batch, (3, size, size), argument))


def _build(name: str, options: dict[str, Any]) -> nn.Module:
    if "quantized" in name:
        options = {"quantize": False}
    elif torchvision.models.get_model_builder(name).__module__.split(".")[2] in ("detection", "segmentation"):
        options = {**options, "weights_backbone": None}
    model = torchvision.models.get_model(name, weights=None, **options)
    # Heads that are initialized to zero would hide everything before them.
    for parameter in model.parameters():
        if parameter.dim() > 1 and not parameter.any():
            nn.init.normal_(parameter, std=0.02)
    if "detection" in torchvision.models.get_model_builder(name).__module__ and "mobilenet" in name:
        _normalize(model)
    if name.startswith("fasterrcnn_mobilenet"):
        model.roi_heads.box_predictor.cls_score.weight.data *= 5  # otherwise all scores would be nearly equal
    if name == "ssd300_vgg16":
        # Without a normalization, random weights lead to logits so large that the best scores are all equal.
        for parameter in model.head.classification_head.parameters():
            parameter.data *= 0.1
    return model


def _normalize(detector: nn.Module) -> None:
    """Sets the statistics of the backbone's normalizations to those of its input images. Otherwise features vanish, or
    grow together with their rounding errors, and the model detects nothing, or something else in every run."""
    for module in detector.backbone.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    images, _ = detector.transform([_detection_input(variant)["image"] for variant in (0, 1)])
    with torch.no_grad():
        detector.backbone.train()(images.tensors)
    detector.backbone.eval()


class _Detector(nn.Module):
    """A detection model that takes one image instead of a list."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor) -> Any:
        return self.model([image])


def _batch(shape: tuple[int, ...], name: str, variant: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(variant)
    return {name: torch.rand(1 + variant, *shape)}


def _detection_input(variant: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(variant)
    return {"image": torch.rand(3, 240, 320) * (1 + variant)}


def _flow_inputs(variant: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(variant)
    return {"image1": torch.rand(1, 3, 128, 160), "image2": torch.rand(1, 3, 128, 160)}
