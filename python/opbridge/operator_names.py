"""The parts of an operator's name: ``aten::add.Tensor`` is the overload ``Tensor`` of the stem ``add`` in ``aten``."""

from __future__ import annotations


def name_in(schema: str) -> str:
    """The name in a schema line: ``aten::add.Tensor`` in ``aten::add.Tensor(Tensor self, …``."""
    return schema.partition("(")[0]


def namespace(name: str) -> str:
    return name.partition("::")[0]


def without_overload(name: str) -> str:
    return name.partition(".")[0]


def stem(name: str) -> str:
    return without_overload(name.rpartition("::")[2])
