"""Building operators from Python, without CMake: ``opbridge.build(["my_op.cc"])``."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

__all__ = ["build"]

_PACKAGE = Path(__file__).parent
_FLAGS = (
    "-std=c++20",
    "-O3",
    "-DNDEBUG",
    "-fPIC",
    "-fwrapv",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
)
# The first release of PyTorch with all that the adapter calls; cmake/OpbridgeOperators.cmake names the same.
_TORCH_TARGET = "-DTORCH_TARGET_VERSION=0x020a000000000000"


def build(
    sources: Sequence[str | Path],
    name: str | None = None,
    *,
    flags: Sequence[str] = (),
    verbose: bool = False,
) -> Path:
    """Compiles operators written against ``opbridge/operator.h``; gives what ``load_operators`` takes.

    What was built before from the same sources, headers and flags is found again, in ``$OPBRIDGE_CACHE`` or
    ``~/.cache/opbridge``. ``name`` is that of the libraries, by default the stem of the first source.
    ``flags`` go to the compiler, which is ``$CXX`` or ``c++``, and to the linker. Raises ``RuntimeError``
    with the compiler's messages where it fails.
    """
    paths = [Path(source).resolve() for source in sources]
    if not paths:
        raise ValueError("build needs a source file")
    kit = _Kit.find()
    compiler = _Compiler(kit, flags, verbose)
    adapters = {
        "torch": (f"-isystem{kit.torch / 'include'}", _TORCH_TARGET),
        "ort": (f"-isystem{kit.onnxruntime}",),
    }
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        shared = [pool.submit(compiler.object, path) for path in (*paths, kit.sdk / "library.cc")]
        own = {
            host: pool.submit(compiler.object, kit.sdk / f"{host}_adapter.cc", extra)
            for host, extra in adapters.items()
        }
        objects = [future.result() for future in shared]
        adapter = {host: future.result() for host, future in own.items()}

    stem = f"lib{name or paths[0].stem}"
    folder = _cache() / "libraries" / _hash(stem, *flags, *map(str, (*objects, *adapter.values())))
    for host in adapters:
        compiler.link([*objects, adapter[host]], folder / f"{stem}_{host}.so", with_torch=host == "torch")
    return folder / stem


@dataclass(frozen=True)
class _Kit:
    """What operators are built with: folders of the installed package, or of the source tree."""

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
            raise ModuleNotFoundError("building operators needs torch, whose headers they are compiled with")
        return _Kit(include, sdk, onnxruntime, Path(torch.submodule_search_locations[0]))


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
    """Compiles and links into the cache, each file under the hash of all that goes into it."""

    def __init__(self, kit: _Kit, flags: Sequence[str], verbose: bool) -> None:
        self._kit, self._flags, self._verbose = kit, list(flags), verbose
        self._command = shlex.split(os.environ.get("CXX", "c++"))
        self._identity = self._run([*self._command, "--version"])

    def object(self, source: Path, extra: Sequence[str] = ()) -> Path:
        command = [*self._command, *_FLAGS, *self._flags, *extra, f"-I{self._kit.include}", str(source)]
        rule = self._run([*command, "-MM"])  # "name.o: source.cc header.h ..."
        files = sorted({Path(word) for word in rule.replace("\\\n", " ").split() if not word.endswith(":")})
        torch = self._kit.torch / "include/torch/headeronly/version.h"
        contents = [file.read_bytes() for file in (*files, torch)]
        result = _cache() / "objects" / f"{_hash(self._identity, *command, *contents)}.o"
        self._make(result, lambda path: [*command, "-c", "-o", str(path)])
        return result

    def link(self, objects: Sequence[Path], result: Path, *, with_torch: bool) -> None:
        torch = self._kit.torch / "lib"
        libraries = [f"-L{torch}", "-ltorch_cpu", f"-Wl,-rpath-link,{torch}"] if with_torch else []
        exports = f"-Wl,--version-script={self._kit.sdk / 'exports.map'}"
        command = [*self._command, "-shared", "-s", exports, *map(str, objects), *self._flags, *libraries]
        self._make(result, lambda path: [*command, "-o", str(path)])

    def _make(self, result: Path, command: Callable[[Path], Sequence[str]]) -> None:
        if result.exists():
            return
        result.parent.mkdir(parents=True, exist_ok=True)
        # Made aside and moved in one step: another process may make the same.
        with tempfile.TemporaryDirectory(dir=result.parent) as work:
            made = Path(work, result.name)
            line = command(made)
            if self._verbose:
                print(shlex.join(line))
            self._run(line)
            made.replace(result)

    @staticmethod
    def _run(command: Sequence[str]) -> str:
        if shutil.which(command[0]) is None:
            raise FileNotFoundError(f"there is no compiler {command[0]}: install g++, or set CXX")
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{shlex.join(command)}\n{done.stderr}")
        return done.stdout
