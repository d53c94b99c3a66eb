"""``python -m opbridge``: the command ``opbridge`` with this Python, also where the command is not in the PATH."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _programs() -> Iterator[Path]:
    """Where the program may be: beside the package where pip installed it, or in the builds of a checkout."""
    try:
        installed = importlib.metadata.distribution("opbridge")
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        if Path(str(installed.locate_file("opbridge"))).resolve() == _PACKAGE:
            names = (Path(str(file)) for file in installed.files or ())
            yield from (
                Path(str(installed.locate_file(name))) for name in names if name.parts[-2:] == ("bin", "opbridge")
            )
    builds = _PACKAGE.parents[1].glob("build/*/opbridge")
    yield from sorted(builds, key=lambda path: path.stat().st_mtime, reverse=True)


def main() -> None:
    """Becomes the command, whose parts in Python run in this interpreter."""
    program = next((path for path in _programs() if path.is_file() and os.access(path, os.X_OK)), None)
    if program is None:
        print(f"opbridge: the program opbridge was not found for the package in {_PACKAGE}", file=sys.stderr)
        sys.exit(2)
    os.environ["OPBRIDGE_PYTHON"] = sys.executable
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
