"""Pictures as arrays."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy
import pytest
from conftest import ROOT, emulated

import weir


def address(array: "numpy.typing.NDArray[numpy.uint8]") -> int:
    return int(array.__array_interface__["data"][0])


def test_planes_are_not_copied_and_outlive_the_engine() -> None:
    graph = emulated(uri=str(ROOT / "videos/street-day.mp4"))
    with weir.Engine(graph, frames=True, duration=2, capacity=4) as engine:
        image = next(engine.deliveries()).image
    del engine
    gc.collect()
    assert image is not None
    assert image.format in ("yuv420", "nv12")
    luma, *chroma = image.planes()
    assert luma.shape == (image.height, image.width)
    assert address(luma) == address(image.planes()[0]) and not luma.flags.writeable
    assert chroma[0].shape[:2] == ((image.height + 1) // 2, (image.width + 1) // 2)
    assert luma.std() > 10, "a street is no blank picture"
    rgb = image.rgb()
    assert rgb.shape == (image.height, image.width, 3) and rgb.flags.writeable
    grey = rgb.astype(float) @ [0.299, 0.587, 0.114]
    assert numpy.corrcoef(grey.ravel(), luma.ravel())[0, 1] > 0.99
    rgb[:] = 0
    assert luma.std() > 10, "what is drawn changes no frame"
    mean = luma.mean()
    del image, chroma, rgb
    gc.collect()
    assert luma.mean() == mean, "an array keeps its samples"


def test_frames_are_absent_unless_asked_for() -> None:
    with weir.Engine(emulated()) as engine:
        assert next(engine.deliveries()).image is None


def test_image_of_folder_has_its_file_name(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image").new("RGB", (32, 16), (200, 10, 20)).save(tmp_path / "red.png")
    with weir.Engine(emulated(uri=str(tmp_path)), frames=True) as engine:
        delivery = next(engine.deliveries())
        assert delivery.file == "red.png" and delivery.image is not None
        (rgb,) = delivery.image.planes()
        assert rgb.shape == (16, 32, 3) and rgb[0, 0].tolist() == [200, 10, 20]
