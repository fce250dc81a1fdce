"""``specdecode doctor``: each precondition of a target, a line each. Touches nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ..doctor import Finding, Grade, Patient, examine
from ..run import Run
from .project import Project, add_files, open_run, progress, say_lines, secrets_of


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="needed where there are several")
    add_files(parser)


def run(args: argparse.Namespace) -> int:
    project = Project.of(args)
    target = project.target(args.target, make=False)
    say_lines([f"{target.name}: {project.shown}"])
    examined = open_run(target, project, progress().say)
    try:
        return _examine(examined, project)
    finally:
        examined.venue.close()


def _examine(examined: Run, project: Project) -> int:
    secrets = secrets_of(examined.target)
    grades = []
    for finding in examine(Patient(examined, project.folder, project.baselines)):
        say_lines([line(finding)], secrets)
        grades.append(finding.grade)
    say_lines(_summary(grades))
    return 1 if Grade.WRONG in grades else 0


def line(finding: Finding) -> str:
    """``not ok  port       30000 is held by …``."""
    return f"{finding.grade.value:<7} {finding.what:<10} {finding.text}"


def _summary(grades: list[Grade]) -> Iterator[str]:
    counts = {grade: grades.count(grade) for grade in Grade}
    yield " · ".join(f"{grade.value} {n}" for grade, n in counts.items() if n)
