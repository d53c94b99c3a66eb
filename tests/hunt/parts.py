"""Idioms of loops over parts of an axis and by functions of Python; ``hunt.idioms`` says how they are written."""

from __future__ import annotations

PARTS = (
    "{new} = torch.cat([part - part.float().mean(0) for part in {x}.split({k})])",
    "{new} = torch.cat([part.cumsum(0) * i for i, part in enumerate({x}.split({k}))])",
    "outs, h = [], {f2}[0] * 0\nfor part in {f2}.split(2):\n    h = h * 0.5 + part.sum(0)\n    outs.append(part + h)\n"
    "{new} = torch.cat(outs) + h",
    "{new} = torch.cat([{x}[i : i + 2] * i for i in range(0, {x}.size(0), 2)])",
    "{new} = torch.zeros_like({x})\nfor i in range(0, {x}.size(0), 2):\n    {new}[i : i + 2] = {x}[i : i + 2].flip(0)",
    "outs = []\nfor part in {x2}.split(2, 1):\n    outs.append(part.cumsum(1))\n    outs.append(part[:, :1])\n"
    "{new} = torch.cat(outs, 1)",
    "{new} = torch.cat([part.T for part in {f2}.chunk(3)], 1)",
    "{new} = torch.cat([part.cumsum(0) for part in {x}.split({k})]) + {x}",
    "{new} = torch.cat([part.flip(0) for part in {f2}.chunk({k})]) - {f2}",
    "outs = []\nfor i in range({k}, {x}.size(0), 2):\n    outs.append({x}[i : i + 2] * i)\n"
    "{new} = torch.cat([{x}[:{k}], *outs]) + {x}",
    "outs = []\nfor i in range({x}.size(0) - 1, -1, -2):\n    outs.append({x}[max(i - 1, 0) : i + 1])\n"
    "{new} = torch.cat(outs) + {x}",
    "{new} = torch.stack([{x}[max(0, i - 1) : min({x}.size(0), i + 2)].sum(0) for i in range({x}.size(0))]) + {x}",
    "step = math.ceil({x}.size(0) / {k})\n"
    "{new} = torch.cat([{x}[i : i + step].cumsum(0) for i in range(0, {x}.size(0), step)]) + {x}",
    "rows = F.pad({f2}, (0, 0, 0, -{f2}.size(0) % 3))\nh, outs = rows[:3] * 0, []\nfor part in rows.split(3):\n"
    "    h = h * 0.5 + part\n    outs.append(h)\n{new} = torch.cat(outs)[: {f2}.size(0)] + {f2}",
    "rest = {f2}.size(0) % 2\nrows = F.pad({f2}, (0, 0, 0, 2 - rest)) if rest else {f2}\nouts = []\n"
    "for i in range(rows.size(0) // 2):\n    outs.append(rows[i * 2 : i * 2 + 2] * rows[:2])\n"
    "{new} = torch.stack(outs)",
    "outs = []\nfor part in {f2}.split(3):\n    if part.size(0) < 3:\n"
    "        part = F.pad(part, (0, 0, 0, 3 - part.size(0)))\n    outs.append(part)\n{new} = torch.stack(outs)",
    "outs, seen = [], {f2}[:1] * 0\nfor part in {f2}.split(2):\n    seen = torch.cat([seen, part])[-2:]\n"
    "    outs.append(part * torch.arange(part.size(0), 0, -1)[:, None] + seen.sum(0))\n{new} = torch.cat(outs) * {f2}",
    "{new} = torch.stack([torch.arange(i, -1, -1).sum() + torch.arange(2 * i, i, -2).sum() for i in range({n})])",
    "{new} = nn.utils.rnn.pad_sequence([row[row > {c}] for row in {x2}], batch_first=True)",
    "outs = [{f2}[: i + 1] for i in range({f2}.size(0))]\n"
    "{new} = nn.utils.rnn.pad_sequence(outs, padding_value={c}) * len(outs)",
    "outs = [row[row > 0] for row in {f2}]\n{new} = {f2}[0].sum() * 0\nfor i, part in enumerate(outs):\n"
    "    {new} = {new} * 0.5 + part.sum() * i - len(part)",
    "outs = []\nfor row in {f2}:\n    if row.sum() > 0:\n        outs.append(row[row > 0])\nouts.append({f2}[0])\n"
    "{new} = torch.cat(outs) + outs[-1].sum() * len(outs)",
    "parts = {x}.split({k})\n{new} = parts[0] * len(parts) + parts[-1].sum()",
    "{new} = torch.cat({x}.split(2)) + sum(part.sum() for part in {any}.split(2))",
    "{new}, {new2} = {x}.chunk(2)\n{new} = {new} + {new2}[:1]",
    "{new} = torch.cat([row[row > {c}] for row in {x2}])",
    "{new} = torch.cat([{x}[: i + 1] for i in range({x}.size(0))])",
    "{new} = torch.hstack([row[: int(row.abs().sum()) % 3] for row in {f2}.nan_to_num(0, 1, -1)])",
    "{new} = torch.stack(list(map(torch.tanh, {f2})))",
    "{new} = torch.stack([*map(lambda a, b: a * b, {f2}, {f2}.flip(0))])",
    "{new} = sum(map(torch.sum, {x2})) + sum({f2})",
    "{new} = functools.reduce(lambda h, row: h * 0.5 + row, {f2})",
    "{new} = functools.reduce(torch.maximum, {x2}, {x2}[0] * 0)",
    "{new} = torch.stack(list(itertools.accumulate({f2}, lambda h, row: h * 0.5 + row)))",
    "{new} = {f2}[0].sum() * 0\nfor a, b in itertools.pairwise({f2}):\n    {new} = {new} + (a - b).abs().sum()",
    "{new} = {f2}[0]\nfor row in itertools.islice({f2}, 1, None, 2):\n    {new} = {new} - row",
    "{new} = torch.stack([row * math.sin(i) + math.exp(-i) for i, row in enumerate({f2})]) * math.cos({n})",
    "best, at = -math.inf, 0\nfor i in range(len({g2})):\n    if {g2}[i].sum().item() > best:\n"
    "        best, at = {g2}[i].sum().item(), i\n{new} = {g2}[at] * at + best",
    "{new} = {g2} * math.exp(-abs({g2}[0, 0].item())) + math.tanh({n})",
)
