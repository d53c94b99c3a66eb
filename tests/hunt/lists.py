"""Idioms of loops whose steps data count, and of lists whose length data decide; ``hunt.idioms`` says how they are
written."""

from __future__ import annotations

import itertools

_ITEMS = (  # CASE stands for a test of the item ``t`` and the number ``k``, ADD for what it adds to the list ``o``
    "o = [{f2}[0]]\nfor k, t in enumerate({f2}):\n    if CASE:\n        ADD\n{new} = torch.stack(o)",
    "o = [{f2}[0] * 2]\nfor k in range({f2}.shape[0]):\n    t = {f2}[k]\n    if CASE:\n        ADD\n    else:\n"
    "        o.append(t)\n{new} = torch.cat(o)",
    "o = [{f2}[0]]\nfor k, t in enumerate({f2}[{f2}[:, 0] > {c}]):\n    if CASE:\n        continue\n    ADD\n"
    "{new} = torch.stack(o)",
    "o = [{f2}[0]]\nfor k in range(3):\n    t = {f2}[0] * k\n    if CASE:\n        ADD\n    if len(o) > 2:\n"
    "        break\n{new} = torch.stack(o).sum(0) * len(o)",
    "o, k, t = [{f2}[0]], 0, {f2}[0]\nwhile k < 3 and t.sum() < 9:\n    k += 1\n    t = t + 1\n    if CASE:\n"
    "        ADD\n{new} = torch.stack(o) + len(o)",
)
_CASES = ("t.sum() > {c}", "t[0] > {c} and k > 0", "not t.max() < {c2}", "(t > {c}).sum() % 2 == 0")
_ADDED = ("o.append(t * k)", "o += [t, -t]", "o.append(o[-1] + t)", "o = [*o, t + 1]", "o.insert(0, t * 2)")
_NUMBERS = (
    "o = [0]\nfor k in range({f2}.shape[0]):\n    if {f2}[k].sum() > {c}:\n        o.append(k)\n{new} = {f2}[o]",
    "o = [1.0]\nfor row in {f2}:\n    if row[0] > {c}:\n        o.append(row[0].item())\n"
    "{new} = torch.tensor(o) + len(o)",
    "o, last = [0], -9.0\nfor k, row in enumerate({f2}):\n    if row[0] > last:\n        o.append(k + 1)\n"
    "        last = row[0]\n{new} = torch.tensor(o) * max(o) + sum(o)",
)
_COUNTS = (
    "{new} = {x}\nfor k in range(int(({x} > {c}).sum()) % 4):\n    {new} = {new} * 2 + k",
    "h = {x}.sum()\nfor found in {x}[{x} > {c}]:\n    h = h + found * h\n    if h > 9:\n        break\n{new} = h",
    "h = {x}.sum()\nfor k, found in enumerate({x}[{x} > {c}]):\n    h = h * 0.5 + found * k\n{new} = h",
    "o = [{x}.sum()]\nfor found in torch.unique(({x} > {c}) + 2 * ({x} > {c2})):\n"
    "    o.append(({x} > found).sum() * {x}.mean())\n{new} = torch.stack(o)",
    "{new} = {x}.clone()\nfor k in ({x}.flatten() > {c}).nonzero().squeeze(1):\n    {new}.view(-1)[k] = k",
    "k = 0\nwhile k < ({x} > {c}).sum():\n    k += 2\n{new} = {x} + k",
    "h = {x}.flatten()[:1]\nfor k in range(3):\n    h = torch.cat([h, {x}[{x} > k * {c}]])\n{new} = h",
    "h = {f2}[:1]\nfor row in {f2}:\n    if row.sum() > {c}:\n        h = torch.cat([h, row[None] * h.shape[0]])\n"
    "{new} = h",
    "h = {x}.flatten()\nwhile h.numel() > 1 and h.sum() > {c}:\n    h = h[h < h.max()] * 0.5\n{new} = h.sum()",
    "h, k = {x}.flatten().sort().values, 0\nwhile len(h) > 0 and k < 4:\n    h, k = h[(h - h[0]).abs() > {c2}], k + 1\n"
    "{new} = {x} * k",
    "a, b = [{x}], [{x} * 2]\nfor k in range(3):\n    if {x}.sum() > k:\n        a, b = b, a\n    a.append({x} * k)\n"
    "{new} = torch.stack(a).sum(0) - torch.stack(b).mean(0)",
)

LISTS = (
    *(
        item.replace("CASE", case).replace("ADD", added)
        for item, case, added in itertools.product(_ITEMS, _CASES, _ADDED)
    ),
    *_NUMBERS,
    *_COUNTS,
)
