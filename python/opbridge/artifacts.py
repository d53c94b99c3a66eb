"""The output of an export besides the model: text, logs, a report, a profile, torch.export's program."""

from __future__ import annotations

import contextlib
import datetime
import io
import logging
import platform
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opbridge import _core
from opbridge.progress import ProgressLine
from opbridge.torch_arguments import ArtifactOptions

if TYPE_CHECKING:
    import torch

    from opbridge.onnx_program import ONNXProgram

_PROFILED_FUNCTIONS = 30

# A result of a call: its name and operator, its absolute and relative difference from PyTorch, and a description of the
# difference, empty if there is none.
CallError = tuple[str, float, float, str]

logger = logging.getLogger("opbridge")


class Artifacts:
    """The artifacts of one export. Their names are those of torch.onnx: ``onnx_export_TIME…``."""

    def __init__(self, options: ArtifactOptions, model: Any) -> None:
        self._options = options
        self.progress = ProgressLine(shown=not options.quiet)
        self._model = type(model).__name__
        time_of_day = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
        self._folder = Path(options.folder)
        self._stem = f"onnx_export_{time_of_day}"
        self._steps: list[tuple[str, float]] = []
        self._program = ""
        self._profile = ""
        self._result: ONNXProgram | None = None

    @contextlib.contextmanager
    def record(self) -> Iterator[None]:
        """Profiles the block, and writes the report at its end, also if it fails."""
        if self._options.report or self._options.dump_exported_program:
            self._folder.mkdir(parents=True, exist_ok=True)
        try:
            with self._profile_block():
                yield
        except Exception:
            self._write_report(traceback.format_exc())
            raise
        finally:
            self.progress.end()
        self._write_report("")
        if self._options.verbose:
            assert self._result is not None
            print(self._result)

    @contextlib.contextmanager
    def time_step(self, name: str) -> Iterator[None]:
        """Measures the time of a step of the export."""
        self.progress.begin(name)
        start = time.perf_counter()
        yield
        seconds = time.perf_counter() - start
        self._steps.append((name, seconds))
        self._say(f"{name}: {seconds:.2f} s")

    def captured(self, graph: Any) -> None:
        """Takes the text of the captured program, which is printed as torch.onnx prints its graph."""
        is_logged = logger.isEnabledFor(logging.DEBUG)
        if self._options.verbose or self._options.report or is_logged:
            self._program = str(graph)
        if self._options.verbose:
            print(self._program)
        if is_logged:
            logger.debug("%s", self._program)

    def dump(self, program: torch.export.ExportedProgram) -> None:
        """Writes torch.export's program, if the export asks for it."""
        import torch

        if not self._options.dump_exported_program:
            return
        path = self._folder / f"{self._stem}.pt2"
        try:
            torch.export.save(program, path)
        except Exception as error:  # the model can be written nevertheless
            warnings.warn(f"torch.export cannot save its program: {error}", stacklevel=2)
        else:
            self._say(f"torch.export's program: {path}")

    def write_page(self, model: str, verdict: str = "", errors: Sequence[CallError] = ()) -> None:
        """Draws the model as an HTML page, if the export asks for it."""
        if self._options.page is None:
            return
        with self.time_step("page"):
            _core.write_page(model, self._options.page, steps=self._steps, errors=list(errors), verdict=verdict)
        self._say(f"page: {self._options.page}")

    @property
    def has_page(self) -> bool:
        return self._options.page is not None

    def finished(self, result: ONNXProgram) -> None:
        self._result = result
        logger.info("%s: %d nodes, %d bytes", result.path, result.node_count, result.model_bytes)
        if result.external_file is not None:
            logger.info("%s: weights, %d bytes", result.external_file, result.external_bytes)
        if result.referenced_files:
            files = ", ".join(result.referenced_files)
            logger.info("%s: weights, to which the model refers, %d bytes", files, result.referenced_bytes)

    @contextlib.contextmanager
    def _profile_block(self) -> Iterator[None]:
        if not self._options.profile:
            yield
            return
        import cProfile
        import pstats

        profile = cProfile.Profile()
        try:
            with profile:
                yield
        finally:
            text = io.StringIO()
            pstats.Stats(profile, stream=text).sort_stats("cumulative").print_stats(_PROFILED_FUNCTIONS)
            self._profile = text.getvalue().strip()
            if not self._options.report:
                print(self._profile)

    def _say(self, text: str) -> None:
        logger.info("%s", text)
        if self._options.verbose:
            print(text)

    def _write_report(self, failure: str) -> None:
        if not self._options.report:
            return
        path = self._folder / f"{self._stem}_{'failure' if failure else 'success'}.md"
        path.write_text("\n\n".join(self._sections(failure)) + "\n", encoding="utf-8")
        self._say(f"report: {path}")

    def _sections(self, failure: str) -> Iterator[str]:
        import torch

        yield f"# Export of {self._model}"
        yield f"torch {torch.__version__}, Python {platform.python_version()}, {platform.platform()}"
        if failure:
            yield f"## Failure\n\n```\n{failure.strip()}\n```"
        if self._steps:
            yield "## Steps\n\n" + _table(("step", "seconds"), [(name, f"{s:.3f}") for name, s in self._steps])
        if self._result is not None:
            yield from self._sections_of(self._result)
        if self._program:
            yield f"## Captured program\n\n```\n{self._program.strip()}\n```"
        if self._profile:
            yield f"## Profile\n\n```\n{self._profile}\n```"

    @staticmethod
    def _sections_of(result: ONNXProgram) -> Iterator[str]:
        from opbridge import _core

        rows = [(name, getattr(result, name)) for name in ("path", "node_count", "model_bytes", "external_bytes")]
        yield "## Model\n\n" + _table(("", ""), rows)
        counts = sorted(_core.operators_of(result.path).items(), key=lambda item: (-item[1], item[0]))
        yield "## Operators\n\n" + _table(("operator", "nodes"), counts)
        if result.verification is not None:
            yield f"## Verification\n\n{result.verification.text()}"


def _table(head: tuple[str, str], rows: list[tuple[str, Any]]) -> str:
    lines = [head, ("---", "---"), *rows]
    return "\n".join(f"| {name} | {value} |" for name, value in lines)
