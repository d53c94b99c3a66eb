"""Idioms whose loops and branches change what the model keeps in attributes; ``hunt.idioms`` says how they are
written."""

from __future__ import annotations

import itertools

_BLOCKS = (
    "for i in range({x}.size(0)):",
    "for i in range({x}.size(-1) - 1):",
    "for i, row in enumerate({x}):",
    "if {g}.sum() > {c}:\n    i = 2",
    "i = 0\nwhile {g}.mean() * i < {k} and i < 4:\n    i += 1",
)
_TENSORS = ("{layer} = {g}.sum()", "{layer} = {g}.flatten()[:1] * 1", "{layer} = torch.zeros(2)")
_CHANGES_OF_TENSORS = (
    "{layer} = {layer} * 0.5 + {g}.mean()",
    "{layer} += {g}.mean() * i",
    "{layer}.add_(1).mul_(0.5)",
    "{layer} = torch.tanh({layer} + i)",
    "{layer}[...] = {layer} + {g}.sum()",
    "before = {layer}\n    {layer} = before * 0.5\n    before.sub_(1)",
    "if i % 2:\n        {layer} = {layer} + i",
    "for j in range({n}):\n        {layer} = {layer} * 0.5 + j",
)
_READS_OF_TENSORS = (
    "{new} = {x}.sum() * {layer}",
    "{new} = {layer} + 1",
    "{layer}.mul_(2)\n{new} = {layer} - {c}",
    "{new} = {x} + 1 if {layer}.sum() > {c} else {x} - 1",
)
_NUMBERS = ("{layer} = 0", "{layer} = {x}.size(0)", "{layer} = 1.5")
_CHANGES_OF_NUMBERS = ("{layer} += 1", "{layer} *= 2", "{layer} += i", "{layer} = {layer} / 2 + 1", "{layer} -= {n}")
_READS_OF_NUMBERS = ("{new} = {x} * {layer}", "{new} = {x} + (1 if {layer} > 2 else {layer})")
_LISTS = ("{layer} = []", "{layer} = [{g}.mean()]")
_CHANGES_OF_LISTS = (
    "{layer}.append({g}.sum() * i)",
    "{layer}.insert(0, {g}.mean() + i)",
    "{layer}.append({layer}[-1] * 0.5 + i if {layer} else {g}.mean())",
    "{layer} += [{g}.mean(), {g}.sum()]",
    "rows = {layer}\n    rows.append({g}.sum() + len(rows))",
    "if i % 2 == 0:\n        {layer}.append({g}.max())",
    "{layer}.append({g}.mean())\n    {layer} = [*{layer}]",
)
_READS_OF_LISTS = (
    "{new} = torch.stack([{g}.min(), *{layer}])",
    "{layer}.append({g}.min())\n{new} = torch.stack({layer})",
    "{new} = {x} * len({layer})",
    "{new} = {x}.sum() + sum({layer})",
)


def _blocks(begins: tuple[str, ...], changes: tuple[str, ...], reads: tuple[str, ...]) -> list[str]:
    parts = itertools.product(begins, _BLOCKS, changes, reads)
    return [f"{begin}\n{block}\n    {change}\n{read}" for begin, block, change, read in parts]


KEPT = (
    *(("0.0", text) for text in _blocks(_TENSORS, _CHANGES_OF_TENSORS, _READS_OF_TENSORS)),
    *(("0.0", text) for text in _blocks(_NUMBERS, _CHANGES_OF_NUMBERS, _READS_OF_NUMBERS)),
    *(("0.0", text) for text in _blocks(_LISTS, _CHANGES_OF_LISTS, _READS_OF_LISTS)),
    *(("torch.zeros(2)", text) for text in _blocks(("",), _CHANGES_OF_TENSORS, _READS_OF_TENSORS)),
)
