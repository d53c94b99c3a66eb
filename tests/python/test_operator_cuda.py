"""CUDA kernels beside those of the CPU: built if there is nvcc, run if there is a GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from not_compiling import compile_errors
from operator_models import node_model, run_node

from opbridge import operators
from opbridge.operator_build import build

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/cuda_operator"
os.environ.setdefault("OPBRIDGE_CACHE", str(ROOT / "build/operator-cache"))

HAS_NVCC = shutil.which("nvcc") is not None
needs_nvcc = pytest.mark.skipif(not HAS_NVCC, reason="there is no nvcc")
needs_gpu = pytest.mark.skipif(
    not (HAS_NVCC and torch.cuda.is_available()), reason="there is no nvcc, or no GPU that PyTorch can use"
)
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])


@pytest.fixture(scope="module", autouse=True)
def stem() -> Path:
    """The libraries of the example and of cuda_ops.cc, with CUDA kernels if there is nvcc."""
    sources = [EXAMPLE / "scaled_add.cc", ROOT / "tests/python/cuda_ops.cc"]
    if HAS_NVCC:
        sources += [source.with_suffix(".cu") for source in sources]
    # One architecture, to save time; newer GPUs compile it at run time.
    flags = ["-Wall", "-Wextra", "-Werror"]
    made = build(sources, "cuda_operators", flags=flags, cuda_flags=["-arch=sm_80"])
    operators.load_operators(made)
    return made


def has_kernel(operator: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(operator, key)


def scaled_add_in_onnxruntime(library: str | Path, domain: str = "example") -> None:
    a, b = np.arange(4.0), np.ones(4)
    options = {"library": str(library), "domain": domain, "outputs": (np.float64,)}
    np.testing.assert_allclose(run_node("scaled_add", {"a": a, "b": b}, **options, factor=0.5)[0], a + 0.5 * b)


@needs_nvcc
@pytest.mark.parametrize("name", ["example::scaled_add", "cudatest::weigh", "cudatest::weigh_backward"])
def test_the_dispatcher_has_both_kernels(name: str) -> None:
    assert has_kernel(name, "CPU")
    assert has_kernel(name, "CUDA")


def test_a_cpu_session_passes_over_the_cuda_kernel(stem: Path) -> None:
    scaled_add_in_onnxruntime(f"{stem}_ort.so")


def test_the_libraries_need_no_cuda(stem: Path) -> None:
    for host in ("torch", "ort"):
        headers = subprocess.run(["objdump", "-p", f"{stem}_{host}.so"], capture_output=True, text=True, check=True)
        needed = re.findall(r"NEEDED\s+(\S+)", headers.stdout)
        assert needed
        assert not [library for library in needed if "cuda" in library]


@devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 5), (0,), ()])
def test_scaled_add(device: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    a, b = (torch.randn(shape, dtype=dtype, device=device) for _ in range(2))
    torch.testing.assert_close(torch.ops.example.scaled_add(a, b, 0.5), a + 0.5 * b)


@devices
def test_an_output_that_the_data_sizes(device: str) -> None:
    x = torch.randn(1000, device=device)
    found = torch.ops.cudatest.positive(x)
    torch.testing.assert_close(found.sort().values, x[x > 0].sort().values)
    assert torch.ops.cudatest.positive(x[:0]).shape == (0,)


@devices
def test_the_gradient(device: str) -> None:
    x, weight = (torch.randn(7, dtype=torch.float64, device=device, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(torch.ops.cudatest.weigh, (x, weight))
    assert torch.autograd.gradcheck(torch.ops.cudatest.weigh, (x,))


@devices
def test_the_fake_kernel_agrees(device: str) -> None:
    a, b = (torch.randn(3, device=device) for _ in range(2))
    torch.library.opcheck(torch.ops.example.scaled_add.default, (a, b, 0.5))


@needs_gpu
def test_the_current_stream_is_used() -> None:
    a = torch.randn(1 << 20, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(10):
            a = torch.ops.example.scaled_add(a, a, 1.0)
    torch.cuda.current_stream().wait_stream(stream)
    torch.testing.assert_close(torch.ops.example.scaled_add(a, a, -1.0), torch.zeros_like(a))


@needs_gpu
def test_tensors_of_two_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="all tensors must be on one device; b is on another"):
        torch.ops.example.scaled_add(torch.ones(2, device="cuda"), torch.ones(2), 1.0)


@needs_gpu
@pytest.mark.skipif(
    "CUDAExecutionProvider" not in onnxruntime.get_available_providers(), reason="ONNX Runtime is built without CUDA"
)
def test_the_cuda_provider(stem: Path) -> None:
    inputs = {"x": np.random.default_rng(0).standard_normal(1000), "weight": None}
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(f"{stem}_ort.so")
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    for op, expected in (("weigh", inputs["x"]), ("positive", inputs["x"][inputs["x"] > 0])):
        given = inputs if op == "weigh" else {"x": inputs["x"]}
        model = node_model(op, given, domain="cudatest", outputs=(np.float64,))
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CUDAExecutionProvider"])
        result = session.run(None, {"x": inputs["x"]})[0]
        np.testing.assert_allclose(np.sort(result), np.sort(expected))


def test_without_nvcc_the_cpu_kernel_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC", "")
    source = tmp_path / "scaled_add.cc"
    source.write_text((EXAMPLE / "scaled_add.cc").read_text().replace("example::", "without_nvcc::"))
    with pytest.warns(UserWarning, match="CUDA kernels are skipped because nvcc was not found"):
        made = build([source, EXAMPLE / "scaled_add.cu"])
    operators.load_operators(made)
    assert has_kernel("without_nvcc::scaled_add", "CPU")
    assert not has_kernel("without_nvcc::scaled_add", "CUDA")
    a, b = torch.randn(3), torch.randn(3)
    torch.testing.assert_close(torch.ops.without_nvcc.scaled_add(a, b, 2.0), a + 2 * b)
    scaled_add_in_onnxruntime(f"{made}_ort.so", "without_nvcc")


@pytest.mark.parametrize("cuda", [False, pytest.param(True, marks=needs_nvcc)], ids=["without", "with"])
def test_cmake(tmp_path: Path, cuda: bool) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\n"
        "project(example LANGUAGES CXX)\n"
        f"include({ROOT}/cmake/OpbridgeOperators.cmake)\n"
        f"opbridge_add_operators(example SOURCES {EXAMPLE}/scaled_add.cc {EXAMPLE}/scaled_add.cu)\n"
    )
    # An empty OPBRIDGE_TORCH_DIR leaves the PyTorch side out, which takes longest; an empty compiler is none.
    settings = ["-DOPBRIDGE_TORCH_DIR=", "-DCMAKE_CUDA_ARCHITECTURES=80" if cuda else "-DCMAKE_CUDA_COMPILER="]
    configured = subprocess.run(
        ["cmake", "-S", tmp_path, "-B", tmp_path / "build", *settings], capture_output=True, text=True, check=True
    )
    assert ("no CUDA compiler, so without CUDA kernels" in configured.stdout) != cuda
    subprocess.run(["cmake", "--build", tmp_path / "build"], capture_output=True, check=True)
    library = tmp_path / "build/libexample_ort.so"
    assert (b".nv_fatbin" in library.read_bytes()) == cuda
    scaled_add_in_onnxruntime(library)


@pytest.mark.parametrize(("call", "context"), [("cpu", "CudaContext"), ("cuda", "Context")])
def test_each_device_has_its_context(tmp_path: Path, call: str, context: str) -> None:
    errors = compile_errors(
        tmp_path,
        'OPBRIDGE_OPERATOR("t::f(Tensor a) -> Tensor")\n'
        "    .shape([](const Shape& a) { return a; })\n"
        f"    .{call}([]({context}&, TensorView<const float>, TensorView<float>) {{}});\n",
    )
    assert "a kernel of .cpu takes Context&, one of .cuda CudaContext&" in errors
