"""Idioms of branches and loops that data decide; ``hunt.idioms`` says how they are written."""

from __future__ import annotations

import itertools

_TESTS = (
    "{any}.sum() > {c}",
    "{x}.max() > {c} and {any}.mean() < {c2}",
    "not ({x} > {c}).all() or {any}.sum() > {c2}",
    "({x} > {c}).sum() % 2",
    "{x}[{x} > {c}].numel() > 2",
    "bool(({any} < {c}).any())",
    "{x}.sum().item() < {c}",
    "{x}.size(0) > 2 and {x}.sum() > {c}",
    "any(part.sum() > {c} for part in ({x}, {any}))",
    "{x}.sum() > {c} or all(part.min() > {c2} for part in ({x}, {any}) if part.numel() > 1)",
)
_BRANCHES = (  # TEST stands for a test
    "if TEST:\n    {new} = {x} * 2\nelse:\n    {new} = {x} - 1",
    "{new} = {x} + {any}.size(0)\nif TEST:\n    {new} = {new} * 2",
    "{new} = {x} if TEST else -{x}",
    "{new}, k, w = {x}.clone(), 1, 0.5\nif TEST:\n    {new} += 1\n    k, w = 3, 2.0\nelse:\n    {new}[:1] = 2\n"
    "{new} = {new} * k + w",
    "o = [{x}, {x} * 2]\nif TEST:\n    o[0] = {x} * 3\n    o.append({x})\nelse:\n    o.append(-{x})\n"
    "{new} = torch.stack(o)",
    "{new} = {x}[:1] * 2 if TEST else {x}",
    "flag = False\nif TEST:\n    flag = True\n{new} = {x} * 3 if flag and {x}.sum() > {c} else {x}",
    "if TEST:\n    if {x}.min() > {c2}:\n        {new} = {x} + 1\n    else:\n        {new} = {x} - 1\n"
    "elif {x}.mean() > 0:\n    {new} = {x} * 2\nelse:\n    {new} = {x}",
    "{new} = {x}.clone()\nview = {new}[:1]\nif TEST:\n    view.mul_(2)\n{new} = {new} + 1",
    "o = []\nfor part in ({x}, {x} * 2):\n    o.append(part + 1 if TEST else part)\n{new} = torch.stack(o)",
)
_FOUND = (
    "found = {x}[{x} > {c}]\nif found.numel() == 2:\n    {new} = found.reshape(2, 1).sum(0)\nelse:\n"
    "    {new} = found.sum().reshape(1)\n{new} = {new} * found.numel()",
    "found = {x}[{x} > {c}]\n{new} = found.max() if len(found) > 0 else {x}.sum()\n{new} = {new} + len(found)",
    "found = {x2}[{x2}[:, 0] > {c}]\nif found.shape[0] < 3:\n    found = torch.cat([found, found])\n{new} = found * 2",
    "found = ({x} > {c}).nonzero()\n{new} = {x} + found.shape[0]\nif found.shape[0] > 1:\n    {new} = {new} * 2",
    "{new} = {x}.clone()\nmask = {x} > {c}\nif mask.any():\n    {new}[mask] = {x}[mask] * 2",
)
_LOOPS = (
    "{new} = {x}.float()\nfor _ in range(4):\n    if {new}.abs().sum() < {c}:\n        break\n    {new} = {new} / 2",
    "{new} = {x}.float()\nfor k in range(3):\n    {new} = {new} * 0.5\n    if {new}.sum() > {c}:\n"
    "        continue\n"
    "    {new} = {new} + k\nelse:\n    {new} = {new} - 1",
    "k, {new} = 0, {x} * 1\nwhile k < 4 and {new}.sum() > {c}:\n    {new} = {new} - 1\n    k += 1\n{new} = {new} * k",
    "k, {new} = 0, {x}.clone()\nwhile True:\n    k += 1\n    {new} += 1\n    if k > 3 or {new}.sum() > {c}:\n"
    "        break",
    "k, w, {new} = 0, 1.0, {x}.clone()\nwhile {new}.max() > {c} and k < 3:\n    k, w = k + 1, w * 0.5\n"
    "    {new}[{new} > {c}] -= 1\n{new} = {new} * w",
    "h = {f2}[0] * 0\nfor row in {f2}:\n    if row.sum() > {c}:\n        break\n    h = h + row\n{new} = h",
    "h = {f2}[0] * 0\nfor t, row in enumerate({f2}):\n    h = h + row\n    if h.max() > {c}:\n"
    "        h = h * t\n        break\n"
    "else:\n    h = h - 1\n{new} = h + row",
    "h = {f2}[0] * 0\nfor row in {f2}:\n    if row[0] > {c}:\n        if row[-1] > {c2}:\n"
    "            continue\n        h = h + 1\n"
    "    h = h + row\n{new} = h",
    "first, h = True, {f2}[0]\nfor row in {f2}:\n    if row.mean() > {c} and first:\n"
    "        h, first = row * 2, False\n"
    "{new} = h if first else -h",
)
_BOOLS = (  # TEST stands for a test
    "flag = bool(TEST)\n{new} = {x} * flag + ({x} if flag is True else {any}.sum())",
    "flag = {x}.sum() > {c} and not (TEST)\n{new} = {x} + (flag or {any}.max() > {c2})",
    "k = next((i for i, part in enumerate(({x}, {any})) if part.max() > {c}), 2)\n{new} = {x} * k\nif TEST:\n"
    "    {new} = {new} + 1",
    "k = 0\nfor part in ({x}, {any}):\n    k += bool(part.sum() > {c})\nmatch k, bool(TEST):\n    case 0, _:\n"
    "        {new} = {x} * 1\n    case 1, True:\n        {new} = {x} + 2\n    case _:\n        {new} = {x} - k",
    "{new} = {x}.clone()\nsame = {new}\n{new} += TEST\n{new} = same * 2",
)
_SEARCHES = (
    "{new} = {f2} * any(row.sum() > {c} for row in {f2})",
    "{new} = next((row * 2 for row in {f2} if row.sum() > {c}), {f2}[0])",
    "h = {f2}[0] * 0\nfor row in {f2}:\n    h = h + row if all(each > {c} for each in row[:2]) else h - 1\n{new} = h",
    "h, done = {f2}[0] * 0, False\nfor row in {f2}:\n    done = done or row.max() > {c}\n    if done:\n"
    "        h = h + row\n{new} = h",
    "{new} = {x}.float()\nk = 0\nwhile any(part.sum() > {c} for part in ({new}, {new} * 2)) and k < 4:\n"
    "    {new}, k = {new} / 2 - 1, k + 1",
)

DECISIONS = (
    *(branch.replace("TEST", test) for branch, test in itertools.product((*_BRANCHES, *_BOOLS), _TESTS)),
    *_FOUND,
    *_LOOPS,
    *_SEARCHES,
)
