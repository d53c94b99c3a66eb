"""Idioms: statements that are common in models of vision, language and time series.

A statement is a text with names in braces, each of which is drawn once (``_Drawn``). A pair begins with a module of
``__init__``, which the statement calls ``{layer}``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import torch

from hunt.decisions import DECISIONS
from hunt.held import HELD
from hunt.kept import KEPT
from hunt.lists import LISTS
from hunt.loops import LOOPS
from hunt.padding import PADDING
from hunt.parts import PARTS
from hunt.statements import DTYPES, NUMBERS, Scope

Idiom = str | tuple[str, str]

INDEXING: tuple[Idiom, ...] = (
    "{new} = {x2}[:, {indices}]",
    "{new} = {x2}[{indices}, {indices2}]",
    "{new} = {x2}[{indices}[:, None], {indices2}]",
    "{new} = {x3}[{indices}, :, {indices2}]",
    "{new} = {x3}[:, {indices}, {indices2}]",
    "{new} = {x3}[0, {indices}]",
    "{new} = {x2}[..., {indices}]",
    "{new} = {x2}[None, {indices}, 1:]",
    "{new} = {x2}[1:, {indices}]",
    "{new} = {x}[[0, -1]]",
    "{new} = {x2}[:, [0, -1]]",
    "{new} = {x2}[torch.arange({x2}.size(0)), {x2}.argmax(1)]",
    "{new} = {x2}[torch.arange({x2}.size(0))[:, None], {x2}.argsort(1)]",
    "{new} = {x}[torch.arange({x}.size(0)).flip(0)]",
    "{new} = {x2}[range({x2}.size(0)), {x2}.argmax(1)]",
    "{new} = {x}[list(range({x}.size(0) - 1, -1, -1))]",
    "{new} = {x2}[:, range(0, {x2}.size(1), 2)] + sum(range({x2}.size(1)))",
    "{x2}[range({x2}.size(0)), -1] = {c}",
    "{new} = torch.tensor([[i, {c}] for i in range({x}.size(0))]) + len(range({n}))",
    "{new} = {x}[torch.arange({n}) % {x}.size(0)]",
    "{new} = {x}[{any} > {c}]",
    "{new} = {x}[{x} > {c}].sum()",
    "{new} = {x2}[{x2}[:, 0] > {c}].sum(0)",
    "{new} = {x2}[:, {x2}[0] > {c}].sum(1)",
    "{new} = {x}[{x}.isnan().logical_not()].mean()",
    "{x}[{x} > {c}] = {c2}",
    "{x}[{x} > {c}] += {c2}",
    "{x}[{x} < {c}] = {x}[{x} < {c}] * 2",
    "{x2}[{x2}[:, 0] > {c}] = {c2}",
    "{x2}[{x2} > {c}] = {any}[{any} > {c}].sum().to({x2}.dtype)",
    "{x2}[:, {indices}] = {c}",
    "{x2}[{indices}, {indices2}] = {c}",
    "{x2}[{indices}] *= 2",
    "{x3}[:, {indices}, 1:] = {c}",
    "{x2}[torch.arange({x2}.size(0)), 0] = {c}",
    "{x2}[{indices}, :1] = {x2}[{indices}, -1:].clone()",
    "{new} = {x}.index_put(({indices},), torch.tensor({c}, dtype={x}.dtype), accumulate=True)",
    "{new} = {x2}.index_put((torch.tensor([0]), {indices}), {x2}[0, 0], accumulate=True)",
    "{new} = {x2}.gather(1, {x2}.argsort(dim=1, stable=True))",
    "{new} = torch.take_along_dim({x2}, {x2}.argmax(1, keepdim=True), 1)",
    "{new} = {x}.scatter({a}, {x}.argmax({a}, keepdim=True), {c})",
    "{new} = torch.zeros_like({x}).scatter_({a}, {x}.argmax({a}, keepdim=True), 1)",
    "{new} = {x2}.scatter_add(0, torch.zeros_like({x2}, dtype=torch.int64), {x2})",
    "{new} = {x2}.scatter_reduce(0, torch.zeros_like({x2}, dtype=torch.int64), {x2}, {reduce}, include_self={flag})",
    "{new} = {x}.index_add(0, {indices}, {x}.index_select(0, {indices}), alpha=2)",
    "{new} = torch.zeros({n}, dtype={x}.dtype).index_add(0, {x}.flatten().long() % {n}, {x}.flatten())",
    "{new} = {x}.index_reduce(0, {indices}, {x}.index_select(0, {indices}), {mean})",
    "{new} = {x}.take(torch.tensor([0, -1, 1]))",
    "{new} = {x}.masked_scatter({x} > {c}, {x}.flip(0))",
    "{new} = {x}.masked_fill(torch.ones_like({x}).bool().triu(1), {c})",
    "{new} = ({x} > {c}).nonzero().sum(0)",
    "{new} = ({x} > {c}).nonzero(as_tuple=True)[0]",
    "{new} = torch.where({x} > {c})[0].numel() + {x}",
    "{new} = torch.where({x} > {c}, 1.0, 0.0)",
    "{new} = torch.where({x} > {c}, {x}, {c2})",
    "{new} = torch.where({x2} > {c}, {x2}, {x2}.new_zeros(1))",
    "{new} = torch.where({any}.bool(), {x}, torch.tensor({c}))",
    "{new} = {x}.where({x} > {c}, torch.tensor({c2}, dtype=torch.float64))",
    "{new} = {x}.index_fill({a}, {indices}, {c})",
    "{new} = {x}.select_scatter({x}.select({a}, 0) * 2, {a}, -1)",
    "{new} = {x}.slice_scatter({x}.narrow({a}, 0, 1), {a}, 0, 1)",
    "{new} = {x2}.diagonal_scatter({x2}.diagonal() + 1)",
    "{new} = {x}.unique(return_inverse=True)[1]",
    "{new} = torch.unique_consecutive({x}.flatten(), return_counts=True)[1].sum()",
    "{new} = torch.searchsorted({x}.sort().values, {x}, right={flag})",
    "{new} = torch.bincount({x}.flatten().long().abs() % 7, minlength={n})",
    "{new} = {x}.repeat_interleave(torch.tensor([1, 2])[: {x}.size(0)], 0)",
)

SHAPES: tuple[Idiom, ...] = (
    "{new} = {x}.view({x}.shape[0], -1)",
    "{new} = {x3}.reshape({x3}.shape[0] * {x3}.shape[1], *{x3}.shape[2:])",
    "{new} = {x}.reshape(*{x}.shape[:-1], 1, {x}.shape[-1])",
    "{new} = {x}.unflatten(-1, (-1, {x}.shape[-1]))",
    "{new} = {x2}.reshape({x2}.shape[0], 2, {x2}.shape[1] // 2, *{x2}.shape[2:]).transpose(1, 2)",
    "{new} = {x3}.transpose(1, 2).reshape({x3}.shape[0], -1, {x3}.shape[1])",
    "{new} = {x2}.view(-1, {x2}.size(-1)).t().contiguous().view({x2}.size(-1), -1)",
    "{new} = {x}.new_zeros({x}.shape)",
    "{new} = {x}.new_full(({n}, 2), {c})",
    "{new} = {x}.new_tensor([1, {c}])",
    "{new} = {x}.new_ones({n}, dtype={dtype})",
    "{new} = {x}.new_empty({x}.shape).fill_({c})",
    "{new} = torch.full_like({x}, {c})",
    "{new} = torch.full({x}.shape[:1], {c}, dtype={dtype})",
    "{new} = F.pad({x}, (0, -{x}.shape[-1] % 4))",
    "{new} = F.pad({x}, (0, {n} - 1), value=-1.0)",
    "{new} = F.pad({x2}, (0, 0, {n}, 0))[..., :-1, :]",
    "{new} = F.pad({x}, (1, {n} - {x}.size(-1)))",
    "{new} = {x}.split([1, {x}.size(0) - 1])[1]",
    "{new}, {new2} = {x}.split([{x}.size(-1) // 2, {x}.size(-1) - {x}.size(-1) // 2], dim=-1)",
    "{new}, {new2} = {x}.chunk(2, dim=-1)",
    "{new}, *_ = {x}.unbind({a})",
    "{new} = torch.cat([part * i for i, part in enumerate({x}.split(2, {a}))], {a})",
    "{new} = torch.cat((-{x}[..., {x}.shape[-1] // 2 :], {x}[..., : {x}.shape[-1] // 2]), dim=-1)",
    "{new} = torch.stack(({x}[..., ::2], {x}[..., 1::2]), dim=-1).flatten(-2)",
    "{new} = torch.cat([{x}[:1].expand({n}, *{x}.shape[1:]), {x}])",
    "{new} = torch.stack([{x}.sum(), {x}.mean(), {x}.max()])",
    "{new} = {x2}[:, : {n}].sum(1)",
    "{new} = {x}[: {x}.size(0) - 1] - {x}[1:]",
    "{new} = {x}[-{n} :]",
    "{new} = {x}[{n} - 1 :: 2]",
    "{new} = {x}.roll({n}, {a})",
    "{new} = {x}.roll((1, -1), (0, -1))",
    "{new} = {x}.repeat({n}, *[1] * ({x}.dim() - 1))",
    "{new} = {x}.tile(2)",
    "{new} = {x}.expand(2, -1, *{x}.shape[1:])",
    "{new} = {x}[None].expand({n}, *[-1] * {x}.dim()).flatten(0, 1)",
    "{new} = {x}.unsqueeze(1).repeat_interleave({k}, 1).flatten(0, 1)",
    "{new} = {x}.unfold(-1, {k}, {k})",
    "{new} = {x}.movedim(0, -1).squeeze()",
    "{new} = {x}.squeeze((0, -1))",
    "{new} = {x}.sum({a}, keepdim=True).expand_as({x})",
    "{new} = {x} - {x}.mean({a}, keepdim=True)",
    "{new} = {x} / {x}.size({a})",
    "{new} = {x} * {n} + {n2}",
    "{new} = {x} / {x}.shape[-1] ** 0.5",
    "{new} = {x} * {x}.numel()",
    "{new} = {x} + len({x}) / max({x}.shape)",
    "{new} = torch.tensor({x}.shape).prod() + {x}",
    "{new} = torch.tensor([{n}, {x}.size(-1)]) * 2",
    "{new} = torch.arange({n}, device={x}.device)[None, :] < torch.tensor([1, 2])[:, None]",
    "{new} = torch.arange(1, {n}, 2, dtype={x}.dtype)",
    "{new} = torch.arange({n} - 1, -1, -1)",
    "{new} = torch.arange(0, {n}, 0.5)",
    "{new} = torch.arange({n})[:, None] - torch.arange({n2})[None, :]",
    "{new} = torch.triu(torch.ones({n}, {n}), diagonal=1).bool()",
    "{new} = torch.tril(torch.ones({n}, {n2}, dtype=torch.bool))",
    "{new} = torch.full(({n}, {n}), -inf).triu(1)",
    "{new} = torch.eye({n}, {n2})",
    "{new} = torch.outer(torch.arange({n}), 1.0 / 10 ** (torch.arange(0, 4, 2) / 4)).cos()",
    "{new} = torch.linspace(-1, 1, steps={n})",
    "{new} = torch.meshgrid(torch.arange({n}), torch.arange({n2}), indexing={indexing})[1]",
    "{new} = torch.zeros({n}, {n2}).masked_fill(torch.ones({n}, {n2}).tril() == 0, {c})",
    "{new} = torch.cartesian_prod(torch.arange({n}), torch.arange(2))",
    "{new} = torch.block_diag({x}.flatten()[None], torch.eye({n}))",
    "{new} = torch.diag_embed({x})",
    "{new} = torch.broadcast_tensors({x}, {any})[0]",
    "{new} = torch.atleast_3d({x})",
    "{new} = torch.hstack([{x}, {x}])",
    "{new} = torch.rot90({x2})",
    "{new} = torch.tensor_split({x}, (1, {n}), {a})[1]",
    "{new} = {x}.as_strided(({x}.size(0), 1), ({x}.stride(0), 1))",
    "{new} = {x2}.as_strided(({x2}.size(0) - 1, 2), {x2}.stride()[:2])",
)

TYPES: tuple[Idiom, ...] = (
    "{new} = {x} + torch.tensor({c})",
    "{new} = {x} * torch.tensor({c}, dtype={dtype})",
    "{new} = torch.tensor({c}, dtype={dtype}) - {any}",
    "{new} = {x} / torch.tensor(3)",
    "{new} = {x} + {any}.sum()",
    "{new} = {x} * {any}.max()",
    "{new} = {x} // {any}.sum().clamp(min=1)",
    "{new} = torch.add({x}, {any}, alpha=2)",
    "{new} = torch.sub({x}, {any}, alpha=0.5)",
    "{new} = torch.div({x}, {any}, rounding_mode={rounding})",
    "{new} = torch.true_divide({x}, {any})",
    "{new} = torch.float_power({x}, 2)",
    "{new} = torch.pow({x}, torch.tensor(2))",
    "{new} = 2 ** {x}",
    "{new} = 1 / {x}",
    "{new} = True + {x}",
    "{new} = ~({x} > {c}) & ({any} != 0)",
    "{new} = {x}.bool() | {any}.bool()",
    "{new} = {x}.sum(dtype={dtype})",
    "{new} = {x}.cumsum({a}, dtype={dtype})",
    "{new} = {x}.cumprod({a})",
    "{new} = {x}.prod({a}, dtype={dtype})",
    "{new} = {x}.mean({a}, dtype=torch.float64)",
    "{new} = {x}.softmax({a}, dtype=torch.float64)",
    "{new} = {x}.to({any})",
    "{new} = {x}.to({any}.dtype).sum()",
    "{new} = {x}.type({dtype})",
    "{new} = {x}.to(dtype={dtype}, copy=True)",
    "{new} = {x}.to('cpu', {dtype}, non_blocking=True)",
    "{new} = {x}.double().add_({any}).float()",
    "{new} = torch.finfo({float}.dtype).eps + {float}",
    "{new} = {float}.masked_fill({float} < {c}, torch.finfo({float}.dtype).min).softmax(-1)",
    "{new} = {x}.clamp(min=torch.tensor({c}))",
    "{new} = {x}.clamp(max={any})",
    "{new} = {x}.clamp_min({n})",
    "{new} = torch.maximum({x}, torch.tensor({c}, dtype={x}.dtype))",
    "{new} = {x}.round(decimals=1)",
    "{new} = ({x} * 10).round() / 10",
    "{new} = {x}.abs().sqrt().rsqrt()",
    "{new} = torch.heaviside({x}, {x}.new_tensor({c}))",
    "{new} = torch.copysign({x}, {any})",
    "{new} = torch.isclose({x}, {any})",
    "{new} = torch.eq({x}, {any}).all()",
    "{new} = torch.allclose({x}, {x}) * {x}",
    "{new} = {x}.isfinite().float().mean()",
    "{new} = {x}.logical_and({any})",
    "{new} = torch.stack([{x}.float(), {x}.float().exp()]).half()",
    "{new} = torch.cat([{x}, {x}.bool()], {a})",
    "{new} = torch.where({x} > 0, {x}.half(), {x}.double())",
    "{new} = {x}.int() >> 1",
    "{new} = {x}.long() << 2",
    "{new} = {x}.long() % {n}",
    "{new} = -{x}",
    "{new} = abs({x}) ** {float}.mean()",
    "{new} = {x}.to(torch.bfloat16).float()",
    "{new} = {x}.requires_grad_(False).data * 2",
    "{x} += torch.tensor({c})",
    "{x} *= {any}.sum()",
    "{x} /= 2",
    "{x} -= {x}.amax()",
    "{x} **= 2",
    "{x}.add_({any}.sum(), alpha=2)",
    "{x}.div_({any}.abs().max() + 1)",
    "{x}.clamp_(min=0)",
    "{x}.sub_({x}.float().mean())",
)

VIEWS: tuple[Idiom, ...] = (
    "{new} = {x}[0]\n{new}[..., 0] += 1",
    "{new} = {x2}[1:]\n{new}[:, 0] = {c}",
    "{new} = {x}.view(-1)\n{new}[1:3].mul_(2)",
    "{new} = {x2}.transpose(0, 1)\n{new}[0].fill_({c})",
    "{new} = {x2}[..., ::2]\n{new}[..., 0].zero_()",
    "for row in {x}:\n    row.add_(1)",
    "for i in range({x}.size(0)):\n    {x}[i] = {x}[i] * i",
    "{new}, {new2} = {x}.chunk(2, {a})\n{new}.mul_(2)\n{new2}.copy_({new})",
    "{x}.unbind({a})[-1].zero_()",
    "{x2}.diagonal().fill_({c})",
    "{x2}.diagonal()[1:] += {c}",
    "torch.add({x}[0], {c}, out={x}[-1])",
    "torch.mul({x2}[:, 0], 2, out={x2}[:, 1])",
    "{new} = {x}.detach()\n{new} += 1",
    "{new} = {x}.flatten()\n{new}[0] = {c}",
    "{new} = {x}.contiguous()\n{new}[0] = {c}",
    "{new} = {x}.reshape(-1)\n{new} *= 2\n{new2} = {x} + 1",
    "{new} = {x}.squeeze()\n{new}.add_(1)\n{new2} = {x} * 2",
    "{new} = {x}.unsqueeze(0)[:, 1:]\n{new} -= {c}",
    "{new} = {x}.to({dtype})\n{new}.add_(1)",
    "{new} = {x}.float()\n{new}[..., -1] = {c}",
    "{new} = {x}.expand(2, *{x}.shape).clone()\n{new}[0] = {c}",
    "{new} = {x}[:]\n{new}[0], {new}[-1] = {new}[-1].clone(), {new}[0].clone()",
    "{new} = {x}.clone()\n{new}[{slice}] = {x}[{slice}] + 1",
    "{new} = torch.empty_like({x}, dtype=torch.float32)\n{new}[:] = {x}",
    "{new} = torch.zeros({n}, {n2})\n{new}[: {x}.size(0), :1] = 1",
    "{new} = {x}.new_zeros({x}.size(0), {n})\n{new}[:, : {n} // 2] = 1\n{new}[0] = {c}",
    "{new} = {x2}.mT\n{new}[..., 0, :] = {c}",
    "{new} = {x}.view_as({x})\n{new}.sigmoid_() if {new}.is_floating_point() else {new}.neg_()",
    "{x2}[:, 1:] = {x2}[:, :-1].clone()",
    "{x2}[1:] -= {x2}[:-1].clone()",
    "{x}[..., -1:].copy_({x}[..., :1])",
    "{x}.narrow({a}, 0, 1).index_fill_(0, torch.tensor([0]), {c})",
    "{x2}[:, 0].masked_fill_({x2}[:, -1] > {c}, {c2})",
    "{x2}.transpose(0, 1)[0].scatter_(0, torch.tensor([0]), {c})",
    "{x2}.t_()\n{x2}[0] = {c}",
    "{x}.unsqueeze_(0)\n{x}[:, 0] = {c}",
    "{x}.swapaxes_(0, -1)",
    "{new} = {x}.split(1, {a})\n{new}[0].add_({c})\n{new} = {new}[-1] * 1",
    "{new} = {x2}.permute(1, 0, *range(2, {x2}.dim())).contiguous().view(-1)\n{new}[0] = {c}",
    "{new} = {x}.as_strided((2,), (1,))\n{new}.add_(1)",
    "{new} = {x2}.unfold(-1, 2, 2)\n{new}[..., 0] = {c}",
    "{new} = {x}.narrow({a}, -1, 1)\n{x}.zero_()\n{new2} = {new} + 1",
    "{new} = {x}.clone()\n{new2} = {new}[0]\n{new} += 1\n{new2}.mul_(2)",
    "{x}.set_({any})",
    "{x}.data = {x}.data * 2",
    "{x}.data[0] = {c}",
    "{x}.swapdims_(0, {a})\n{new} = {x}.sum(0)",
    "{x}.resize_as_({x})",
    "{x}.copy_({any}[0])",
    "{x}[None] = {c}",
    "{x}[True] = {c}",
    "{x}[()] = {c}",
    "{x}[..., None, :1] = {c}",
    "{x2}[:1, :] = {x2}.sum(0, keepdim=True)",
    "{x}.put_(torch.tensor([0, 1]), torch.tensor([1, 2], dtype={x}.dtype), accumulate={flag})",
    "{x2}.fill_diagonal_({c})",
    "{x2}.triu_()",
    "{x2}.tril_(-1)",
    "{x}.masked_scatter_({x} > {c}, {x}.flatten().flip(0))",
    "{x}.cumsum_({a})",
    "{x}.index_put_((torch.tensor([0, 0]),), {x}[0], accumulate=True)",
    "{x}.__setitem__(0, {c})",
    "{x}[0].add_({x}[-1])",
    "F.relu({x}, inplace=True)",
    "F.hardtanh({x}, inplace=True)\n{new} = {x} * 1",
    "{new} = F.dropout({x}, 0.5, training=False, inplace=True)\n{new}.add_(1)",
)

# Python's control flow, most of which fixes sizes.
CONTROL: tuple[Idiom, ...] = (
    "{new} = {x}[0] * 0\nfor part in {x}:\n    {new} = {new} * 0.5 + part",
    "{new} = 0\nfor part in {x}.split(2, {a}):\n    {new} = {new} + part.sum()",
    "outs = []\nfor i in range({x}.size(0)):\n    outs.append({x}[i] * i)\n{new} = torch.stack(outs)",
    "outs = []\nfor i, part in enumerate({x}.unbind({a})):\n    outs.append(part + i)\n{new} = torch.cat(outs)",
    "{new} = torch.stack([a - b for a, b in zip({x}, {any})])",
    "{new} = {x}\nwhile {new}.size(0) > 1:\n    {new} = {new}[: {new}.size(0) // 2] * 2",
    "{new} = {x}\nfor _ in range({k}):\n    {new} = {new} + {any}\n    {new} = {new} * 0.5",
    "if {x}.dim() == {k}:\n    {new} = {x}.sum()\nelse:\n    {new} = {x}.mean({a})",
    "if {x}.dtype == torch.float32 and {x}.numel() > 2:\n    {new} = {x} * 2\nelse:\n    {new} = {x} + 1",
    "if {x}.shape == {any}.shape:\n    {new} = {x} + {any}\nelse:\n    {new} = {x} - 1",
    "if {x}.size(0) > {n}:\n    {new} = {x}[: {n}]\nelse:\n    {new} = {x}",
    "{new} = {x} if {x}.is_floating_point() else {x}.float()",
    "{new} = {x} if {n} % 2 else -{x}",
    "try:\n    {new} = {x}.view(2, -1)\nexcept RuntimeError:\n    {new} = {x}.flatten()",
    "try:\n    {new} = {x}[2]\nexcept IndexError:\n    {new} = {x}[0]",
    "try:\n    {new} = {x} + {any}\nexcept RuntimeError:\n    {new} = {x} * 2",
    "try:\n    {new} = torch.cat([{x}, {any}], {a})\nexcept (RuntimeError, IndexError):\n    {new} = {x} - 1",
    "try:\n    {new} = {x}.unfold({a}, 2, 1)\nexcept RuntimeError:\n    {new} = {x}.unsqueeze(-1)",
    "{new} = {x}.sum()\nif {x}.shape[-1] % 2 == 0:\n    {new} = {new} + 1",
    "assert {x}.size(0) > 0\n{new} = {x} + 1",
    "{new} = sum({x}.unbind({a}))",
    "{new} = max(({x}, {x} * 2), key=lambda t: t.dim())",
    "{new} = (lambda a, b=2: a * b)({x})",
    "{new} = {{'a': {x}, 'b': {any}}}['a'] * 2",
    "{new} = [{x}, {any}][-1] + 1",
    "{new}, {new2} = ({x}, {x} + 1) if {n} > 2 else ({x} + 1, {x})",
    "*lead, last = {x}.shape\n{new} = {x}.reshape(-1, last) * len(lead)",
    "{new} = {x}.reshape([-1] + list({x}.shape[1:]))",
    "{new} = torch.zeros(tuple({x}.shape)[::-1])",
)

MATHEMATICS: tuple[Idiom, ...] = (
    "{new}, {new2} = {x}.sort(dim={a}, descending=True, stable=True)",
    "{new}, {new2} = {x}.max({a})",
    "{new} = {x}.topk(min(2, {x}.size({a})), {a}).values",
    "{new} = {x}.kthvalue(1, {a}).values",
    "{new} = torch.einsum('i...,i...->i...', {x}, {x})",
    "{new} = torch.einsum('ij,kj->ik', {m2}, {m2})",
    "{new} = torch.einsum('bij,bkj->bik', {m3}, {m3})",
    "{new} = torch.einsum('bij->bji', {m3})",
    "{new} = torch.einsum('bii->bi', {m3}[:, :1, :1])",
    "{new} = torch.einsum('...ij->...', {x2})",
    "{new} = torch.einsum('i,j->ij', {x}.flatten()[:3], {x}.flatten()[:2])",
    "{new} = torch.einsum({x2}, [0, ...], [..., 0])",
    "{new} = torch.matmul({x2}, {x2}.mT)",
    "{new} = {x2}.mT @ {x2}",
    "{new} = {x2} @ {x2}.new_ones({x2}.size(-1))",
    "{new} = torch.tensordot({x2}, {x2}, dims=([-1], [-1]))",
    "{new} = torch.baddbmm({m3}[:, :, :1], {m3}, {m3}.transpose(1, 2), beta=0.5, alpha=2)",
    "{new} = torch.addmm({m2}[:, :1], {m2}, {m2}.t(), beta=2)",
    "{new} = torch.kron({x}.flatten()[:2], {x}.flatten()[:3])",
    "{new} = torch.cdist({m2}, {m2})",
    "{new} = torch.linalg.norm({x}.float(), dim={a})",
    "{new} = torch.linalg.vector_norm({x}.float(), ord=1, dim={a}, keepdim=True)",
    "{new} = {x}.float().norm()",
    "{new} = {x}.float().renorm(2, 0, 1.0)",
    "{new} = {x}.std(unbiased=False)",
    "{new} = {x}.var({a}, correction=0, keepdim=True)",
    "{new} = torch.std_mean({x}, {a})[1]",
    "{new} = torch.aminmax({x}).max",
    "{new} = {x}.nansum({a})",
    "{new} = {x}.nanmean({a})",
    "{new} = {x}.quantile(0.5, dim={a})",
    "{new} = {x}.nanmedian()",
    "{new} = {x}.logcumsumexp({a})",
    "{new} = {x}.diff(dim={a})",
    "{new} = torch.gradient({x})[0]",
    "{new} = torch.trapezoid({x})",
    "{new} = torch.histc({float}.float(), 4, -2, 2)",
    "{new} = {x}.argsort(dim={a}, stable=True)",
    "{new} = {x}.cummin({a}).indices",
    "{new} = {x}.any({a}, keepdim=True)",
    "{new} = torch.cond({x}.sum() > {c}, lambda a: a[1:] * 2, lambda a: a[:-1] - 1, ({x},))",
    "{new} = torch.cond({x}.size(0) > {n}, lambda a: a + 1, lambda a: a - 1, ({x},))",
    "{new} = torch.cond({x}.max() > {c}, lambda a, b: a + b, lambda a, b: a * 1.0, ({x}, {any}))",
    "_, {new} = while_loop(lambda i, a: (i < 3) & (a.sum() < 9), lambda i, a: (i + 1, a * 2), (torch.tensor(0), {x}))",
    "{new}, _ = scan(lambda c, a: (c * 0.5 + a, c.clone()), {x}[0].clone(), {x})",
    "_, {new} = scan(lambda c, a: (c + a, (c * a).sum()), {x}[0].clone(), {x}, reverse=True)",
    "{new} = torch.vmap(lambda a: a * 2 + a.sum())({x})",
)

LAYERS: tuple[Idiom, ...] = (
    ("nn.Linear({last}, {out})", "{new} = {layer}({f})"),
    ("nn.Linear({last}, {last})", "{new} = {f} + {layer}({layer}({f}).relu())"),
    ("nn.Linear({last}, {last})", "{new} = F.linear({f}, {layer}.weight.t(), {layer}.bias * 2)"),
    (
        "nn.Linear({last}, {out})",
        "{new} = torch.func.functional_call({layer}, {{'weight': {layer}.weight * 2}}, ({f},))",
    ),
    ("nn.Sequential(nn.Linear({last}, {out}), nn.ReLU(inplace=True), nn.Dropout(0.1))", "{new} = {layer}({f})"),
    (
        "nn.ModuleList([nn.Linear({last}, {last}) for _ in range(2)])",
        "{new} = {f}\nfor m in {layer}:\n    {new} = m({new})",
    ),
    ("nn.ModuleDict({{'a': nn.Identity(), 'b': nn.Tanh()}})", "{new} = {layer}['b']({layer}['a']({f}))"),
    ("nn.ParameterList([nn.Parameter(torch.ones({last})) for _ in range(2)])", "{new} = {f} * {layer}[0] + {layer}[1]"),
    ("nn.Bilinear({last}, {last}, {out})", "{new} = {layer}({f}, {f})"),
    ("nn.PReLU()", "{new} = {layer}({f})"),
    ("nn.PReLU({second})", "{new} = {layer}({f2})"),
    ("nn.LayerNorm({last}, elementwise_affine={flag})", "{new} = {layer}({f})"),
    ("nn.utils.parametrizations.weight_norm(nn.Linear({last}, {out}))", "{new} = {layer}({f})"),
    ("nn.Embedding(5, {out}, padding_idx=0)", "{new} = {layer}({x}.abs().long() % 5)"),
    ("nn.Embedding(5, {out}, max_norm=1.0)", "{new} = {layer}({x}.abs().long() % 5)"),
    ("nn.Embedding(5, {out})", "{new} = {layer}(torch.arange({n}).clamp(max=4))"),
    ("nn.Embedding(5, {out})", "{new} = {layer}({x}.abs().long() % 5) @ {layer}.weight.t()"),
    ("nn.EmbeddingBag(5, {out}, mode={bag})", "{new} = {layer}({x2}.flatten(1).abs().long() % 5)"),
    ("nn.EmbeddingBag(5, 2, mode={bag})", "{new} = {layer}({x}.flatten().abs().long() % 5, torch.tensor([0, 1]))"),
    ("nn.Conv1d({second}, {out}, {k}, padding={pad}, dilation={k2}, stride={k3})", "{new} = {layer}({f3})"),
    ("nn.Conv1d({second}, {second}, 3, padding='same', groups={second})", "{new} = {layer}({f3})"),
    ("nn.Conv1d({second}, {out}, 3, padding=1, padding_mode={padding})", "{new} = {layer}({f3})"),
    ("nn.Conv2d({second}, {out}, ({k}, {k2}), padding={pad}, dilation={k3}, bias={flag})", "{new} = {layer}({f4})"),
    ("nn.Conv2d({second}, {second}, {k}, groups={second}, padding='same')", "{new} = {layer}({f4})"),
    ("nn.Conv2d({second}, {out}, 3, padding=1, padding_mode={padding})", "{new} = {layer}({f4})"),
    ("nn.ConvTranspose2d({second}, {out}, {k}, stride=2, padding={pad}, output_padding=1)", "{new} = {layer}({f4})"),
    ("nn.ConvTranspose2d({second}, {second}, 2, groups={second})", "{new} = {layer}({f4}, output_size=None)"),
    ("nn.ConvTranspose1d({second}, {out}, 3, dilation=2)", "{new} = {layer}({f3})"),
    ("nn.Conv2d({second}, {out}, 1)", "{new} = {layer}({f4}.to(memory_format=torch.channels_last))"),
    ("nn.Parameter(torch.randn(2, {second}, 2))", "{new} = F.conv1d({f3}, {layer} * 2, padding=1)"),
    ("nn.BatchNorm2d({second}, affine=False)", "{new} = {layer}({f4})"),
    ("nn.BatchNorm1d({second}, track_running_stats=False)", "{new} = {layer}({f3})"),
    ("nn.InstanceNorm2d({second}, affine={flag})", "{new} = {layer}({f4})"),
    ("nn.InstanceNorm1d({second}, track_running_stats=True)", "{new} = {layer}({f3})"),
    ("nn.GroupNorm({second}, {second})", "{new} = {layer}({f3})"),
    ("nn.LocalResponseNorm(2)", "{new} = {layer}({f3})"),
    ("nn.LSTM({last}, {out}, num_layers=2, bidirectional=True)", "{new}, ({new2}, _) = {layer}({g3})"),
    ("nn.LSTM({last}, {out}, batch_first=True)", "{new}, (h, c) = {layer}({g3})\n{new2}, _ = {layer}({g3}, (h, c))"),
    ("nn.LSTM({last}, 4, proj_size=2)", "{new}, _ = {layer}({g3})"),
    ("nn.GRU({last}, {out}, bidirectional=True)", "{new}, {new2} = {layer}({g3}, torch.ones(2, {g3}.size(1), {out}))"),
    ("nn.RNN({last}, {out}, nonlinearity='relu', bias=False)", "{new}, _ = {layer}({g3})"),
    ("nn.LSTMCell({last}, {out})", "{new}, {new2} = {layer}({g2})"),
    ("nn.GRUCell({last}, {out})", "{new} = {layer}({g2}, torch.zeros({g2}.size(0), {out}))"),
    (
        "nn.GRUCell({last}, {last})",
        "{new} = torch.zeros_like({g3}[0])\nfor t in range({g3}.size(0)):\n    {new} = {layer}({g3}[t], {new})",
    ),
    ("nn.MultiheadAttention({last}, {last})", "{new}, {new2} = {layer}({g3}, {g3}, {g3}, average_attn_weights=False)"),
    (
        "nn.MultiheadAttention({last}, 1, batch_first=True)",
        "{new}, _ = {layer}({g3}, {g3}, {g3}, attn_mask=torch.ones({g3}.size(1), {g3}.size(1)).triu(1).bool())",
    ),
    (
        "nn.MultiheadAttention({last}, 1, add_zero_attn=True, bias=False, batch_first=True)",
        "{new}, {new2} = {layer}({g3}, {g3}, {g3}, key_padding_mask={g3}[..., 0] > 9)",
    ),
    ("nn.TransformerEncoderLayer({last}, 1, 4, batch_first=True, norm_first={flag})", "{new} = {layer}({g3})"),
    ("nn.TransformerDecoderLayer({last}, 1, 4, 0.0, activation='gelu')", "{new} = {layer}({g3}, {g3} * 0.5)"),
    "{new} = F.scaled_dot_product_attention({g3}, {g3}, {g3}, is_causal=True)",
    "{new} = F.scaled_dot_product_attention({g4}, {g4}, {g4}, scale=0.3)",
    "{new} = F.scaled_dot_product_attention({g3}, {g3}, {g3}, attn_mask={g3} @ {g3}.mT > -9)",
    "{new} = F.scaled_dot_product_attention({g3}, {g3}, {g3}, attn_mask=torch.full(({g3}.size(1),) * 2, -inf).triu(1))",
    "{new} = F.scaled_dot_product_attention({g4}, {g4}[:, :1], {g4}[:, :1], enable_gqa=True)",
    "{new} = ({g3} @ {g3}.transpose(-2, -1) / {g3}.size(-1) ** 0.5).softmax(-1) @ {g3}",
    "{new} = F.max_pool2d({g4}, {k}, {k2}, ceil_mode={flag})",
    "{new} = F.max_pool2d({g4}, 2, 1, 1, dilation={k})",
    "{new}, {new2} = F.max_pool2d({g4}, {k}, return_indices=True)",
    "{new} = F.max_unpool2d(*F.max_pool2d({g4}, 2, return_indices=True), 2)",
    "{new} = F.avg_pool2d({f4}, {k}, {k2}, ceil_mode={flag}, count_include_pad={flag2})",
    "{new} = F.avg_pool2d({f4}, 3, 2, 1, {flag}, {flag2})",
    "{new} = F.avg_pool2d({f4}, 2, divisor_override=3)",
    "{new} = F.avg_pool1d({f3}, {k}, stride={k2}, padding={pad}, ceil_mode={flag})",
    "{new} = F.lp_pool2d({f4}.abs(), 2, {k})",
    "{new} = F.adaptive_avg_pool2d({f4}, ({k}, None))",
    "{new} = F.adaptive_avg_pool1d({f3}, {k})",
    "{new} = F.adaptive_max_pool2d({g4}, {k})",
    "{new} = F.interpolate({g4}, scale_factor={scale}, mode={mode}, recompute_scale_factor={flag})",
    "{new} = F.interpolate({g4}, scale_factor={scale}, mode='bilinear', align_corners={flag})",
    "{new} = F.interpolate({g4}, size=({n}, {n2}), mode='bilinear', antialias={flag})",
    "{new} = F.interpolate({g4}, size={f4}.shape[-2:][::-1], mode={mode})",
    "{new} = F.interpolate({g3}, scale_factor={scale}, mode='linear', align_corners={flag})",
    "{new} = F.interpolate({g4}, ({f4}.size(2) * 2, {f4}.size(3) + 1), mode='bicubic', align_corners={flag})",
    "{new} = F.grid_sample({g4}, F.affine_grid(torch.eye(2, 3)[None].expand({g4}.size(0), -1, -1), {g4}.shape))",
    "{new} = F.grid_sample({g4}, {g4}.new_zeros({g4}.size(0), 2, 2, 2), padding_mode={gridpad}, align_corners={flag})",
    "{new} = F.unfold({f4}, {k}, dilation={k2}, padding={pad}, stride={k3})",
    "{new} = F.fold(F.unfold({f4}, 2), {f4}.shape[-2:], 2)",
    "{new} = F.pixel_shuffle({f4}.repeat(1, 4, 1, 1), 2)",
    "{new} = F.pixel_unshuffle({f4}, {k})",
    "{new} = F.channel_shuffle({f4}, {f4}.size(1))",
    "{new} = F.pad({f3}, ({pad}, 1), mode='replicate')",
    "{new} = F.pad({f4}, (1, {pad}, 0, 1), mode={padmode})",
    "{new} = F.pad({f4}, (-1, 1, {pad}, 0), value={c})",
    "{new} = F.instance_norm({f3})",
    "{new} = F.batch_norm({f3}, None, None, training=True)",
    "{new} = F.group_norm({f3}, 1)",
    "{new} = F.rms_norm({f}, ({f}.size(-1),))",
    "{new} = F.layer_norm({f2}, {f2}.shape[1:])",
    "{new} = F.normalize({f}, p=1, dim=0)",
    "{new} = F.cosine_similarity({f}, {f}.flip(0), dim=-1)",
    "{new} = F.pairwise_distance({f}, {f} * 2, keepdim={flag})",
    "{new} = F.glu({f})",
    "{new} = F.gelu({f}, approximate='tanh')",
    "{new} = F.softplus({f}, beta=2, threshold=1)",
    "{new} = F.leaky_relu({f}, {c})",
    "{new} = F.threshold({f}, 0.1, {c})",
    "{new} = F.hardshrink({f}) + F.softsign({f}) + F.tanhshrink({f})",
    "{new} = F.softmin({f}, dim=-1)",
    "{new} = F.mse_loss({f}, {f} * 2, reduction={reduction})",
    "{new} = F.smooth_l1_loss({f}, {f}.flip(0), beta=0.5, reduction={reduction})",
    "{new} = F.cross_entropy({f2}.flatten(1), {f2}.flatten(1).argmax(1), label_smoothing=0.1, reduction={reduction})",
    "{new} = F.nll_loss({f2}.flatten(1).log_softmax(1), torch.zeros({f2}.size(0)).long(), ignore_index=0)",
    "{new} = F.binary_cross_entropy_with_logits({f}, torch.ones_like({f}))",
    "{new} = F.kl_div({f}.log_softmax(-1), {f}.softmax(-1), reduction='batchmean')",
    "{new} = F.one_hot({x}.abs().long() % 3).sum()",
    "{new} = F.one_hot({x}.long().clamp(0, 3), num_classes=4).transpose(0, -1)",
    "{new} = nn.functional.upsample({f4}, scale_factor=2)",
    "{new} = torch.stft({g}.flatten().repeat(8), 4, return_complex=True, window=torch.ones(4)).abs()",
    "{new} = torch.fft.rfft({g}).abs()",
    "{new} = torch.view_as_real(torch.view_as_complex({f}.flatten()[:4].reshape(2, 2)) * 1j)",
)

CACHES: tuple[Idiom, ...] = (
    ("torch.zeros(8, {last})", "{layer}[: {g2}.size(0)] = {g2}\n{new} = {layer}.sum(0)"),
    ("torch.zeros(8, {last})", "{layer}.index_copy_(0, torch.arange({g2}.size(0)), {g2})\n{new} = {layer}[: {n}]"),
    ("torch.zeros({last})", "{layer} = torch.cat([{layer}, {g2}[0]])\n{new} = {layer}.mean()"),
    ("torch.zeros(4, 8)", "{layer}[:, 0] += {f}.mean()\n{layer} = {layer}.roll(1, 1)\n{new} = {layer} * 2"),
    ("torch.zeros(4)", "{layer}[{n} % 4] = {f}.sum()\n{new} = {layer}.cumsum(0)"),
    ("torch.arange(12.0).view(3, 4)", "{new} = {layer}[: {n}, None] + {c}"),
    ("torch.arange(12.0).view(3, 4)", "{new} = {layer}.mul_({c}).t()"),
    ("torch.arange(12.0).view(3, 4)", "{new} = {layer}[:, : {n}]\n{new} += 1"),
    ("torch.tensor(0)", "{layer} += 1\n{new} = {x} * {layer}"),
    ("torch.tensor(0)", "{new} = {x} + {layer}\n{layer} = {layer} + {x}.size(0)"),
    ("torch.ones(2, 2).bool()", "{layer} &= {x}.sum() > {c}\n{new} = {layer}.float()"),
    ("torch.arange(8)", "{new} = {layer}[: {x}.size(0)] * 2"),
    ("torch.arange(8)[None]", "{new} = {layer}[:, : {n}].expand({n2}, -1)"),
    ("torch.ones(6, 6).tril()", "{new} = {layer}[: {x}.size(0), : {x}.size(-1)].bool()"),
)

FAMILIES: tuple[tuple[tuple[Idiom, ...], int], ...] = (
    (INDEXING, 10),
    (SHAPES, 10),
    (TYPES, 8),
    (VIEWS, 9),
    (CONTROL, 4),
    (MATHEMATICS, 7),
    (LAYERS, 9),
    (CACHES, 2),
    (PADDING, 2),
    (LOOPS, 2),
    (DECISIONS, 2),
    (LISTS, 2),
    (PARTS, 2),
    (HELD, 2),
    (KEPT, 2),
)

_WORDS = {
    "flag": ("True", "False"),
    "reduce": ("'sum'", "'mean'", "'amax'", "'prod'"),
    "mean": ("'mean'", "'amin'", "'prod'"),
    "rounding": ("'floor'", "'trunc'"),
    "indexing": ("'ij'", "'xy'"),
    "bag": ("'sum'", "'mean'", "'max'"),
    "padding": ("'zeros'", "'reflect'", "'replicate'", "'circular'"),
    "padmode": ("'reflect'", "'replicate'", "'circular'"),
    "gridpad": ("'zeros'", "'border'", "'reflection'"),
    "mode": ("'nearest'", "'nearest-exact'", "'bilinear'", "'bicubic'", "'area'"),
    "reduction": ("'none'", "'mean'", "'sum'"),
    "scale": ("2", "0.5", "1.5", "(2, 1)", "(0.5, 2.5)"),
    "pad": ("0", "1", "1", "2"),
    "dtype": DTYPES,
    "c": NUMBERS,
    "indices": ("torch.tensor([0, -1])", "torch.tensor([1, 0, 0])", "torch.tensor([0])", "torch.tensor(0)", "[0, 1]"),
}
_DISTINCT = ("torch.tensor([0, -1])", "torch.tensor([1, 0])", "torch.tensor([0])")


class _Drawn(Mapping[str, str]):
    """The values of the names in an idiom; a digit at the end of a name distinguishes names of the same kind.

    ``x`` is any tensor, ``x2`` one of two dims or more; ``f``, ``f3`` are float32, with as many dims exactly;
    ``g`` is ``f`` without what is not finite; ``m2``, ``m3`` have as many dims.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.known: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self.known:
            self.known[name] = self._draw(name)
        return self.known[name]

    def __iter__(self) -> Any:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)

    def _draw(self, name: str) -> str:
        s, rng = self.scope, self.scope.rng
        kind, digit = name.rstrip("23456789"), name[-1:] if name[-1:].isdigit() else ""
        drawers: dict[str, Callable[[], str]] = {
            "new": s.new,
            "x": lambda: s.with_dims(int(digit or 1)),
            "any": s.any,
            "float": s.floating,
            "f": lambda: self._float32(int(digit or 0)),
            "g": lambda: f"{self['f' + digit]}.nan_to_num(0, 1, -1).clamp(-9, 9)",
            "m": lambda: self._of_dims(int(digit)),
            "a": lambda: str(s.axis(self._subject())),
            "slice": lambda: s.index(self._subject()),
            "n": s.size,
            "k": lambda: str(rng.randint(1, 3)),
            "out": lambda: str(rng.randint(1, 4)),
            "last": lambda: str(self._sizes()[-1]),
            "second": lambda: str(self._sizes()[1]),
        }
        return drawers[kind]() if kind in drawers else rng.choice(_WORDS[kind])

    def _subject(self) -> str:
        return next((text for name, text in self.known.items() if name.rstrip("23") == "x"), None) or self["x"]

    def _float32(self, dims: int) -> str:
        s = self.scope
        floats = [name for name in s.tensors() if s.space[name].dtype == torch.float32]
        fitting = [name for name in floats if s.space[name].dim() == dims or not dims]
        if fitting:
            return s.rng.choice(fitting[-5:])
        return f"{s.floating()}.float(){_reshaped(s.rng, dims)}"

    def _of_dims(self, dims: int) -> str:
        s = self.scope
        fitting = [name for name in s.tensors() if s.space[name].dim() == dims]
        return s.rng.choice(fitting[-5:]) if fitting else s.any() + _reshaped(s.rng, dims)

    def _sizes(self) -> tuple[int, ...]:
        """The sizes of the layer's input."""
        subject = next(text for name, text in self.known.items() if name.rstrip("234") in ("f", "g"))
        with torch.no_grad():
            shape: tuple[int, ...] = tuple(eval(subject, dict(self.scope.space)).shape)
        return shape


def _reshaped(rng: random.Random, dims: int) -> str:
    """A reshape to this many dims, from any number of dims."""
    return f".reshape({', '.join([*('1' if rng.random() < 0.7 else '2' for _ in range(dims - 1)), '-1'])})"


def draw_idiom(s: Scope) -> str:
    """Draws an idiom. Raises an error if the existing tensors do not fit."""
    weights = [1 if family is CONTROL and s.is_dynamic else weight for family, weight in FAMILIES]
    idiom = s.rng.choice(s.rng.choices([family for family, _ in FAMILIES], weights)[0])
    drawn = _Drawn(s)
    if isinstance(idiom, str):
        return idiom.format_map(drawn)
    made, statement = idiom
    s.count += 1
    name = f"m{s.count}"
    drawn.known["layer"] = f"self.{name}"
    text = statement.format_map(drawn)
    made = made.format_map(drawn)
    s.init.append(f'self.register_buffer("{name}", {made})' if made.startswith("torch.") else f"self.{name} = {made}")
    return text
