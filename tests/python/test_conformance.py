"""A fixed tenth of torch.testing's operators, three samples of each element type: those that passed still pass."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch

from conformance import unmapped

ROOT = pathlib.Path(__file__).resolve().parents[2]
PASSING = ROOT / "tests" / "conformance" / "passing.txt"


def conformance(*options: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "python"), str(ROOT / "tests")]))
    command = [sys.executable, "-m", "conformance", *options]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


def test_what_passed_still_passes():
    of_list = PASSING.read_text().splitlines()[0]
    if not f"torch {torch.__version__}".startswith(of_list + "."):
        pytest.skip(f"the list is of {of_list}: another version has other operators and samples")
    result = conformance("--expect", "--exporters", "export")
    assert result.returncode == 0, result.stdout[-10000:] + result.stderr[-2000:]


def test_a_pattern_that_matches_nothing_is_an_error():
    result = conformance("--quick", "--ops", "aten::hardtanh,clmp")
    assert result.returncode == 1
    assert "no operator of torch's database matches 'clmp'; did you mean clamp" in result.stderr


def test_every_operator_without_mapping_has_a_reason():
    if tuple(map(int, torch.__version__.split(".")[:2])) > (2, 15):
        pytest.skip("a later torch may have other operators")
    names = list(unmapped.unmapped())
    assert len(names) > 250
    assert [name for name in names if unmapped.reason_for(name) is None] == []
    assert "\n".join(unmapped.section()) in (ROOT / "docs" / "coverage.md").read_text()


def test_an_in_place_operator_whose_call_is_refused_is_mapped_only_if_its_pure_form_is():
    assert unmapped._has_mapping("aten::_fused_adam_.tensor_lr")
    assert unmapped._has_mapping("aten::add_.Tensor")
    assert not unmapped._has_mapping("aten::_amp_no_such_step_")
