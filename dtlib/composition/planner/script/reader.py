"""What an unmodified training script computes, sends and holds, without a GPU or another rank."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import dtlib
from dtlib.composition.planner.script.reading import ScriptReading
from dtlib.errors import DtlibError
from dtlib.formulas.require import require, require_count, require_positive

_CHILD = "dtlib.composition.planner.script.child"
_BEGINNING = 120.0
_LAST_WORDS = 300


class ScriptError(DtlibError, RuntimeError):
    """A script that cannot be read: what it had reached, and what stopped it."""


def read_script(
    path: str | Path, ranks: int = 64, argv: Sequence[str] = (), timeout: float = 120.0
) -> ScriptReading:
    """Run two steps of a training script as if it were rank 0 of `ranks`, and read the second.

    The script runs as it is, in a process of its own that ends with the reading: `torchrun`'s
    variables are set, every process group is torch's fake one, and "cuda" is a machine that only
    remembers shapes. Not run are compiled code, workers of data loaders, and what saves files.
    Arguments: `path` of the script; `ranks`, the world's size; `argv`, the script's own
    arguments; `timeout`, the seconds that its two steps may take. Returns a ScriptReading.
    Raises ScriptError, naming line and what was reached, for a script that raises, ends before its
    second `optimizer.step()`, waits for input or needs longer, or decides by values of tensors that
    only a GPU would know; ValueError for a path, ranks, arguments or a time that cannot be.
    Source: fake process groups and tensors are torch's (torch.testing, torch._subclasses).
    """
    script = Path(path).resolve()
    require(script.is_file(), "read_script", "path", str(path), "a file that is there")
    require_count("read_script", ranks=ranks)
    require_positive("read_script", timeout=timeout)
    good = not isinstance(argv, str) and all(isinstance(word, str) for word in argv)
    require(good, "read_script", "argv", argv, "a list of words, such as ['--tp', '8']")
    with TemporaryDirectory(prefix="dtlib-script-") as folder:
        told, errors = _run(Path(folder), script, ranks, list(argv), timeout)
    found = {key: value for line in told for key, value in line.items()}
    if "reading" in found:
        return ScriptReading.from_dict(found["reading"])
    raise ScriptError(_what_happened(script, found, errors, timeout))


def _run(folder: Path, script: Path, ranks: int, argv: list[str], timeout: float):
    """What the child told, line by line, and its last words on standard error."""
    told, errors = folder / "told", folder / "errors"
    wanted = {"script": str(script), "ranks": ranks, "argv": argv, "timeout": timeout}
    command = [sys.executable, "-m", _CHILD, json.dumps(wanted | {"told": str(told)})]
    home = str(Path(dtlib.__file__).parent.parent)
    paths = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    plain = os.environ | {"PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": ""}
    with open(errors, "wb") as kept:
        child = subprocess.Popen(
            command, env=plain, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=kept,
            start_new_session=True,
        )  # fmt: skip
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_BEGINNING + timeout)  # it ends by itself, unless it was stopped
        finally:
            _end_session(child)
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    return [json.loads(line) for line in lines], errors.read_text(
        encoding="utf-8", errors="replace"
    )


def _end_session(child: subprocess.Popen) -> None:
    """End the child and whatever the script has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _what_happened(script: Path, found: dict, errors: str, timeout: float) -> str:
    reached = found.get("reached", "nothing")
    begin = f"read_script: {script.name} "
    line = f" at line {found['line']}" if found.get("line") else ""
    after = f" after it had reached {reached}"
    kind, text = found.get("error"), found.get("text")
    if kind == "raised":
        return f"{begin}raised{line}{after}: {text}"
    if kind == "input":
        return f"{begin}waits for input{line}{after}: a reading has none to give ({text})"
    if kind == "values":
        asks = "asks for values that only a GPU would know"
        return f"{begin}{asks}{line}{after}: {text}"
    if kind == "ended":
        needs = "but a reading needs two optimizer steps"
        hint = _last_words(errors) if text != "its end" else ""
        return f"{begin}came to {text}{after}, {needs}{hint}"
    where = re.findall(rf'File "{re.escape(str(script))}", line (\d+)', errors)
    if "Timeout" in errors:
        at = f" at line {where[0]}" if where else ""
        return f"{begin}was still running{at} after {timeout:g} s; it had reached {reached}"
    return f"{begin}lost its process{after}{_last_words(errors)}"


def _last_words(errors: str) -> str:
    words = " ".join(errors.split())[-_LAST_WORDS:]
    return f"; its last words: {words}" if words else ""
