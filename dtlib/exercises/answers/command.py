"""``python -m dtlib answers FILE`` and ``%answers FILE``: what a page saved, judged here.

python -m dtlib answers FILE                      judge each answer in the file
python -m dtlib answers FILE --into NOTEBOOK      and write them into the notebook's cells [--force]
"""

import sys
from pathlib import Path

from dtlib.errors import DtlibError
from dtlib.exercises.answers.notebook import write_into
from dtlib.exercises.answers.saved import judged, saved_answers


def answers_command(arguments: list[str]) -> int:
    """Run the command; its exit status is 2 for what it does not understand."""
    force = "--force" in arguments
    words = [word for word in arguments if word != "--force"]
    into = words[2] if len(words) == 3 and words[1] == "--into" else ""
    if not (into or (len(words) == 1 and not force)):
        print(__doc__.partition("\n\n")[2].strip(), file=sys.stderr)
        return 2
    try:
        if into:
            print(_put(Path(words[0]), Path(into), force))
        else:
            show_answers(words[0])
    except (DtlibError, OSError) as wrong:
        print(wrong, file=sys.stderr)
        return 1
    return 0


def show_answers(file: str) -> None:
    """Print the verdict of each answer in a file, and how many are right."""
    right = count = 0
    for verdict in judged(saved_answers(Path(file.strip().strip("'\"")))):
        print(repr(verdict), flush=True)
        right += " passed: " in repr(verdict)
        count += 1
    print(f"{right} of {count} answers passed")


def _put(file: Path, notebook: Path, force: bool) -> str:
    written, left = write_into(notebook, saved_answers(file), force=force)
    said = f"{len(written)} answers written into {notebook}"
    changed = f"; left as you changed them: {', '.join(left)} (--force writes over them)"
    return said + (changed if left else "")
