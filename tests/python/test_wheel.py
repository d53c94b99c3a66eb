"""The wheels of ``make wheel``, installed into new environments and used from an empty folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

import opbridge

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "build/wheel/tools/bin"
DIST = ROOT / "build/wheel/dist"
WHEELS = sorted(DIST.glob(f"opbridge-{opbridge.__version__}-*_x86_64.whl"))
FOR_ARM = sorted(DIST.glob(f"opbridge-{opbridge.__version__}-*_aarch64.whl"))
pytestmark = pytest.mark.skipif(not WHEELS and not FOR_ARM, reason="no wheel was built: make wheel")
EXPORT = """
import opbridge, torch, onnxruntime
print(opbridge.__version__)
opbridge.load_operators()
x = torch.rand(2, 3)
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU())
opbridge.export(model, (x,), "model.onnx", verify=True)
opbridge.export(lambda x: torch.special.bessel_j0(x), (x,), "bessel.onnx", verify=True)
torch.export.save(torch.export.export(model, (x,)), "model.pt2")
"""


def interpreter_of(wheel: Path) -> str | None:
    """The oldest CPython on this machine that takes the wheel."""
    oldest = int(wheel.name.split("-")[2].removeprefix("cp3"))
    minors = range(oldest, oldest + 4) if "-abi3-" in wheel.name else [oldest]
    for minor in minors:
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "-c", "import venv"], capture_output=True).returncode == 0:
            return found
    return None


def installed(wheel: Path, python: str, folder: Path) -> Path:
    """The folder of programs of a new environment with nothing but the wheel."""
    subprocess.run([python, "-m", "venv", folder / "env"], check=True)
    pip = [folder / "env/bin/pip", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True)
    (folder / "empty").mkdir()
    return folder / "env/bin"


def run(*command: object, folder: Path) -> str:
    """The output of the command in the empty folder, where no variable of this checkout is set."""
    variables = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")}
    variables["OPBRIDGE_CACHE"] = str(folder / "cache")
    done = subprocess.run(
        [str(part) for part in command], cwd=folder / "empty", env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name)
def test_the_libraries_run_where_the_wheel_says(wheel: Path, tmp_path: Path) -> None:
    verdict = " ".join(run_tool("auditwheel", "show", wheel).split())
    assert 'constrains the platform tag to "manylinux_2_28_x86_64"' in verdict
    assert "manylinux_2_28_x86_64" in wheel.name
    check_torch_abi(wheel, tmp_path)


@pytest.mark.parametrize("wheel", FOR_ARM, ids=lambda wheel: wheel.name)
def test_the_libraries_are_for_the_other_machine(wheel: Path, tmp_path: Path) -> None:
    """Checks what is visible without running them. auditwheel refuses a wheel that needs a newer glibc."""
    assert "manylinux_2_28_aarch64" in wheel.name
    check_torch_abi(wheel, tmp_path)
    libraries = sorted(tmp_path.rglob("*.so"))
    assert len(libraries) == 5
    machine_of_aarch64 = (183).to_bytes(2, "little")  # EM_AARCH64, at offset 18 of the ELF header
    assert {library.read_bytes()[18:20] for library in libraries} == {machine_of_aarch64}


def check_torch_abi(wheel: Path, folder: Path) -> None:
    shutil.unpack_archive(wheel, folder, "zip")
    for name in ("opbridge_ops", "opbridge_compat_ops"):
        assert "Torch ABI:   STABLE" in run_tool("torch-abi-audit", folder / f"opbridge/lib/lib{name}_torch.so")


def run_tool(name: str, *arguments: object) -> str:
    return subprocess.run([TOOLS / name, *arguments], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name)
def test_without_torch(wheel: Path, tmp_path: Path) -> None:
    """The command converts and describes programs, and the module imports."""
    python = interpreter_of(wheel)
    if python is None:
        pytest.skip("no interpreter for this wheel")
    torch.export.save(torch.export.export(torch.nn.Linear(3, 4), (torch.rand(2, 3),)), tmp_path / "model.pt2")
    programs = installed(wheel, python, tmp_path)
    assert run(programs / "opbridge", "--version", folder=tmp_path) == f"opbridge {opbridge.__version__}\n"
    by_module = run(programs / "python", "-m", "opbridge", "--version", folder=tmp_path)
    assert by_module == f"opbridge {opbridge.__version__}\n"
    run(programs / "opbridge", "convert", tmp_path / "model.pt2", "model.onnx", folder=tmp_path)
    assert "Gemm" in run(programs / "opbridge", "inspect", "model.onnx", folder=tmp_path)
    printed = run(programs / "python", "-c", "import opbridge; print(opbridge.__version__)", folder=tmp_path)
    assert printed == f"{opbridge.__version__}\n"


def test_with_torch(tmp_path: Path) -> None:
    """Everything of README's "Use", in an environment that takes torch and ONNX Runtime from this one."""
    minor = sys.version_info[1]
    fitting = [w for w in WHEELS if f"-cp3{minor}-" in w.name or ("-abi3-" in w.name and minor >= 12)]
    if not fitting:
        pytest.skip("no wheel for this interpreter")
    programs = installed(fitting[0], sys.executable, tmp_path)
    packages = Path(sysconfig.get_path("purelib"))
    here = tmp_path / "env/lib" / f"python3.{minor}" / "site-packages"
    (here / "others.pth").write_text(f"{packages}\n")
    printed = run(programs / "python", "-c", EXPORT, folder=tmp_path)
    assert printed.startswith(opbridge.__version__)
    home = run(programs / "python", "-c", "import opbridge; print(opbridge.__file__)", folder=tmp_path)
    assert Path(home.strip()).is_relative_to(here)
    run(programs / "opbridge", "convert", "model.pt2", "again.onnx", folder=tmp_path)
    run(programs / "opbridge", "new-op", "custom::my_op(Tensor a, Tensor b) -> Tensor", folder=tmp_path)
    assert "6 passed" in run(programs / "python", "-m", "pytest", "-q", "my_op", folder=tmp_path)
