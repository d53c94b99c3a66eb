"""Files that show a fault: each runs by itself, prints both results and fails."""

from __future__ import annotations

import hashlib
import pathlib
import re
from typing import Any

from hunt.case import PREAMBLE, Case
from hunt.check import Outcome
from hunt.shrink import shrunk


def write_fault(drawn: Any, outcome: Outcome, folder: pathlib.Path) -> dict[str, Any]:
    """Writes one file for each operator and kind of failure; the first such fault is shrunk and written."""
    if drawn.case().about == "program":
        # Shrinking finds the statements that cause the fault.
        drawn, outcome = shrunk(drawn, outcome)
    case = drawn.case()
    key = f"{_operators(case)} {outcome.result} {outcome.kind}"
    name = (
        re.sub(r"\W+", "-", f"{_operators(case)}-{outcome.result}")[:80]
        + "-"
        + hashlib.sha256(key.encode()).hexdigest()[:6]
    )
    file = folder / f"{name}.py"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(script(case, outcome))  # in case shrinking crashes the process
        drawn, outcome = shrunk(drawn, outcome)
        file.write_text(script(drawn.case(), outcome))
    return {"fault": key, "file": str(file), "shrunk": outcome.detail}


def _operators(case: Case) -> str:
    """The name of a fault."""
    if case.about != "program":
        return case.about
    text = "\n".join(case.body)
    names = set(re.findall(r"(\w+)\(", text)) | {"[...] =" for _ in re.findall(r"\] [-+*/%]*= ", text)}
    return "program " + " ".join(sorted(names))


def script(case: Case, outcome: Outcome) -> str:
    """A Python file that shows the fault."""
    runs = [f"    [{', '.join(spec.text() for spec in run)}]," for run in _runs(case, outcome)]
    detail = outcome.detail.replace('"""', "'''").replace("\\", "/")
    return f'''"""{case.about}: {outcome.result}{f" ({outcome.kind})" if outcome.kind else ""}.

{detail}

seed {case.seed}; run it with: PYTHONPATH=python:tests python {{file}}
"""

{PREAMBLE}
{case.source}

# The first run is exported; the model is compared on all.
RUNS = [
{chr(10).join(runs)}
]
SETTINGS = dict({case.settings.text()})

if __name__ == "__main__":
    from hunt.rerun import rerun

    rerun(Model, RUNS, SETTINGS)
'''


def _runs(case: Case, outcome: Outcome) -> list[Any]:
    """The example and the run that shows the fault."""
    return [case.runs[0]] + ([case.runs[outcome.run]] if outcome.run else [])
