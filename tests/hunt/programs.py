"""Programs: modules of 3 to 30 statements, each of which PyTorch has run when it was drawn."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
from collections.abc import Iterator
from typing import Any

import torch

from hunt.case import PREAMBLE, Case, Settings
from hunt.eager import DefinedOnly
from hunt.forms import Form, draw_form, draw_return
from hunt.idioms import draw_idiom
from hunt.runs import other_run, other_values
from hunt.settings import draw_settings, simpler_settings
from hunt.statements import DEFINITIONS, Scope, draw_statement
from hunt.tensors import TensorSpec, draw_dtype, draw_size, draw_tensor, simpler_specs
from hunt.transforms import draw_transform

LARGEST = 400  # most elements of a tensor
DTYPES = (torch.float32,) * 6 + (
    torch.float64,
    torch.float16,
    torch.int64,
    torch.int64,
    torch.int32,
    torch.bool,
    torch.uint8,
)
KINDS = ("plain", "plain", "plain", "plain", "normal", "few", "special")
IDIOM_SHARE = 0.4
LONGEST_TRANSFORMED = 6  # statements, with dynamic sizes
SEEDED = "torch.manual_seed(0)"


@dataclasses.dataclass(frozen=True)
class Program:
    seed: str
    init: tuple[str, ...]
    statements: tuple[str, ...]
    returned: tuple[str, ...]
    runs: tuple[tuple[TensorSpec, ...], ...]
    settings: Settings
    form: Form | None = None
    returning: str = ""  # instead of a tuple
    transform: str = ""  # a function of hunt.transforms, of the program and its tensors

    def case(self) -> Case:
        text = "\n".join(self.statements)
        used = tuple(made for name, made in DEFINITIONS.items() if f"{name}.apply" in text)
        body = [line for statement in self.statements for line in statement.split("\n")]
        body.append(f"return {self.returning or ', '.join(self.returned)}")
        if self.transform:
            tensors = ", ".join(f"x{i}" for i in range(len(self.runs[0])))
            body = [f"def program({tensors}):", *(f"    {line}" for line in body)]
            body.append(f"return transforms.{self.transform}(program, {tensors})")
        return Case(self.seed, "program", self.init, tuple(body), self.runs, self.settings, used, self.form)

    def simpler(self) -> Iterator[Program]:
        """Simpler programs."""
        count = len(self.statements)
        for length in (count // 2, count // 4):
            for start in range(0, count, length) if length > 1 else ():
                yield self._without(range(start, start + length))
        for index in reversed(range(count)):
            yield self._without(range(index, index + 1))
            yield from self._with_simpler_statement(index)
        if self.transform:
            yield dataclasses.replace(self, transform="")
        if self.form is not None or self.returning:
            yield dataclasses.replace(self, form=None, returning="")
            yield dataclasses.replace(self, returning="")
        elif len(self.returned) > 1:
            for name in self.returned:
                yield dataclasses.replace(self, returned=(name,))
        for index in range(len(self.init)):
            yield dataclasses.replace(self, init=(*self.init[:index], *self.init[index + 1 :]))
        yield from self._simpler_settings()
        if len(self.runs) == 1:
            for index, spec in enumerate(self.runs[0]):
                for simpler in simpler_specs(spec):
                    yield dataclasses.replace(
                        self, runs=((*self.runs[0][:index], simpler, *self.runs[0][index + 1 :]),)
                    )

    def _without(self, removed: range) -> Program:
        kept = tuple(statement for i, statement in enumerate(self.statements) if i not in removed)
        return dataclasses.replace(self, statements=kept)

    def _with_simpler_statement(self, index: int) -> Iterator[Program]:
        """The body of a branch or a loop instead of the statement, and the statement without each of its lines."""
        lines = self.statements[index].split("\n")
        proposals = []
        if lines[0].endswith(":"):
            proposals.append([line.removeprefix("    ") for line in lines[1:] if not line.endswith("else:")])
        proposals += [lines[:i] + lines[i + 1 :] for i in range(len(lines))] if len(lines) > 1 else []
        for proposal in proposals:
            statements = (*self.statements[:index], "\n".join(proposal), *self.statements[index + 1 :])
            yield dataclasses.replace(self, statements=statements)

    def _simpler_settings(self) -> Iterator[Program]:
        for settings, runs in simpler_settings(self.settings, self.runs):
            yield dataclasses.replace(self, settings=settings, runs=runs)


def draw_program(seed: int) -> Program | None:
    rng = random.Random(f"program:{seed}")
    inputs = [_input(rng) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
    settings = draw_settings(rng, inputs, export_share=0.4, dynamic_share=0.45)
    runs = [tuple(inputs)]
    runs += [other_run(rng, inputs, settings) for _ in range(3)] if settings.dynamic else [other_values(rng, inputs)]
    spaces = [_space(run) for run in (runs if settings.dynamic else runs[:1])]
    scope = Scope(rng, spaces[0], settings.dynamic is not None)
    init, statements = [SEEDED], []
    form = draw_form(rng, len(inputs))
    for space in spaces:
        for line in form.changes if form is not None else ():
            exec(line, space)
    # torch takes minutes for long programs with symbolic sizes.
    wanted = rng.choice((3, 5, 8, 8, 12, 12) if settings.dynamic else (3, 5, 8, 8, 12, 12, 18, 30))
    for _ in range(6 * wanted):
        if len(statements) >= wanted:
            break
        scope.init = []
        before = [dict(space) for space in spaces]
        block_share = 0.02 if settings.dynamic else 0.08  # a loop over a size fixes it
        statement = _drawn(scope, block_share)
        if statement and all(_runs(space, [*scope.init, statement]) for space in spaces):
            init += scope.init
            statements.append(statement)
        else:
            for space, old in zip(spaces, before, strict=True):
                space.clear()
                space.update(old)
    if len(statements) < 3:
        return None
    if _depends_on_layout(statements):
        # An ONNX model does not depend on memory layout; it holds for inputs with the layout of the example.
        is_plain = all(spec.is_plain for spec in runs[0])
        runs[1:] = [tuple(spec.plain() for spec in run) for run in runs[1:]] if is_plain else []
    returned = tuple(_returned(scope))
    returning = draw_return(rng, returned)
    drawn = Program(f"program:{seed}", tuple(init), tuple(statements), returned, tuple(runs), settings, form, returning)
    # Derivatives of long programs with symbolic sizes take torch minutes.
    if settings.dynamic is not None and len(statements) > LONGEST_TRANSFORMED:
        return drawn
    return dataclasses.replace(drawn, transform=draw_transform(seed, inputs, "\n".join(statements)))


# Whether their result is a view depends on the layout, and with it what a later write changes.
_VIEWS_OR_COPIES = re.compile(r"\.(reshape|flatten|ravel|contiguous)\(|torch\.(reshape|flatten|ravel)\(")
_WRITES = re.compile(r"\w_\(|\] [-+*/]?= |^\w+ [-+*/]= |out=", re.MULTILINE)


def _depends_on_layout(statements: list[str]) -> bool:
    text = "\n".join(statements)
    return "strided" in text or bool(_VIEWS_OR_COPIES.search(text) and _WRITES.search(text))


def _drawn(scope: Scope, block_share: float) -> str:
    """Empty where the idiom that was drawn does not fit."""
    if scope.rng.random() < block_share:
        return _block(scope)
    if scope.rng.random() >= IDIOM_SHARE:
        return draw_statement(scope)
    try:
        return draw_idiom(scope)
    except Exception:  # no tensor of so many dims
        return ""


def _space(run: tuple[TensorSpec, ...]) -> dict[str, Any]:
    """The variables of a program before its first statement, for one run."""
    space: dict[str, Any] = {}
    exec(PREAMBLE, space)
    for definition in DEFINITIONS.values():
        exec(definition, space)
    torch.manual_seed(0)
    space["self"] = torch.nn.Module()
    return space | {f"x{i}": spec.make() for i, spec in enumerate(run)}


def _input(rng: random.Random) -> TensorSpec:
    size = draw_size(rng, rng.choice((1, 2, 2, 3, 3, 4)))
    size = tuple(max(n, 1) if rng.random() < 0.97 else n for n in size)
    return draw_tensor(rng, draw_dtype(rng, DTYPES), size, KINDS, memory=rng.random() < 0.2, overlapping=False)


def _block(scope: Scope) -> str:
    """A branch on sizes or a loop over them."""
    rng = scope.rng
    head = rng.choice(
        (
            f"if {scope.size()} > {rng.randint(0, 4)}:",
            f"if {scope.size()} == {scope.size()}:",
            f"for i in range({scope.size()}):",
            f"for i in range({rng.randint(0, 3)}):",
        )
    )
    body = []
    for _ in range(rng.randint(1, 2)):
        line = draw_statement(scope)
        # Within a block, a new value is assigned to an existing variable.
        target = scope.any()
        line = re.sub(r"^v\d+ = ", f"{target} = ", line)
        if head.startswith("for") and "[" in line and rng.random() < 0.5:
            line = re.sub(r"\[[^\[\]]*\]", "[i]", line, count=1)
        body += [f"    {part}" for part in line.split("\n")]
    if head.startswith("if") and rng.random() < 0.4:
        body += [
            "else:",
            *(f"    {part}" for part in re.sub(r"^v\d+ = ", f"{scope.any()} = ", draw_statement(scope)).split("\n")),
        ]
    return "\n".join([head, *body])


def _runs(space: dict[str, Any], lines: list[str]) -> bool:
    """Whether PyTorch runs the lines; ``space`` gets the variables that they assign."""
    try:
        with torch.no_grad(), DefinedOnly():
            for line in lines:
                exec(line, space)
    except Exception:
        return False
    space["self"].eval()
    for name, value in list(space.items()):
        if isinstance(value, torch.Tensor) and (value.numel() > LARGEST or value.dim() > 6 or value.is_complex()):
            return False
        if name.startswith("n") and type(value) is int and abs(value) > 1000:
            return False
    with contextlib.suppress(KeyError):
        del space["_"]
    return True


def _returned(scope: Scope) -> list[str]:
    names = [name for name in scope.tensors() if name.startswith("v")] or scope.tensors()
    chosen = {names[-1], *scope.rng.sample(names, min(len(names), scope.rng.randint(0, 3)))}
    return [name for name in names if name in chosen]
