"""The map of the book, and what this machine offers to it.

python -m dtlib           chapter -> module -> lab -> tests, and which of them are there
python -m dtlib doctor    ranks, threads, GPUs, names, ports, interfaces, transport
python -m dtlib doctor --json    its cores and GPUs, to paste into a page's 'Your machine'
python -m dtlib plan --model llama-3-8b --gpus 64 --gpu h100    the best layouts of a run, and why
python -m dtlib grid tiny|reduced|full    train models of a scaling law; stop when you like
python -m dtlib answers FILE     judge what a page has saved [--into NOTEBOOK [--force]]
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path

from dtlib.contents import ROOT, Chapter, parts

BESIDE = (
    "exercises", "explore", "micro_lab",
    # What speaks to other programs and to a terminal, and tables of published times.
    "composition/planner/configurations", "composition/planner/script",
    "composition/planner/command.py", "collectives/nccl/sample.py",
    "collectives/nccl/network_sample.py",
)  # fmt: skip


def book_map(root: Path = ROOT) -> str:
    """The whole plan as text: one line a chapter, and below a written one its files."""
    lines = ["✓ there   · planned", ""]
    for part in parts():
        lines.append(f"{part.number} {part.title}")
        for chapter in part.chapters:
            lines += _chapter_lines(chapter, root)
        lines.append("")
    lesson, rest = volume()
    lines.append(f"{lesson:,} lines of Python are the lesson, {rest:,} judge, draw and connect it")
    if (root / "tests").exists():
        lines += [f"{counted:,} lines are {what}" for what, counted in beside(root).items()]
    return "\n".join(lines)


def volume() -> tuple[int, int]:
    """Lines of the library that teach, and lines beside them: exercises, widgets, and the like."""
    counted = Counter()
    package = Path(__file__).parent
    for file in package.rglob("*.py"):
        beside = file.relative_to(package).as_posix().startswith(BESIDE)
        counted[beside] += len(file.read_text(encoding="utf-8").splitlines())
    return counted[False], counted[True]


def beside(root: Path = ROOT) -> dict[str, int]:
    """Lines of what stands beside the lesson, each with its tests, scripts and sheets."""
    rooms = {"the exercises": "exercises", "the widgets": "explore", "its drawings": "drawing"}
    return {
        f"{what}, tests included": sum(
            len(file.read_text(encoding="utf-8").splitlines())
            for folder in (f"dtlib/{room}", f"tests/{room}")
            for file in (root / folder).rglob("*.*")
            if file.suffix in (".py", ".toml", ".js", ".css")
        )
        for what, room in rooms.items()
    }


def _chapter_lines(chapter: Chapter, root: Path) -> list[str]:
    checkout = (root / "chapters").exists()  # a wheel has the code alone
    written = chapter.is_written(root) if checkout else chapter.minutes > 0
    lines = [f"  {_mark(written)} {chapter.number:>3}  {chapter.title}"]
    if not written:
        return lines
    labs = [f"labs/{lab}" for lab in chapter.labs]
    modules = [f"dtlib/{module}" for module in chapter.modules]
    rows = {"code": modules}
    if checkout:
        rows = {"page": [f"{chapter.page}.md"], **rows, "lab": labs, "tests": chapter.tests}
    for title, paths in rows.items():
        lines += [f"         {title:<6} {_mark((root / p).exists())} {p}" for p in paths]
    return lines


def _mark(there: bool) -> str:
    return "✓" if there else "·"


def main(arguments: list[str]) -> int:
    if arguments == ["doctor"]:
        from dtlib.runtime.doctor import doctor

        print(doctor())
        return 0
    if arguments == ["doctor", "--json"]:
        from dtlib.runtime.doctor import machine_facts

        print(json.dumps(machine_facts()))
        return 0
    if arguments[:1] == ["plan"]:
        from dtlib.composition.planner.command import plan_command

        return plan_command(arguments[1:])
    if arguments[:1] == ["grid"]:
        from dtlib.scaling_laws.grid.command import grid_command

        return grid_command(arguments[1:])
    if arguments[:1] == ["answers"]:
        from dtlib.exercises.answers.command import answers_command

        return answers_command(arguments[1:])
    if arguments:
        asked = arguments[0] in ("-h", "--help", "help")
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    try:
        print(book_map(), flush=True)
    except BrokenPipeError:  # what reads, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
