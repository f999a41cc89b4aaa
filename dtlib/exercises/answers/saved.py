"""The file of answers that a page saves: what it holds, judged as the page and the notebook do."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtlib.errors import DtlibError
from dtlib.exercises.answers.unanswered import attempt
from dtlib.exercises.declarations.declaration import Declaration
from dtlib.exercises.declarations.numbers import Numbers
from dtlib.exercises.engine import found
from dtlib.exercises.verdict import UnknownExercise

_FORMAT, _VERSION = "dtlib-kept", 1
_ANSWER, _CODE = "dtlib-answer:", "dtlib-code:"
_SECONDS = 60  # for one answer in code; the first imports of torch take some of them


class AnswersError(DtlibError, ValueError):
    """What should be a file of answers cannot be read as one."""


@dataclass(frozen=True)
class Saved:
    """What a page kept of one exercise: texts of its fields, or code; ``call`` is what to check."""

    slug: str
    texts: tuple[str, ...] = ()
    code: str = ""
    call: str = ""


def saved_answers(path: Path) -> list[Saved]:
    """The answers in a file that a page has saved, in the order of their names.

    Raises AnswersError for a file of another kind, and OSError where it cannot be opened.
    """
    try:
        file = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise AnswersError(f"{path} is no file that the book has saved") from None
    kept = file.get("kept") if isinstance(file, dict) else None
    if not isinstance(kept, dict) or file.get("format") != _FORMAT:
        raise AnswersError(f"{path} is no file that the book has saved")
    if file.get("version", 0) > _VERSION:
        raise AnswersError(f"{path} is of version {file['version']}, known is {_VERSION}")
    slugs = {name.partition(":")[2] for name in kept if name.startswith((_ANSWER, _CODE))}
    return [
        _saved(slug, kept) for slug in sorted(slugs) if slug.startswith(("ex-", "ask-", "pause-"))
    ]


def _saved(slug: str, kept: dict) -> Saved:
    answer = kept.get(_ANSWER + slug)
    answer = answer if isinstance(answer, dict) else {}
    texts = answer.get("texts") or ()
    code = kept.get(_CODE + slug)
    return Saved(
        slug,
        tuple(map(str, texts)) if isinstance(texts, list) else (),
        code if isinstance(code, str) else "",
        str(answer.get("answer") or ""),
    )


def judged(answers: list[Saved], seconds: float = _SECONDS) -> Iterator[Any]:
    """The verdict of each answer, one after the other; code has so many ``seconds``."""
    for saved in answers:
        try:
            shown, declaration = found(saved.slug)
        except UnknownExercise:
            yield Told(f"{saved.slug}: the book has no such exercise")
            continue
        if saved.texts:
            yield attempt(saved.slug, answer_of(declaration, saved.texts))
        elif saved.code:
            yield Told(_in_a_process(saved, shown, declaration, seconds))
        else:
            yield attempt(saved.slug, ...)


@dataclass(frozen=True)
class Told:
    """A verdict that another process has printed."""

    words: str

    def __repr__(self) -> str:
        return self.words


def answer_of(declaration: Declaration, texts: tuple[str, ...]) -> Any:
    """What `check` gets of the texts of an answer box; an empty one waits."""
    given = [text if text.strip() else ... for text in texts]
    if not isinstance(declaration, Numbers) or (len(given) == 1 and not declaration.keyed):
        return given[0]
    if declaration.keyed and len(given) == len(declaration.asked):
        return {one.name: text for one, text in zip(declaration.asked, given, strict=True)}
    return tuple(given)


def call_of(saved: Saved, declaration: Declaration) -> str:
    """The expression that `check` gets: as the page kept it, else the functions that are asked for.

    Where neither is known, the last name that the code defines.
    """
    signatures = getattr(declaration, "signature", ())
    signatures = (signatures,) if isinstance(signatures, str) else signatures
    return saved.call or ", ".join(one.partition("(")[0] for one in signatures)


def _in_a_process(saved: Saved, shown: str, declaration: Declaration, seconds: float) -> str:
    task = {"code": saved.code, "call": call_of(saved, declaration), "label": saved.slug}
    command = [sys.executable, "-m", "dtlib.exercises.answers.alone"]
    try:
        done = subprocess.run(
            command, input=json.dumps(task), capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return f"Not yet. {shown}: the code did not end within {seconds:g} s"
    said = done.stdout.strip().splitlines()
    return said[-1] if said else f"Not yet. {shown}: the code ended its process"
