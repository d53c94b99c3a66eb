"""Idioms of loops over an axis, each a head with a step; ``hunt.idioms`` says how they are written."""

from __future__ import annotations

import itertools
import textwrap

_COUNTED = "t = 0\nwhile t < {f2}.size(0):\n    row = {f2}[t]\n"
_HEADS = (  # with what ends a step
    ("for t in range({f2}.size(0)):\n    row = {f2}[t]\n", ""),
    ("for t, row in enumerate({f2}.unbind(0)):\n", ""),
    ("for t in range({f2}.size(0) - 1, -1, -1):\n    row = {f2}[t]\n", ""),
    ("for t in range(1, {f2}.size(0)):\n    row = {f2}[t]\n", ""),
    (_COUNTED, "t += 1"),
    (_COUNTED, "t = t + 2"),
    ("t = 1\nwhile t < {f2}.size(0):\n    row = {f2}[t]\n", "t *= 2"),
    ("t = {f2}.size(0) - 1\nwhile t > 0:\n    row = {f2}[t]\n", "t //= 2"),
)
_STEPS = (  # what precedes the loop, a step, and what follows the loop
    ("h = {f2}[0] * 0", "h = torch.tanh(h + row)", "{new} = h"),
    ("h = 0", "h = h * 0.5 + row * t", "{new} = h + {f2}.sum(0)"),
    ("o = []", "o.append(row * 2)", "{new} = torch.stack(o) if o else {f2} - 1"),
    ("o = [{f2}[-1]]", "o.append(o[-1] * 0.5 + row)", "{new} = torch.stack(o)"),
    ("o = []", "o.append(row + (o[-1] if o else 1))", "{new} = torch.cat(o)"),
    ("o = []", "o.append(row + (o[-1] if len(o) > 0 else 1))", "{new} = torch.stack(o) * len(o)"),
    ("o = [{f2}[0], {f2}[-1]]", "o.append(o[-1] - o[-2] * row)", "{new} = torch.cat(o)"),
    ("o = [{f2}[0]]", "o.append(o[t] + row)", "{new} = torch.stack(o)"),
    ("o = [{f2}[-1]]", "o += [row, o[-1] * {c}]", "{new} = torch.stack(o)"),
    ("o = []", "o.insert(0, row)", "{new} = torch.stack(o, 1)"),
    ("o = [{f2}[0]]", "o.insert(0, o[0] * 0.5 + row)", "{new} = torch.stack(o)"),
    ("o, {new} = [{f2}[0]], 0", "o.append(row)\n{new} = {new} + torch.stack(o).sum(0)", ""),
    ("o = []", "o.append(row)\nif t % 2:\n    o[-1] = row * 2", "{new} = torch.cat(o)"),
    ("o = [None] * {f2}.size(0)", "o[t] = row + t", "{new} = torch.stack(o)"),
    ("o = [0] * {f2}.size(0)", "o[t] = row / len(o) + o[t - 1]", "{new} = torch.stack(o)"),
    (
        "d = {{'a': [], 'b': [{f2}[0]]}}",
        "d['a'].append(row * {c})\nd['b'].append(d['a'][-1] + d['b'][-1])",
        "{new} = torch.stack(d['b']).sum(0) + sum(map(len, d.values()))",
    ),
    ("{new} = {f2}[:1]", "{new} = torch.cat([{new}, row[None] + {new}[-1:]])", ""),
    ("{new} = {f2}[:0]", "{new} = torch.cat([row[None], {new}])", ""),
    ("{new} = {f2}[:1]", "{new} = torch.cat([{new}, {new}.mean(0, keepdim=True) + row])", ""),
    ("{new} = {f2}.clone()", "{new}[t] = {new}[t - 1] + row", ""),
    ("{new} = {f2}.clone()", "if t % 2 == 0:\n    {new}[t] += row", ""),
    ("{new}, k = {f2}[0], 0", "k += 2\n{new} = {new} + row * k", "{new} = {new} * k"),
    ("{new} = {f2}[0]", "{new} = {new} + {f2}[t:].sum(0)", ""),
    ("{new} = {f2}[0]", "{new} = {new} - {f2}[: t + 1].amax(0)", ""),
    ("{new} = {f2}[0]", "{new} = torch.where(row > {c}, row, {new})", ""),
    ("{new} = {f2}.sum(0)", "if t > 0:\n    {new} = {new} * row\nelse:\n    {new} = {new} - row", ""),
    ("{new} = {f2}.sum(0)", "{new} = row if t == 1 else {new} + t", ""),
    ("{new}, last = {f2}[0] * 0, None", "{new} = {new} + (row if last is None else row - last)\nlast = row", ""),
    ("{new}, w = {f2}[0] * 0, 1.0", "{new} = {new} + row * w\nw *= 0.5", "{new} = {new} - w"),
    ("a, b, o = 1.0, 0.5, []", "a, b = b, a + b * {c}\no.append(row * a)", "{new} = torch.stack(o) + b"),
    ("o, w = [], 2.0", "w = w * 0.5 if t % 2 else w + 1\no.append(w)", "{new} = torch.tensor(o)"),
    ("o = []", "o.append([t, 2 * t])", "{new} = torch.tensor(o)"),
    ("o = []", "o.append(row.sum().item())", "{new} = torch.tensor(o)"),
    ("s = 0.0", "s += float(row[0])", "{new} = {f2} * s"),
    ("n = 0", "n += int(row[0] > {c})", "{new} = {f2} * n"),
    ("o = []", "k = int(row[-1] > {c})\no.append({f2}[k] * k)", "{new} = torch.stack(o)"),
    ("o = []", "o.append(row[: int(row[0] > {c}) + 1].sum())", "{new} = torch.stack(o)"),
    ("{new} = {f2}.clone()", "{new}[t, int(row[0] > {c}) :] = {c}", ""),
    (
        "{new}, best = {f2}[0], -1e3",
        "if row.sum() > best:\n    best = row.sum().item()\n    {new} = row + t",
        "{new} = {new} - best",
    ),
    ("{new}, k = {f2}[0], 0", "if row[0] > {c}:\n    k, {new} = k + 1, {new} + row", "{new} = {new} * k"),
    (
        "{new} = {f2}.sum(0)",
        "if t > 0 and {f2}[t - 1, 0] > row[0]:\n    {new} = {new} + row\n"
        "elif (row > {c}).any() or t == 1:\n    {new} *= 2",
        "",
    ),
    ("o, k = [], ({f2}[:, 0] > {c}).long().tolist()", "o.append(row * k[t])", "{new} = torch.stack(o) + sum(k)"),
)


def _written(head: tuple[str, str], step: tuple[str, str, str]) -> str:
    before, body, after = step
    lines = textwrap.indent("\n".join(filter(None, (body, head[1]))), "    ")
    return f"{before}\n{head[0]}{lines}\n{after}".rstrip()


_SCANS = (
    "{new}, d = {f2}, 1\nwhile d < {f2}.size(0):\n    {new} = {new} + F.pad({new}[:-d], (0, 0, d, 0))\n    d *= 2",
    "{new}, d = {f2}, 1\nwhile d < {new}.size(0):\n    {new} = torch.cat([{new}[:d], {new}[d:] * {new}[:-d]])\n"
    "    d <<= 1\n{new} = {new} + d",
    "{new}, d = {f2}, 1\nwhile 2 * d <= {new}.size(1):\n    {new} = {new} - torch.roll({new}, d, 1)\n    d = 2 * d",
    "{new}, n = {f2}, {f2}.size(0)\nwhile n > 1:\n    {new} = {new} + {new}[:n].sum(0)\n    n //= 2\n{new} = {new} * n",
    "d = 1\nwhile d < {f2}.size(1):\n    d *= 2\n{new} = F.pad({f2}, (0, d - {f2}.size(1)))",
    "{new} = {f2}\nfor i in range(math.ceil(math.log2({f2}.size(0)))):\n"
    "    {new} = torch.cat([{new}[: 2**i], {new}[2**i :] + {new}[: -(2**i)]])",
)
LOOPS = (*itertools.starmap(_written, itertools.product(_HEADS, _STEPS)), *_SCANS * 8)
