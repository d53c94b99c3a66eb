"""Builds operators from Python, without CMake: ``opbridge.build(["my_op.cc", "my_op.cu"])``."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from opbridge.paths import checked_path
from opbridge.progress import ProgressLine

__all__ = ["build"]

_PACKAGE = Path(__file__).parent
_FLAGS = (
    "-std=c++20",
    "-O3",
    "-DNDEBUG",
    "-fPIC",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
)
_CUDA_FLAGS = ("-O3", "-DNDEBUG", "-Xcompiler=-fPIC,-fvisibility=hidden")


def build(
    sources: Sequence[str | Path],
    name: str | None = None,
    *,
    flags: Sequence[str] = (),
    cuda_flags: Sequence[str] = ("-arch=all-major",),
    verbose: bool = False,
) -> Path:
    """Compiles operators written against ``opbridge/operator.h``.

    Results are cached by sources, headers and flags, in ``$OPBRIDGE_CACHE`` or ``~/.cache/opbridge``.

    Args:
        sources: C++ files, and ``.cu`` files with CUDA kernels. The latter are compiled by ``$NVCC``, or by the
            ``nvcc`` of ``$CUDA_HOME`` or of PATH. Without a CUDA compiler they are skipped with a warning, and so are
            the ``.cuda`` kernels.
        name: The name of the libraries; by default that of the first source.
        flags: Flags for the compiler (``$CXX`` or ``c++``) and for the linker.
        cuda_flags: Flags for nvcc.
        verbose: Prints the commands.

    Returns:
        The common stem of the two libraries, for ``load_operators``.

    Raises:
        RuntimeError: The compiler fails; the message has its output.
        FileNotFoundError: The compiler or the headers of ONNX Runtime are missing.
        ModuleNotFoundError: torch is not installed, whose headers are needed.
        ValueError: There is no source file.
    """
    paths = [Path(checked_path(source)).resolve() for source in sources]
    if not paths:
        raise ValueError("build needs a source file")
    cuda_paths = [path for path in paths if path.suffix == ".cu"]
    nvcc = _nvcc() if cuda_paths else None
    if cuda_paths and nvcc is None:
        warnings.warn("CUDA kernels are skipped because nvcc was not found: install CUDA, or set NVCC", stacklevel=2)

    kit = _Kit.find()
    settings = json.loads((kit.sdk / "build.json").read_text())  # shared with cmake/OpbridgeOperators.cmake
    compiler = _Compiler(
        kit, shlex.split(os.environ.get("CXX", "c++")), [*_FLAGS, *settings["compile_options"]], verbose
    )
    if compiler.is_gnu:
        compiler.flags += settings["gnu_compile_options"]
    compiler.flags += flags
    defines = ["-DOPBRIDGE_WITH_CUDA"] if nvcc else []
    jobs = [(compiler, path, defines) for path in paths if path not in cuda_paths]
    jobs += [(compiler, kit.sdk / source, []) for source in settings["sources"]]
    libraries = list(flags)
    if nvcc:
        cuda_compiler = _Compiler(kit, nvcc, [*_CUDA_FLAGS, *cuda_flags], verbose)
        jobs += [(cuda_compiler, path, []) for path in (*cuda_paths, kit.sdk / "cuda_runtime.cu")]
        libraries += cuda_compiler.cuda_runtime()
    torch_target = f"-DTORCH_TARGET_VERSION={settings['torch_target_version']}"
    jobs.append((compiler, kit.sdk / "torch_adapter.cc", [f"-isystem{kit.torch / 'include'}", torch_target]))
    jobs.append((compiler, kit.sdk / "ort_adapter.cc", [f"-isystem{kit.onnxruntime}"]))
    with ProgressLine() as progress:
        progress.begin("compiling")
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            *objects, torch_adapter, ort_adapter = pool.map(lambda job: job[0].object(*job[1:]), jobs)
        progress.begin("linking")
        stem = f"lib{name or paths[0].stem}"
        folder = _cache() / "libraries" / _hash(stem, *flags, *map(str, (*objects, torch_adapter, ort_adapter)))
        torch = kit.torch / "lib"
        with_torch = [*libraries, f"-L{torch}", "-ltorch_cpu", f"-Wl,-rpath-link,{torch}", "-ldl"]
        compiler.link([*objects, torch_adapter], folder / f"{stem}_torch.so", with_torch)
        compiler.link([*objects, ort_adapter], folder / f"{stem}_ort.so", libraries)
    return folder / stem


@dataclass(frozen=True)
class _Kit:
    """The folders that operators are built with, in the installed package or in the source tree."""

    include: Path
    sdk: Path
    onnxruntime: Path
    torch: Path

    @staticmethod
    def find() -> _Kit:
        root = _PACKAGE.parent.parent
        include, sdk = _PACKAGE / "include", _PACKAGE / "cmake" / "sdk"
        if not sdk.exists():
            include, sdk = root / "include", root / "operators" / "sdk"
        headers = (
            sdk / "onnxruntime",
            root / "build/deps/onnxruntime/usr/include/onnxruntime",
            Path("/usr/include/onnxruntime"),
        )
        onnxruntime = next((h for h in headers if (h / "onnxruntime_c_api.h").exists()), None)
        if onnxruntime is None:
            raise FileNotFoundError("onnxruntime_c_api.h is missing: run tools/setup.sh, or install libonnxruntime-dev")
        torch = importlib.util.find_spec("torch")
        if torch is None or not torch.submodule_search_locations:
            raise ModuleNotFoundError("building operators needs torch and its headers: install torch")
        return _Kit(include, sdk, onnxruntime, Path(torch.submodule_search_locations[0]))


def _nvcc() -> list[str] | None:
    """The command of the CUDA compiler; an empty ``$NVCC`` means that there is none."""
    named = os.environ.get("NVCC")
    if named is not None:
        return shlex.split(named) or None
    home = os.environ.get("CUDA_HOME")
    found = (home and shutil.which("nvcc", path=Path(home, "bin"))) or shutil.which("nvcc")
    return [found] if found else None


def _cache() -> Path:
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opbridge"
    return Path(os.environ.get("OPBRIDGE_CACHE") or default)


def _hash(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:24]


class _Compiler:
    """Compiles and links into the cache; each file is named by the hash of its inputs."""

    def __init__(self, kit: _Kit, command: Sequence[str], flags: Sequence[str], verbose: bool) -> None:
        self._kit, self._command, self.flags, self._verbose = kit, list(command), list(flags), verbose
        self._identity = self._run([*self._command, "--version"]).stdout

    @property
    def is_gnu(self) -> bool:
        return "Free Software Foundation" in self._identity

    def object(self, source: Path, extra: Sequence[str] = ()) -> Path:
        command = [*self._command, *self.flags, *extra, f"-I{self._kit.include}", str(source)]
        rule = self._run([*command, "-MM"]).stdout  # "name.o: source.cc header.h ..."
        files = sorted({Path(word) for word in rule.partition(":")[2].replace("\\\n", " ").split()})
        torch = self._kit.torch / "include/torch/headeronly/version.h"
        contents = [file.read_bytes() for file in (*files, torch)]
        result = _cache() / "objects" / f"{_hash(self._identity, *command, *contents)}.o"
        self._make(result, lambda path: [*command, "-c", "-o", str(path)])
        return result

    def link(self, objects: Sequence[Path], result: Path, flags: Sequence[str]) -> None:
        exports = f"-Wl,--version-script={self._kit.sdk / 'exports.map'}"
        command = [*self._command, "-shared", "-s", exports, *map(str, objects), *flags]
        self._make(result, lambda path: [*command, "-o", str(path)])

    def cuda_runtime(self) -> list[str]:
        """The linker arguments for the static CUDA runtime. It looks for the driver at the first call of a kernel, so
        that a library also loads without CUDA."""
        plan = self._run([*self._command, "--dryrun", str(self._kit.sdk / "cuda_runtime.cu")]).stderr
        folders = re.findall(r'"(-L[^"]+)"', plan)
        if not folders:
            raise RuntimeError(f"{self._command[0]} does not report the location of its libraries:\n{plan}")
        return [*folders, "-lcudart_static", "-lrt", "-lpthread", "-ldl"]

    def _make(self, result: Path, command: Callable[[Path], Sequence[str]]) -> None:
        if result.exists():
            return
        result.parent.mkdir(parents=True, exist_ok=True)
        # Written to a temporary file and renamed: another process may build the same file.
        with tempfile.TemporaryDirectory(dir=result.parent) as work:
            made = Path(work, result.name)
            line = command(made)
            if self._verbose:
                print(shlex.join(line))
            self._run(line)
            made.replace(result)

    @staticmethod
    def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if shutil.which(command[0]) is None:
            raise FileNotFoundError(f"the compiler {command[0]} was not found: install it, or set CXX or NVCC")
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{shlex.join(command)}\n{done.stderr}")
        return done
