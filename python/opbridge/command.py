"""The part of the command `opbridge` that needs PyTorch. The command is a separate program, which starts this part."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import signal
import sys
import tempfile
import traceback
import types
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from opbridge.errors import Error, FileError, InternalError, InvalidArgumentError
from opbridge.progress import ProgressLine, is_terminal

if TYPE_CHECKING:
    from opbridge.verification import Verification


def main(arguments: Sequence[str]) -> int:
    """Carries out a command; returns its exit status."""
    options = _parser().parse_args(arguments)
    output = _keep_output_for_report()
    try:
        status: int = options.carry_out(options, output)
    except Error as error:
        print(f"opbridge: {error}", file=sys.stderr)
        return 3 if isinstance(error, InternalError) else 2
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "onnxruntime"):
            raise
        print(
            f"opbridge: {sys.executable} lacks the package {error.name}; install it there, or name another Python by "
            "OPBRIDGE_PYTHON",
            file=sys.stderr,
        )
        return 2
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:  # raised by the code of the model, as SystemExit
        print(f"opbridge: {_described(error)}", file=sys.stderr)
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    """Parses the arguments that the program passes on. The program has checked them, and it prints the help."""
    parser = argparse.ArgumentParser("opbridge", add_help=False, allow_abbrev=False)
    commands = parser.add_subparsers(required=True)

    doctor = commands.add_parser("doctor", add_help=False, allow_abbrev=False)
    doctor.set_defaults(carry_out=_doctor)
    doctor.add_argument("model")
    doctor.add_argument("--target", default="onnxruntime")
    doctor.add_argument("--opset", type=int, required=True)
    doctor.add_argument("--ops", action="append", default=[])
    doctor.add_argument("--json", action="store_true")
    doctor.add_argument("--fix", default="")
    doctor.add_argument("--projects", default="")
    doctor.add_argument("--width", type=int, default=0)  # what the program knows of the terminal
    doctor.add_argument("--bold", action="store_true")
    doctor.add_argument("--colours", action="store_true")

    verify = commands.add_parser("verify", add_help=False, allow_abbrev=False)
    verify.set_defaults(carry_out=_verify)
    verify.add_argument("model")
    verify.add_argument("file", nargs="?")
    verify.add_argument("--ops", action="append", default=[])
    verify.add_argument("--rtol", type=float)
    verify.add_argument("--atol", type=float)
    verify.add_argument("--random-inputs", type=int, default=0)
    verify.add_argument("--seed", type=int, default=0)
    verify.add_argument("--edge-values", action="store_true")
    verify.add_argument("--reproduction")
    return parser


def _keep_output_for_report() -> TextIO:
    """The standard output, to which only the report goes: what the user's code prints, in C++ too, goes to standard
    error."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return output


def _model_of(options: argparse.Namespace, progress: ProgressLine) -> tuple[Any, Any, Any]:
    """What ``_made_by`` returns for the model, which may call the operators of ``--ops``."""
    from opbridge.operators import load_operators

    progress.begin("model")
    for library in options.ops:
        try:
            load_operators(library)
        except (OSError, RuntimeError, ValueError) as error:
            raise InvalidArgumentError(f"cannot load the operators of {library}: {error}") from error
    return _made_by(options.model)


def _is_foreign(library: str) -> bool:
    """Whether the library for ONNX Runtime exists and is not made with opbridge."""
    from opbridge import _core
    from opbridge._operator_abi import ForeignLibraryError, Library

    sides = (_core.operator_libraries(library)[1], os.path.abspath(library))
    found = next(filter(os.path.isfile, sides), None)
    if found is None:
        return False
    try:
        Library(found)
    except (ForeignLibraryError, OSError):
        return True
    except ValueError:  # of another version of opbridge
        pass
    return False


def _doctor(options: argparse.Namespace, output: TextIO) -> int:
    from opbridge import _core
    from opbridge.capture import capture
    from opbridge.symbolics.registry import registry_for

    with ProgressLine() as progress:
        model, args, kwargs = _model_of(options, progress)
        progress.begin("capture")
        program = capture(model, args, kwargs)
        progress.begin("conversion")
        ok, report, written = _core.diagnose_graph(
            program.graph,
            registry_for(program, options.opset),
            name=options.model,
            target=options.target,
            opset=options.opset,
            json=options.json,
            mappings=options.fix,
            projects=options.projects,
            width=options.width,
            bold=options.bold,
            colours=options.colours,
        )
    text = report.rstrip("\n") + "\n"
    if written and not options.json:
        text += "\n" + written
    _print(text, output)
    return 0 if ok else 1


def _verify(options: argparse.Namespace, output: TextIO) -> int:
    from opbridge.exporter import export
    from opbridge.verification import VerificationError, verify

    libraries = [library for library in options.ops if _is_foreign(library)]
    options.ops = [library for library in options.ops if library not in libraries]
    with ProgressLine() as progress:
        model, args, kwargs = _model_of(options, progress)
    if options.file is not None and not Path(options.file).is_file():
        raise FileError(f"no such file: {options.file}")
    with tempfile.TemporaryDirectory() as folder:
        file = options.file or os.path.join(folder, "model.onnx")
        if options.file is None:
            export(model, args, file, kwargs=kwargs)
        try:
            verification = verify(
                file,
                model,
                args,
                kwargs,
                rtol=options.rtol,
                atol=options.atol,
                random_inputs=options.random_inputs,
                edge_values=options.edge_values,
                seed=options.seed,
                reproduction=options.reproduction,
                libraries=libraries,
            )
            conclusion = verification.text()
        except VerificationError as error:
            if error.verification is None:
                raise
            verification = error.verification
            conclusion = error.message
    _print(f"{_table(verification, output)}\n\n{conclusion}\n", output)
    return 0 if verification.ok else 1


def _table(verification: Verification, output: TextIO) -> str:
    if not is_terminal(output):
        return verification.table()
    from opbridge.drawing import drawn_table
    from opbridge.verification import cells_of

    wrong = [bool(each.mismatch) for each in verification.outputs]
    return drawn_table(cells_of(verification.outputs), output, numbers_from=2, wrong=wrong)


def _print(text: str, output: TextIO) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as other programs, whose reader may stop, such as head
    try:
        print(text, end="", file=output, flush=True)
    except OSError as error:
        raise FileError(f"cannot print: {error.strerror}") from error


def _made_by(text: str) -> tuple[Any, Any, Any]:
    """The model, the arguments and the keyword arguments that a function returns: ``script.py:make_model``, or
    ``package.module:make_model``."""
    source, _, name = text.rpartition(":")
    try:
        module = _imported(source)
        factory = getattr(module, name, None)
        if not callable(factory):
            raise InvalidArgumentError(f"{source} has no function {name!r}")
        made = factory()
    except (Error, KeyboardInterrupt):
        raise
    except BaseException as error:  # also SystemExit, and those of test frameworks
        raise InvalidArgumentError(f"{text} fails with {_described(error)}", _line_of(error, source)) from error
    if not isinstance(made, tuple):
        return made, (), None
    if not 1 <= len(made) <= 3:
        raise InvalidArgumentError(f"{text} must return (model, args) or (model, args, kwargs), not {len(made)} values")
    return (*made, *((), None)[len(made) - 1 :])


def _imported(source: str) -> types.ModuleType:
    """The module, with its folder in sys.path, as when Python runs it."""
    if not source.endswith(".py"):
        sys.path.insert(0, "")
        return importlib.import_module(source)
    path = Path(source)
    if not path.is_file():
        raise InvalidArgumentError(f"no such file: {source}")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _line_of(error: BaseException, source: str) -> str:
    """The last line of the user's file that the error passed."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name == Path(source).name
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}: {frames[-1].line}" if frames else ""
