"""What the command draws on a terminal by itself: tables as rich's, in colours, and a line of progress."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from command import IN_THIS_PYTHON, OPBRIDGE, opbridge
from terminal import on_terminal, plain
from test_cli_verify import ENVIRONMENT

import opbridge as package

FACTORY = """
import torch


class Model(torch.nn.Module):
    def forward(self, image):
        return torch.special.airy_ai(image).relu() + image.softmax(1)


def make_model():
    return Model(), (torch.randn(2, 3),)
"""
# Makes the opening of the files slow.* take longer than the delay of the progress line.
SLOW_FILES = """
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  int mode = va_arg(more, int);
  va_end(more);
  if (strstr(path, "slow.")) usleep(1300000);
  return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open64(const char*, int, ...) __attribute__((alias("open")));
"""
BOLD, RED, USUAL = "\x1b[1m", "\x1b[31m", "\x1b[0m"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """script.py; its model as m.pt2, m.onnx and 名.onnx, whose input has a Japanese name; its inputs and outputs."""
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "script.py").write_text(FACTORY)
    space: dict[str, Any] = {}
    exec(FACTORY, space)
    model, args = space["make_model"]()
    torch.export.save(torch.export.export(model, args), folder / "m.pt2")
    package.export(model, args, folder / "m.onnx", output_names=["y"])
    renamed = onnx.load(folder / "m.onnx")
    renamed.graph.input[0].name = "画像の入力"
    for node in renamed.graph.node:
        node.input[:] = ["画像の入力" if name == "image" else name for name in node.input]
    onnx.save(renamed, folder / "名.onnx")
    np.savez(folder / "in.npz", image=args[0].numpy())
    np.savez(folder / "out.npz", y=model(*args).numpy())
    np.savez(folder / "wrong.npz", y=model(*args).numpy() + 1)
    return folder


def drawn(*arguments: Any, columns: int = 80, status: int = 0, **environment: str) -> str:
    environment = {"COLUMNS": str(columns), **ENVIRONMENT, **IN_THIS_PYTHON, **environment}
    return on_terminal([OPBRIDGE, *map(str, arguments)], stream="stdout", status=status, **environment)[0].replace(
        "\r\n", "\n"
    )


def columns_of(line: str) -> int:
    return sum(2 if "\u2e80" <= character <= "\uffef" else 1 for character in line)


def verified(folder: Path, expected: str) -> list[Any]:
    library = next((Path(package.__file__).parent / "lib").glob("libopbridge_ops_ort.so"))
    files = ["--inputs", folder / "in.npz", "--expect", folder / expected, "--ops", library]
    return ["verify", folder / "m.onnx", *files]


def test_the_table_of_doctor(folder: Path) -> None:
    text = drawn("doctor", folder / "m.pt2", "--target", "onnx", status=1)
    lines = text.splitlines()
    assert lines[0] == "m.pt2: 4 operators in 4 calls, to opset 21"
    assert re.fullmatch(r"\x1b\[1moperator +calls   mapping   becomes +run by\x1b\[0m", lines[2])
    assert lines[3] == "─" * len(plain(lines[3]))
    rows = lines[4:8]
    assert [line for line in rows if RED in line] == [f"{RED}aten::special_airy_ai       1   refused{USUAL}"]
    assert "aten::relu                  1   there     Relu      standard ONNX" in rows


def test_a_model_of_a_function_is_drawn_in_the_same_way(folder: Path) -> None:
    for options in ({"columns": 60}, {"columns": 200}, {"NO_COLOR": "1"}, {"TERM": "dumb"}):
        arguments: dict[str, Any] = {"status": 1, **options}
        function = drawn("doctor", f"{folder / 'script.py'}:make_model", "--target", "onnx", **arguments)
        file = drawn("doctor", folder / "m.pt2", "--target", "onnx", **arguments)
        table = slice(1, file.splitlines().index("", 2))
        assert function.splitlines()[table] == file.splitlines()[table]
        assert (BOLD in file, RED in file) == ("TERM" not in options, not {"TERM", "NO_COLOR"} & {*options})


def test_the_table_of_verify_is_that_of_rich(folder: Path) -> None:
    script = (
        "import sys; from opbridge.drawing import drawn_table\n"
        "rows = [line.split('|') for line in sys.argv[1].splitlines()]\n"
        "print(drawn_table(rows, sys.stdout, numbers_from=1, wrong=[True]))"
    )
    for columns in (60, 80):
        table = drawn(*verified(folder, "wrong.npz"), columns=columns, status=1).split("\n\n")[0]
        cells = plain(table).splitlines()[-1].split()
        head = "output|largest difference|relative|cosine|mismatches"
        command = [sys.executable, "-c", script, head + "\n" + "|".join(cells)]
        rich = on_terminal(command, stream="stdout", COLUMNS=str(columns))[0].replace("\r", "")
        assert [line.rstrip() for line in plain(rich).splitlines()] == plain(table).splitlines()
        assert RED in table.splitlines()[-1]
        assert RED in rich.splitlines()[-1]


def test_outputs_that_agree_are_not_red(folder: Path) -> None:
    text = drawn(*verified(folder, "out.npz"))
    assert BOLD in text
    assert RED not in text
    assert text.endswith("\n\nall outputs agree\n")


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_lines_fit_into_the_terminal(columns: int, folder: Path) -> None:
    texts = [
        drawn("inspect", folder / "名.onnx", columns=columns),
        drawn("compare", folder / "m.onnx", folder / "名.onnx", columns=columns, status=1),
        drawn("doctor", folder / "m.pt2", columns=columns),
    ]
    for text in texts:
        lines = plain(text).splitlines()
        head = [line for line in lines if not line.startswith("opbridge's operators:")]
        assert max(map(columns_of, head)) <= columns
        assert any({*line} == {"─"} for line in lines)
    assert "画像の入力   float32[2, 3]" in texts[0]
    assert "- image        float32[2, 3]\n+ 画像の入力   float32[2, 3]" in texts[1]


def test_the_width_is_that_of_the_terminal(folder: Path) -> None:
    assert drawn("doctor", folder / "m.pt2", COLUMNS="") == drawn("doctor", folder / "m.pt2", columns=80)
    assert drawn("doctor", folder / "m.pt2", columns=50) != drawn("doctor", folder / "m.pt2", columns=80)


def test_pipes_get_plain_columns(folder: Path) -> None:
    for arguments in (("inspect", folder / "m.onnx"), ("doctor", folder / "m.pt2")):
        done = opbridge(*arguments, env={"COLUMNS": "40", "FORCE_COLOR": "1"})
        assert "\x1b" not in done.stdout
        assert "─" not in done.stdout


@pytest.fixture(scope="module")
def slow(folder: Path) -> dict[str, str]:
    """The environment in which the command reads the copies slow.* of the files slowly."""
    for name in ("m.pt2", "m.onnx", "in.npz"):
        (folder / f"slow.{name}").write_bytes((folder / name).read_bytes())
    (folder / "slow.c").write_text(SLOW_FILES)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "slow_files.so", "slow.c"], cwd=folder, check=True)
    return {**ENVIRONMENT, "LD_PRELOAD": str(folder / "slow_files.so"), "ASAN_OPTIONS": "verify_asan_link_order=0"}


@pytest.mark.parametrize("command", ["doctor", "inspect", "compare", "verify"])
def test_a_line_of_progress(command: str, folder: Path, slow: dict[str, str]) -> None:
    model, inputs = folder / "slow.m.onnx", folder / "slow.in.npz"
    arguments = {
        "doctor": [folder / "slow.m.pt2"],
        "inspect": [model],
        "compare": [model, model],
        "verify": [*verified(folder, "out.npz")[1:2], "--inputs", inputs, *verified(folder, "out.npz")[4:]],
    }[command]
    line, output = on_terminal([OPBRIDGE, command, *map(str, arguments)], **slow)
    assert re.search(r"\x1b\[Kopbridge: \x1b\[1mreading\x1b\[0m \x1b\[36m\d s\x1b\[0m\r", line)
    assert line.endswith("\x1b[K")
    assert output
    if command == "inspect":
        assert on_terminal([OPBRIDGE, command, str(model)], TERM="dumb", **slow) == ("", output)
