"""Idioms that write to tensors which the model holds, registered or not, and read them; ``hunt.idioms`` says how they
are written."""

from __future__ import annotations

import itertools

_MADE = ("torch.ones(2, 2)", "torch.ones(2, 2) * 0.5", "1 * torch.ones(2, 2)", "1 * torch.arange(4.0).view(2, 2)")
_WRITES = (
    "{layer}.mul_({g}.sum())",
    "{layer} += {g}.mean()",
    "{layer}.add_(1)",
    "{layer}[0] = {g}.sum()",
    "{layer}.view(-1)[1:].add_({g}.sum())",
    "{layer}.copy_({layer} * {g}.sum())",
    "{layer}.t()[1].fill_({c})",
    "row = {layer}[0]\nrow.mul_({g}.sum())",
    "{layer}[{layer} > {g}.sum()] = 3.0",
    "torch.add({layer}[0], {g}.sum(), out={layer}[1])",
    "for row in {layer}:\n    row.sub_({g}.sum())",
    "{layer}.clamp_(max={k}).data.add_({g}.sum())",
)
_READS = (
    "{new} = {layer} * 2",
    "{new} = ({layer} * 2 > {c}).nonzero()",
    "{new} = {x} + 1 if ({layer} * 2).sum() > {c} else {x} - 1",
    "{new} = {x} * int(({layer} + 1).sum().clamp(-9, 9))",
    "{new} = {x} * {layer}[0, 1].item()",
    "{new} = ({layer} / 2)[{layer}.to(torch.float64) > {c}]",
    "{new} = {x} + ({layer} - 1).unique().numel()",
    "{new} = {layer}.flatten()[({layer} + 0).argmax()]",
)

HELD = tuple((made, f"{write}\n{read}") for made, write, read in itertools.product(_MADE, _WRITES, _READS))
