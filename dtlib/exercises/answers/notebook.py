"""Answers that a page saved, written into the stub cells of its notebook."""

import hashlib
import json
from itertools import chain
from pathlib import Path

from dtlib.exercises.answers.saved import Saved, call_of
from dtlib.exercises.engine import found


def write_into(path: Path, answers: list[Saved], *, force: bool = False) -> tuple[list, list]:
    """Put answers into the cells of a notebook that wait for them.

    A cell that its reader has changed is left as it is, unless ``force``. Returns the slugs that
    were written, and those whose cells were left.
    """
    notebook = json.loads(path.read_text(encoding="utf-8"))
    kept = {one.slug: one for one in answers}
    written, left = [], []
    for cell in notebook["cells"]:
        own = cell.get("metadata", {}).get("dtlib", {})
        saved = kept.get(own.get("exercise"))
        before = "".join(cell["source"])
        if saved is None or "stub" not in own or before == saved.code:
            continue
        if digest(before) != own["stub"] and not force:
            left.append(saved.slug)
        elif after := saved.code or _assigned(saved, before):
            cell["source"] = after.splitlines(keepends=True)
            written.append(saved.slug)
    if written:
        text = json.dumps(notebook, ensure_ascii=False, indent=1)
        path.write_text(text + "\n", encoding="utf-8")
    return written, left


def digest(source: str) -> str:
    """What a stub cell's metadata says of its text, so that a change is seen."""
    return hashlib.sha256(source.encode()).hexdigest()[:8]


def _assigned(saved: Saved, stub: str) -> str:
    """A stub with the texts of an answer box where it has dots; nothing where they do not fit.

    >>> _assigned(Saved("ex-buckets", ("35 ms", "2 s")), "a = ...  # in s, ...\\nb = ...")
    "a = '35 ms'\\nb = '2 s'"
    """
    code = [line.partition("  #")[0] for line in stub.splitlines() if not line.startswith("#")]
    if code and code[0].startswith("def "):
        code = [f"{call_of(saved, found(saved.slug)[1])} = ..."]
    if "..." not in "".join(code):  # changed by its reader, who wants it written over
        code = [f"{line.partition(' = ')[0]} = ..." for line in code]
    pieces = "\n".join(code).split("...")
    if len(pieces) != len(saved.texts) + 1:
        return ""
    given = [repr(text) if text.strip() else "..." for text in saved.texts]
    return "".join(chain.from_iterable(zip(pieces, [*given, ""], strict=True)))
