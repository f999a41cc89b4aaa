"""Every check of the book, in order, each with its time.

python -m book._tools.checks [STEP ...]
"""

import subprocess
import sys
import time
from collections.abc import Sequence

from book._tools.layout import ROOT

PYTEST = ["pytest", "-p", "no:cacheprovider"]
STEPS: dict[str, list[Sequence[str]]] = {
    "style": [["ruff", "check", "."], ["ruff", "format", "--check", "."]],
    "library": [[*PYTEST, "-m", "not site", "-n", "2", "--dist", "loadgroup"]],
    "sources": [
        ["book._tools.notebooks", "check"],
        ["book._tools.equations", "check"],
        ["book._tools.prose_numbers", "check"],
        ["book._tools.labs", "check"],
        ["book._tools.generated", "check"],
    ],
    "notebooks": [["book._tools.notebooks", "verify"]],
    "site": [["book._tools.site"]],
    "pages": [[*PYTEST, "-m", "site", "-n", "2", "tests"]],
}


def run(step: str) -> bool:
    """Run the commands of a step; whether all of them succeeded."""
    commands = [[sys.executable, "-m", *command] for command in STEPS[step]]
    codes = [subprocess.call(command, cwd=ROOT) for command in commands]
    return not any(codes)


def main() -> int:
    unknown = set(sys.argv[1:]) - set(STEPS)
    if unknown:
        raise SystemExit(f"no step {min(unknown)!r}; the steps are {', '.join(STEPS)}")
    times, failed = {}, []
    for step in sys.argv[1:] or STEPS:
        print(f"\n== {step}", flush=True)
        start = time.perf_counter()
        if not run(step):
            failed.append(step)
        times[step] = time.perf_counter() - start
    print("\n== " + ", ".join(f"{step} {seconds:.0f} s" for step, seconds in times.items()))
    print(f"FAILED: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
