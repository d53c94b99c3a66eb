"""Compares the shipped operators with those of PyTorch, torchvision and ONNX Runtime, and with hand-written kernels.

Prints a table of shortest times in milliseconds. All contestants of a row run in turn, so that other load on the
machine affects them equally.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import onnxruntime
import torch
import vision_operators
from contest import Contestants, bound, node, race, session

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "python"))

from opbridge import operators  # noqa: E402


def deform_conv2d(channels: int, size: int, threads: int) -> Contestants:
    """3x3, stride 1, padding 1, with mask and bias; as many channels out as in; one image."""
    torch.manual_seed(0)
    feed = {
        "input": torch.randn(1, channels, size, size),
        "weight": torch.randn(channels, channels, 3, 3) / channels,
        "offset": torch.randn(1, 18, size, size),
        "mask": torch.rand(1, 9, size, size),
        "bias": torch.randn(channels),
    }
    x, weight, offset, mask, bias = feed.values()
    arrays = {name: tensor.numpy() for name, tensor in feed.items()}

    custom = node("deform_conv2d", "opbridge", arrays, {"pad_h": 1, "pad_w": 1}, 17)
    contestants: Contestants = {
        "opbridge in ONNX Runtime": bound(session(custom, threads, operators.ort_library()), arrays),
        "opbridge in PyTorch": lambda: torch.ops.opbridge.deform_conv2d(*feed.values(), 1, 1, 1, 1),
    }
    if importlib.util.find_spec("torchvision"):
        import torchvision

        contestants["torchvision"] = lambda: torchvision.ops.deform_conv2d(
            x, offset, weight, bias, padding=1, mask=mask
        )
    order = {name: arrays[name] for name in ("input", "weight", "offset", "bias", "mask")}
    standard = node("DeformConv", "", order, {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}, 19)
    not_implemented = onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented
    with contextlib.suppress(not_implemented):  # until ONNX Runtime has a kernel for it
        contestants["DeformConv of ONNX Runtime"] = bound(session(standard, threads), arrays)
    contestants["dense conv2d of PyTorch"] = lambda: torch.nn.functional.conv2d(x, weight, bias, padding=1)
    return contestants


def compiled(source: Path, flags: list[str]) -> Path:
    """A library of `source`, built again only when the source is newer."""
    library = ROOT / "build/benchmarks" / f"lib{source.stem}.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        library.parent.mkdir(parents=True, exist_ok=True)
        command = [
            shutil.which("c++") or "c++",
            "-std=c++20",
            "-O3",
            "-DNDEBUG",
            "-fPIC",
            "-shared",
            str(source),
        ]
        subprocess.run([*command, *flags, "-o", str(library)], check=True)
    return library


def my_add(count: int, threads: int) -> Contestants:
    folder = ROOT / "benchmarks/operators"
    torch_dir = Path(torch.__file__).parent
    headers = [f"-isystem{torch_dir / 'include'}", f"-isystem{torch_dir / 'include/torch/csrc/api/include'}"]
    by_hand = compiled(folder / "hand_torch.cc", [*headers, f"-L{torch_dir / 'lib'}", "-ltorch_cpu", "-lc10"])
    torch.ops.load_library(str(by_hand))
    ort_headers = [ROOT / "build/deps/onnxruntime/usr/include/onnxruntime", Path("/usr/include/onnxruntime")]
    ort_by_hand = compiled(folder / "hand_ort.cc", [f"-isystem{path}" for path in ort_headers])

    a, b = torch.randn(count), torch.randn(count)
    arrays = {"a": a.numpy(), "b": b.numpy()}
    ours = session(node("my_add", "custom", arrays, {}, 17), threads, operators.ort_library(operators.COMPAT))
    theirs = session(node("my_add", "byhand", arrays, {}, 17), threads, str(ort_by_hand))
    return {
        "opbridge in ONNX Runtime": bound(ours, arrays),
        "by hand in ONNX Runtime": bound(theirs, arrays),
        "opbridge in PyTorch": lambda: torch.ops.custom.my_add(a, b),
        "by hand in PyTorch": lambda: torch.ops.byhand.my_add(a, b),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    options = parser.parse_args()
    operators.load_operators()
    operators.load_operators(operators.COMPAT)
    for threads in options.threads:
        torch.set_num_threads(threads)
        rows = {
            "deform_conv2d 64x56x56": deform_conv2d(64, 56, threads),
            "deform_conv2d 256x28x28": deform_conv2d(256, 28, threads),
            "my_add of 4,000,000": my_add(4_000_000, threads),
            **vision_operators.rows(threads),
        }
        for title, contestants in rows.items():
            times = race(contestants, options.rounds)
            first = next(iter(times.values()))
            print(f"{title}, {threads} thread{'s' if threads > 1 else ''}")
            for name, value in times.items():
                print(f"  {name:28} {value:9.3f} ms  {value / first:6.2f}")


if __name__ == "__main__":
    main()
