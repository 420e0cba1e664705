"""What all benchmarks share: interleaved rounds, medians, the machine's noise, --quick, --json, --check.

Subjects run in turn within each round, in a new random order, so that whatever else the machine does hits
all of them alike. A figure is the median of its rounds; ratios are taken within a round, then their median.
"""

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

Measure = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Target:
    """``ratio`` of two subjects must not exceed ``at_most``. A stretch target is reported, not enforced."""

    name: str
    subject: str
    base: str
    at_most: float
    must: bool = True


@dataclass(slots=True)
class Report:
    """rounds: figures by subject, in round order. unit: of all of them."""

    unit: str
    rounds: dict[str, list[float]] = field(default_factory=dict)

    def median(self, subject: str) -> float:
        return statistics.median(self.rounds[subject])

    def noise(self, subject: str) -> float:
        """Spread of a subject's rounds over their median."""
        values = self.rounds[subject]
        return (max(values) - min(values)) / self.median(subject)

    def ratio(self, subject: str, base: str) -> float:
        pairs = zip(self.rounds[subject], self.rounds[base], strict=True)
        return statistics.median(value / reference for value, reference in pairs)


def arguments(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a minute or two")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--check", action="store_true", help="five rounds; exit 1 if a must-target is missed")
    parser.add_argument("--seed", type=int, default=1, help="order of the subjects")
    return parser.parse_args()


def run(subjects: Mapping[str, Measure], unit: str, rounds: int, seed: int) -> Report:
    """Measure every subject once a round, after one round that does not count."""
    rng = random.Random(seed)
    report = Report(unit, {name: [] for name in subjects})
    for number in range(rounds + 1):
        for name in rng.sample(sorted(subjects), len(subjects)):
            value = subjects[name]()
            if number:
                report.rounds[name].append(value)
    return report


def conclude(report: Report, base: str, targets: Sequence[Target], options: argparse.Namespace) -> None:
    """Print, write and judge. Exits with 1 under --check when a must-target is missed."""
    for name in report.rounds:
        ratio = f"{report.ratio(name, base):.2f} x {base}"
        print(
            f"{name:<34} {report.median(name):10.1f} {report.unit}   {ratio}   noise {report.noise(name):.0%}"
        )
    missed = [target for target in targets if report.ratio(target.subject, target.base) > target.at_most]
    for target in missed:
        print(f"missed: {target.name} ({report.ratio(target.subject, target.base):.2f} > {target.at_most})")
    if options.json:
        content = {"unit": report.unit, "rounds": report.rounds, "missed": [asdict(each) for each in missed]}
        options.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
    if options.check and any(target.must for target in missed):
        sys.exit(1)
