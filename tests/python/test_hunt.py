"""Random calls and programs of a fixed seed, and of one for each commit."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import subprocess
import sys
import types
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from hunt import graphs
from hunt.case import Case, Settings
from hunt.eager import in_float64, rounded_at_random
from hunt.judge import judge
from hunt.tensors import TensorSpec

ROOT = pathlib.Path(__file__).resolve().parents[2]


def hunt(tmp_path: pathlib.Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "python"), str(ROOT / "tests")]))
    where = ["--faults", str(tmp_path / "faults"), "--out", str(tmp_path / "records.jsonl")]
    command = [sys.executable, "-m", "hunt", *options, *where]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


def test_fixed_seed(tmp_path: pathlib.Path) -> None:
    result = hunt(tmp_path, "--calls", "60", "--programs", "20", "--seed", "1000", "--jobs", "2", "--timeout", "300")
    assert result.returncode == 0, result.stdout[-10000:] + result.stderr[-2000:]


def seed_of_commit() -> int:
    """Another one for each commit, so that a failure can be repeated; without git, for each day."""
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = f"{datetime.date.today():%Y%m%d}"
    return int(commit[:10], 16)


def test_fresh_seed(tmp_path: pathlib.Path) -> None:
    options = ["--calls", "60", "--programs", "20", "--seed", str(seed_of_commit())]
    result = hunt(tmp_path, *options, "--jobs", "2", "--timeout", "300")
    faults = "\n".join(file.read_text() for file in sorted((tmp_path / "faults").glob("*.py")))
    again = f"PYTHONPATH=python:tests python -m hunt {' '.join(options)}"
    shown = f"repeat it with: {again}\n{result.stdout[-10000:]}{result.stderr[-2000:]}\n{faults}"
    assert result.returncode == 0, shown


def test_a_fault_of_a_fresh_seed_is_shown(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(folder: pathlib.Path, *options: str) -> subprocess.CompletedProcess[str]:
        (folder / "faults").mkdir()
        (folder / "faults" / "one.py").write_text("class Model")
        return subprocess.CompletedProcess(options, 1, "1 faults", "")

    monkeypatch.setitem(globals(), "hunt", fails)
    with pytest.raises(AssertionError, match=f"(?s)--seed {seed_of_commit()}.*1 faults.*class Model"):
        test_fresh_seed(tmp_path)


def test_a_pattern_that_matches_nothing_is_an_error(tmp_path: pathlib.Path) -> None:
    result = hunt(tmp_path, "--ops", "aten::no_such_operator")
    assert result.returncode == 1
    assert "no operator" in result.stderr


def test_complex_numbers_are_compared_by_the_length_of_their_difference() -> None:
    expected = torch.tensor([[1e18, 0.0]])
    rounded, wrong = torch.tensor([[1e18, 1e3]]), torch.tensor([[1e18, 1e15]])
    referee: Any = types.SimpleNamespace(exact=lambda: None, samples=list)
    assert not judge([rounded], [expected], referee, False, {0}).kind
    assert judge([wrong], [expected], referee, False, {0}).kind == "values"
    assert judge([rounded], [expected], referee, False).kind == "values"


def test_overlapping_memory_is_widened() -> None:
    spec = TensorSpec(torch.bfloat16, (2, 2), (1, 1), 0, (1.0, 2.5, 3.0))
    init = (f'self.register_buffer("w0", {spec.text()})',)
    case = Case("call:0", "aten::add", init, ("return x0 + self.w0",), ((spec,),), Settings())
    results = in_float64(case, 0)
    assert results is not None
    assert results.leaves[0].tolist() == [[2.0, 5.0], [5.0, 6.0]]


def test_rounding_of_a_matrix_shows_what_it_leaves_open() -> None:
    """Roundings of a nearly singular matrix have inverses that differ in every digit."""
    values = (1.0, 1.0, 1.0, 1.0000002384185791)
    spec = TensorSpec(torch.float32, (2, 2), (2, 1), 0, values)
    body = ("return torch.ops.aten.linalg_inv.default(x0)",)
    case = Case("call:0", "aten::linalg_inv", (), body, ((spec,),), Settings())
    inverses = torch.stack([results.leaves[0] for results in rounded_at_random(case, 0)])
    assert inverses.std(0).min() > 1e5


def test_rounding_within_attention_shows_what_it_leaves_open() -> None:
    """The last sum of an operator of several products may cancel what the products before it rounded."""
    init = [f'self.register_buffer("{name}", torch.tensor({value}))' for name, value in {
        "weight": [[1.3], [1.1], [1.7]], "bias": [0.0, 0.0, 0.0], "out": [[1.9]], "shift": [-3.3 * 1.7 * 1.9]
    }.items()]  # fmt: skip
    weights = "self.weight, self.bias, self.out, self.shift"
    body = (f"return torch.ops.aten._native_multi_head_attention(x0, x0, x0, 1, 1, {weights})[0]",)
    spec = TensorSpec(torch.float32, (1, 1, 1), (1, 1, 1), 0, (3.3,))
    case = Case("call:0", "aten::_native_multi_head_attention", tuple(init), body, ((spec,),), Settings())
    results = torch.stack([results.leaves[0] for results in rounded_at_random(case, 0)])
    assert results.std(0).min() > 1e-7


def test_calls_of_chosen_operators(tmp_path: pathlib.Path) -> None:
    result = hunt(tmp_path, "--calls", "3", "--ops", "aten::hardtanh*,aten::relu", "--seed", "5", "--jobs", "1")
    assert result.returncode == 0, result.stdout + result.stderr
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert len(records) == 3
    assert all(record["about"].startswith(("aten::hardtanh", "aten::relu")) for record in records)


def test_graphs_of_a_fixed_seed() -> None:
    outcomes = Counter(graphs.outcome_of(seed).split(":")[0] for seed in range(300))
    assert outcomes["same"] > 240, outcomes


def test_results_differ_by_more_than_rounding() -> None:
    numbers = np.array([1, np.nan, np.inf, 1e-3], np.float32)
    assert not graphs.differ([numbers], [numbers * np.float32(1 + 1e-6)])
    assert graphs.differ([numbers], [numbers * np.float32(1.1)])
    assert graphs.differ([np.array([1, 2])], [np.array([1, 3])])
    assert graphs.differ([numbers], [numbers.astype(np.float64)])
