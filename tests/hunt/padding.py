"""Idioms of padding and cropping, as around windows; ``hunt.idioms`` says how they are written."""

from __future__ import annotations

_PADS = "p, q = -{x2}.size(-1) % 3, -{x2}.size(-2) % 2\n{new} = {x2}\n"
_KEPT = _PADS + "padded = p > 0 or q > 0\nif padded:\n    {new} = F.pad({new}, (0, p, 0, q))\n{new2} = {new}\n"

PADDING = (
    "p = -{x2}.size(-1) % 4\n{new} = {x2}\nif p > 0:\n    {new} = F.pad({new}, (0, p))",
    "p = -{x2}.size(-1) % 2\n{new} = {x2}\nif p:\n    {new} = F.pad({new}, (0, p, 0, 0), value={c})",
    "p = 4 - {x2}.size(-1)\n{new} = {x2}\nif p > 0:\n    {new} = F.pad({new}, (p, 0))",
    "{new} = {x2}\nif {new}.size(-1) % 3 != 0:\n    {new} = F.pad({new}, (0, 3 - {new}.size(-1) % 3))",
    "{new} = {x2}\nif {new}.size(-1) % 2 == 1:\n    p = (0, 2 - {new}.size(-1) % 2)\n    {new} = F.pad({new}, p)",
    "p = -{x2}.size(0) % 3\n{new} = {x2}\n{new} = F.pad({new}, [0, 0] * ({new}.dim() - 1) + [0, p]) if p else {new}",
    _PADS + "if p > 0 or q > 0:\n    {new} = F.pad({new}, (0, p, 0, q))",
    _PADS + "if p > 0 and q > 0:\n    {new} = F.pad({new}, (0, p, 0, q))",
    _PADS + "if not (p == 0 and q == 0):\n    {new} = F.pad({new}, (0, p, 0, q))",
    _PADS + "if p or q:\n    {new} = F.pad({new}, (0, p, 0, q))\n    {new} = {new}[..., : {x2}.size(-1)]",
    _KEPT + "if padded:\n    {new2} = {new2}[..., : {x2}.size(-2), : {x2}.size(-1)]",
    _KEPT + "if padded:\n    {new2} = {new2}[..., : {x2}.size(-2), : {x2}.size(-1)].contiguous()",
    _KEPT + "if padded:\n    {new2} = {new2}[..., 1:]",
    _KEPT + "{new2} = {new2} + p",
    "{new} = {x2}\nif {new}.size(-1) > 3:\n    {new} = {new}[..., :3]",
    "{new} = {x2}\nif {new}.size(0) > 2:\n    {new} = {new}[:2].contiguous()",
    "{new} = {x2}\nif {new}.size(-1) != 4:\n    {new} = {new}[..., :4]",
)
