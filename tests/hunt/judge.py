"""Judges whether ONNX Runtime's results agree with PyTorch's.

Eager PyTorch is the reference. If a result exceeds torch.testing's tolerances, the same program in float64 is the
referee: the result may be as far from it as eager's own. Results that depend on rounding alone, as when a sum is
compared with its own limit, are found by runs with random rounding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import torch

from checking.tensors import ROUNDED, as_exact
from hunt.case import Case
from hunt.eager import Results, in_float64, rounded_at_random
from hunt.tensors import default_tolerances


@dataclasses.dataclass
class Verdict:
    """``kind`` classifies the difference; empty if there is none."""

    kind: str = ""
    detail: str = ""
    undetermined: bool = False  # PyTorch's own result depends on rounding
    by_largest: bool = False  # right if the case is right in float64


class Referee:
    """Further runs of eager PyTorch, which are made only if they are needed."""

    def __init__(self, case: Case, run: int, names: list[str]) -> None:
        self.case, self.run, self.names = case, run, names
        self._exact: Any = self
        self._samples: list[list[torch.Tensor]] | None = None

    def exact(self) -> list[torch.Tensor] | None:
        if self._exact is self:
            self._exact = self._flat(in_float64(self.case, self.run))
        return self._exact

    def samples(self) -> list[list[torch.Tensor]]:
        if self._samples is None:
            made = (self._flat(results) for results in rounded_at_random(self.case, self.run))
            self._samples = [leaves for leaves in made if leaves is not None]
        return self._samples

    def _flat(self, results: Results | None) -> list[torch.Tensor] | None:
        if results is None or any(name not in results.after for name in self.names):
            return None
        return results.leaves + [results.after[name] for name in self.names]


def judge(
    actual: list[torch.Tensor],
    expected: list[torch.Tensor],
    referee: Referee,
    random: bool,
    complex_outputs: Collection[int] = (),
) -> Verdict:
    """If the numbers are ``random``, only element types and shapes are compared.

    ``complex_outputs`` are the indices of the outputs that hold complex numbers as pairs.
    """
    if len(actual) != len(expected):
        return Verdict("count of outputs", f"{len(actual)} outputs, PyTorch returns {len(expected)}")
    verdict = Verdict()
    for index, (a, e) in enumerate(zip(actual, expected, strict=True)):
        if random and a.dtype == e.dtype and a.shape == e.shape:
            continue
        one = _judge_output(index, a, e, referee, index in complex_outputs)
        if one.kind:
            return dataclasses.replace(one, detail=f"output {index}: {one.detail}")
        verdict.undetermined |= one.undetermined
        verdict.by_largest |= one.by_largest
    return verdict


def _judge_output(index: int, a: torch.Tensor, e: torch.Tensor, referee: Referee, is_complex: bool) -> Verdict:
    if a.dtype != e.dtype:
        return Verdict("element type", f"{a.dtype}, PyTorch gives {e.dtype}")
    if a.shape != e.shape:
        kind = _samples_vary(index, e, referee)
        return (
            Verdict(undetermined=True)
            if kind
            else Verdict("shape", f"{tuple(a.shape)}, PyTorch gives {tuple(e.shape)}")
        )
    near = _near(a, e)
    if is_complex:
        near |= _near_as_complex(a, e)
    if bool(near.all()):
        return Verdict()
    exact = referee.exact()
    wide = exact[index] if exact is not None and index < len(exact) and exact[index].shape == e.shape else None
    if wide is not None:
        if not e.is_floating_point():
            near |= a == wide
        elif e.dtype in ROUNDED:
            if as_exact(a, e, wide):
                return Verdict()
            if _no_farther_at_worst(a, e, wide):
                return Verdict(by_largest=True)
    if bool(near.all()):
        return Verdict()
    determined = _outside_samples(index, a, e, wide, referee) & ~near
    if wide is not None and e.dtype in ROUNDED:
        # PyTorch is infinitely far from the exact number if an intermediate result overflows.
        determined &= e.isfinite() | ~wide.to(e.dtype).isfinite()
    if not bool(determined.any()):
        return Verdict(undetermined=True)
    return Verdict("values", _first(a, e, wide, determined))


def _near(a: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    same = a == e
    if not e.is_floating_point():
        return same
    rtol, atol = default_tolerances(e.dtype)
    x, y = a.double(), e.double()
    close = ((x - y).abs() <= atol + rtol * y.abs()) & y.isfinite()
    return same | close | (a.isnan() & e.isnan())


def _near_as_complex(a: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    """Compares the magnitude of the difference, as torch.testing does for complex numbers."""
    rtol, atol = default_tolerances(e.dtype)
    x, y = a.double(), e.double()
    close = (x - y).norm(dim=-1, keepdim=True) <= atol + rtol * y.norm(dim=-1, keepdim=True)
    return close.expand(e.shape) & y.isfinite().all(-1, keepdim=True)


def _no_farther_at_worst(a: torch.Tensor, e: torch.Tensor, wide: torch.Tensor) -> bool:
    ours, eager = (t.double() - wide.double() for t in (a, e))
    alike = (a == e) | (a.isnan() & e.isnan())
    ours, eager = ours.abs().masked_fill(alike, 0), eager.abs().masked_fill(alike & ~eager.isfinite(), 0)
    return bool(ours.isfinite().all() and eager.isfinite().all() and ours.max() <= 4 * eager.max())


def _samples_vary(index: int, e: torch.Tensor, referee: Referee) -> bool:
    return any(index >= len(leaves) or leaves[index].shape != e.shape for leaves in referee.samples())


def _outside_samples(
    index: int, a: torch.Tensor, e: torch.Tensor, wide: torch.Tensor | None, referee: Referee
) -> torch.Tensor:
    """Elements of the result outside the range of the runs with random rounding, widened by twice their spread."""
    if _samples_vary(index, e, referee):
        return torch.zeros_like(e, dtype=torch.bool)
    others = [leaves[index] for leaves in referee.samples()] + ([wide] if wide is not None else [])
    stack = torch.stack([t.double() if e.is_floating_point() else t.to(e.dtype) for t in [e, *others]])
    if not e.is_floating_point():
        return (stack == stack[:1]).all(0)
    if bool((stack.isnan().any(0) != stack.isnan().all(0)).any()):
        stack = stack.nan_to_num(torch.inf, torch.inf, -torch.inf)
    low, high = stack.amin(0), stack.amax(0)
    rtol, atol = default_tolerances(e.dtype)
    x = a.double()
    slack = (
        torch.where((high - low).isfinite(), 2 * (high - low), 0) + atol + rtol * e.double().abs().nan_to_num(0, 0, 0)
    )
    inside = (x >= low - slack) & (x <= high + slack) & (x.isfinite() | (low == -torch.inf) | (high == torch.inf))
    return ~(inside | (x.isnan() & ((high == torch.inf) | (low == -torch.inf)) & (high != low)))


def _first(a: torch.Tensor, e: torch.Tensor, wide: torch.Tensor | None, wrong: torch.Tensor) -> str:
    index = wrong.nonzero()[0].tolist()
    where = tuple(index)
    text = f"{a[where].item()!r} at {index}, PyTorch gives {e[where].item()!r}"
    if wide is not None and e.is_floating_point():
        text += f", in float64 {wide[where].item()!r}"
    return f"{text}; {int(wrong.sum())} of {e.numel()} elements differ"
