"""The report of a hunt: totals, refusals by reason, faults."""

from __future__ import annotations

import collections
import re
from typing import Any

from hunt.check import CRASH, FAULTS, REFUSED, REJECTED, RESULTS, RIGHT

NOTHING = "nothing drawn"
EAGER_CRASH = "eager crashes"
Record = dict[str, Any]


def _without_names(reason: str) -> str:
    """A reason for refusal without the location, names and numbers of the case."""
    reason = re.sub(r" at <hunt .*", "", reason)
    return re.sub(r"-?\b\d+\b", "N", re.sub(r"'[^']*'|%\w+", "…", reason))


class Tally:
    """Counts records as they come."""

    def __init__(self) -> None:
        self.results: dict[str, collections.Counter[str]] = {}
        self.refusals: collections.Counter[str] = collections.Counter()
        self.compared = 0
        self.faults: dict[str, list[Record]] = {}
        self.ran: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)

    def add(self, record: Record) -> None:
        kind = record["seed"].partition(":")[0]
        self.results.setdefault(kind, collections.Counter())[record["result"]] += 1
        self.ran[record["about"]][record["result"]] += 1
        self.compared += record.get("compared", 0)
        if record["result"] == REFUSED:
            self.refusals[_without_names(record["detail"])] += 1
        if record["result"] in FAULTS:
            key = record.get("fault") or f"{record['about']} {record['result']} {record['kind']}"
            self.faults.setdefault(key, []).append(record)

    def text(self, most: int = 20) -> str:
        columns = [*RESULTS, NOTHING, EAGER_CRASH]
        lines = ["".join(f"{column:>24}" for column in ["", *columns])]
        for kind, counts in self.results.items():
            lines.append(f"{kind + 's':>24}" + "".join(f"{counts[column]:24}" for column in columns))
        lines.append(f"{self.compared} sets of inputs compared")
        never = sorted(name for name, counts in self.ran.items() if not set(counts) & {RIGHT, REFUSED, *FAULTS})
        if never:
            lines.append(f"\nnever accepted by eager PyTorch ({len(never)}): {', '.join(never)}")
        if self.refusals:
            lines.append("\nrefused:")
            lines += [f"{count:8}  {reason[:200]}" for reason, count in self.refusals.most_common(most)]
        if self.faults:
            lines.append(f"\n{len(self.faults)} faults:")
            for key, records in sorted(self.faults.items(), key=lambda item: -len(item[1])):
                first = records[0]
                lines.append(
                    f"{len(records):8}  {key}\n          {first['seed']}  {first.get('shrunk', first['detail'])[:300]}"
                )
                if "file" in first:
                    lines.append(f"          {first['file']}")
        return "\n".join(lines)


__all__ = ["CRASH", "REJECTED", "Tally"]
