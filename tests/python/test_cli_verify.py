"""`opbridge verify` runs a model in ONNX Runtime, without Python, and compares."""

from __future__ import annotations

import random
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from command import opbridge, refusal
from torch import nn

import opbridge as package
from opbridge.operators import COMPAT

RUNTIME = next((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*"))
ENVIRONMENT = {"OPBRIDGE_ONNXRUNTIME": str(RUNTIME)}


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.linear(x).relu(), n + 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model.onnx, in.npz and out.npz, which agree."""
    folder = tmp_path_factory.mktemp("verify")
    torch.manual_seed(0)
    model = TwoInputs().eval()
    x, n = torch.randn(2, 4), torch.arange(3)
    package.export(model, (x, n), folder / "model.onnx", output_names=["y", "k"])
    with torch.no_grad():
        y, k = model(x, n)
    np.savez(folder / "in.npz", x=x.numpy(), n=n.numpy())
    np.savez(folder / "out.npz", y=y.numpy(), k=k.numpy())
    return folder


def check(folder: Path, expect: Path | str = "out.npz", *options: object) -> tuple[int, str]:
    inputs = folder / "in.npz"
    arguments = (folder / "model.onnx", "--inputs", inputs, "--expect", folder / expect, *options)
    done = opbridge("verify", *arguments, env=ENVIRONMENT)
    assert done.stderr == ""
    return done.returncode, done.stdout


def refused(folder: Path, **changes: object) -> str:
    files = {"model": "model.onnx", "inputs": "in.npz", "expect": "out.npz", **changes}
    model, inputs, expect = (folder / str(files[key]) for key in ("model", "inputs", "expect"))
    return refusal("verify", model, "--inputs", inputs, "--expect", expect, env=ENVIRONMENT)


def test_agreement(folder: Path) -> None:
    status, text = check(folder)
    assert status == 0
    head, *rows, _, end = text.splitlines()
    assert head.split() == ["output", "largest", "difference", "relative", "cosine", "mismatches"]
    assert [row.split()[0] for row in rows] == ["y", "k"]
    assert rows[1].split()[1:] == ["0", "0", "1.000000", "0"]
    assert end == "all outputs agree"


def test_a_difference_is_exit_status_1_and_the_first_element(folder: Path, tmp_path: Path) -> None:
    expected = dict(np.load(folder / "out.npz"))
    expected["k"][1] += 7
    np.savez(tmp_path / "wrong.npz", **expected)
    status, text = check(folder, tmp_path / "wrong.npz")
    assert status == 1
    assert text.splitlines()[1].split()[0] == "y"
    assert text.splitlines()[2].split() == ["k", "7", "0.778", "0.784465", "1"]
    assert "y differs" not in text
    assert "k differs: 1 of 3 elements" in text
    assert "the first at [1]: 2 instead of 9" in text
    status, _ = check(folder, tmp_path / "wrong.npz", "--atol", 7)
    assert status == 0


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_every_way_that_numpy_lays_out_arrays(folder: Path, tmp_path: Path, save: object) -> None:
    y, k = np.load(folder / "out.npz").values()
    save(tmp_path / "out.npz", np.asfortranarray(y), k)  # type: ignore[operator]
    assert check(folder, tmp_path / "out.npz")[0] == 0


def test_shape_and_element_type_count(folder: Path, tmp_path: Path) -> None:
    y, k = np.load(folder / "out.npz").values()
    np.savez(tmp_path / "out.npz", y=y.astype(np.float64), k=k[:2])
    status, text = check(folder, tmp_path / "out.npz")
    assert status == 1
    assert "y differs: element type float32, expected float64" in text
    assert "k differs: shape [3], expected [2]" in text


def test_complex_numbers_as_pytorch_has_them(tmp_path: Path) -> None:
    class Module(nn.Module):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return z * 2j

    z = torch.tensor([1 + 2j, -3j])
    package.export(Module(), (z,), tmp_path / "model.onnx", output_names=["y"])
    np.savez(tmp_path / "in.npz", z=z.numpy())
    np.savez(tmp_path / "out.npz", y=(z * 2j).numpy())
    assert check(tmp_path)[0] == 0
    np.savez(tmp_path / "out.npz", y=(z * 3j).numpy())
    assert "y differs: 3 of 4 elements" in check(tmp_path)[1]


def test_scalars_empty_arrays_half_and_bool(tmp_path: Path) -> None:
    class Module(nn.Module):
        def forward(
            self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            return a * 2, b.relu(), ~c

    arguments = (torch.tensor(3.0), torch.zeros(0, 4, dtype=torch.float16), torch.tensor([True, False]))
    names = ["p", "q", "r"]
    package.export(Module(), arguments, tmp_path / "m.onnx", output_names=names)
    inputs, outputs = tmp_path / "i.npz", tmp_path / "o.npz"
    np.savez(inputs, **dict(zip("abc", (a.numpy() for a in arguments), strict=True)))
    np.savez(outputs, **dict(zip(names, (o.numpy() for o in Module()(*arguments)), strict=True)))
    done = opbridge("verify", tmp_path / "m.onnx", "--inputs", inputs, "--expect", outputs, env=ENVIRONMENT)
    assert (done.returncode, done.stderr, done.stdout.splitlines()[-1]) == (0, "", "all outputs agree")


def test_custom_operators_are_loaded(tmp_path: Path) -> None:
    package.load_operators(COMPAT)

    class Module(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.ops.custom.my_add(a, b)

    a, b = torch.randn(3), torch.randn(3)
    package.export(Module(), (a, b), tmp_path / "m.onnx", output_names=["y"])
    np.savez(tmp_path / "i.npz", a=a.numpy(), b=b.numpy())
    np.savez(tmp_path / "o.npz", y=(2 * a + b).numpy())
    arguments = ("verify", tmp_path / "m.onnx", "--inputs", tmp_path / "i.npz", "--expect", tmp_path / "o.npz")
    assert "my_add(-1) is not a registered function/op; name the library that has its kernel: --ops" in refusal(
        *arguments, env=ENVIRONMENT
    )
    for named in (package.ort_library(COMPAT), COMPAT, f"{COMPAT}.so"):
        done = opbridge(*arguments, "--ops", named, env=ENVIRONMENT)
        assert (done.returncode, done.stderr) == (0, "")
    assert "absent.so: no such file, nor absent_ort.so" in refusal(*arguments, "--ops", "absent.so", env=ENVIRONMENT)


def test_the_difference_from_zero_and_tolerances_that_are_none(folder: Path, tmp_path: Path) -> None:
    with np.load(folder / "out.npz") as arrays:
        np.savez(tmp_path / "zero.npz", y=0 * arrays["y"], k=arrays["k"])
    status, text = check(folder, tmp_path / "zero.npz")
    assert status == 1
    row = next(line.split() for line in text.splitlines() if line.split()[:1] == ["y"])
    assert row[2] == "inf"
    for option in ("--rtol", "--atol"):
        for wrong in ("nan", "-1"):
            arguments = ("--inputs", folder / "in.npz", "--expect", folder / "out.npz", f"{option}={wrong}")
            assert "at least 0" in refusal("verify", folder / "model.onnx", *arguments, env=ENVIRONMENT)


def test_names_that_do_not_fit(folder: Path) -> None:
    assert "no array for the model's input 'x'" in refused(folder, inputs="out.npz")
    assert "no array for the model's output 'y'" in refused(folder, expect="in.npz")


def test_arrays_that_do_not_fit_the_model(folder: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.zeros((2, 5), np.float32), n=np.arange(3))
    assert "cannot run the model" in refused(folder, inputs=tmp_path / "in.npz")


def test_files_that_are_something_else(folder: Path, tmp_path: Path) -> None:
    assert "no such file" in refused(folder, inputs="missing.npz")
    assert "refuses" in refused(folder, model="in.npz")
    assert "not a zip archive, as an .npz file must be" in refused(folder, inputs="model.onnx")
    np.save(tmp_path / "one.npy", np.zeros(2))
    assert "a .npy file has one array" in refused(folder, inputs=tmp_path / "one.npy")
    np.savez(tmp_path / "objects.npz", x=np.array([None]), n=np.arange(3))
    assert "element type '|O'" in refused(folder, inputs=tmp_path / "objects.npz")
    np.savez(tmp_path / "big.npz", x=np.zeros(1, ">f4"), n=np.arange(3))
    assert "element type '>f4'" in refused(folder, inputs=tmp_path / "big.npz")


def test_headers_that_lie(folder: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(folder / "in.npz") as archive:
        content = archive.read("x.npy")
    good = content.index(b"(2, 4)")
    random.seed(0)
    lies = [
        content[:good] + text + content[good + 6 :] for text in (b"(9, 9)", b"(-2,4)", b"(2, 4]", b"((((((", b"'<f4',")
    ]
    lies += [content[:size] for size in (0, 5, 9, 11, 40, 127, len(content) - 1)]
    for _ in range(20):
        index = random.randrange(6, good + 10)
        lies.append(content[:index] + bytes([random.randrange(256)]) + content[index + 1 :])
    for lie in lies:
        with zipfile.ZipFile(tmp_path / "lie.npz", "w") as archive:
            archive.writestr("x.npy", lie)
            archive.writestr("n.npy", zipfile.ZipFile(folder / "in.npz").read("n.npy"))
        arguments = (folder / "model.onnx", "--inputs", tmp_path / "lie.npz", "--expect", folder / "out.npz")
        done = opbridge("verify", *arguments, env=ENVIRONMENT)
        assert done.returncode in (0, 1, 2), (lie[:128], done.returncode, done.stderr)


def test_no_runtime(folder: Path) -> None:
    arguments = ("verify", folder / "model.onnx", "--inputs", folder / "in.npz", "--expect", folder / "out.npz")
    line = refusal(*arguments, env={"OPBRIDGE_ONNXRUNTIME": str(folder / "none.so")})
    assert "install the Python package onnxruntime" in line
    assert "is not ONNX Runtime's library" in refusal(*arguments, "--runtime", "libm.so.6")


def test_the_runtime_beside_python_is_found(folder: Path) -> None:
    prefix = Path(sys.prefix)
    if not RUNTIME.is_relative_to(prefix):
        pytest.skip("this onnxruntime is not installed beside this Python")
    arguments = ("verify", folder / "model.onnx", "--inputs", folder / "in.npz", "--expect", folder / "out.npz")
    assert opbridge(*arguments, env={"PATH": str(prefix / "bin"), "VIRTUAL_ENV": ""}).returncode == 0
