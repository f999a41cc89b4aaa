"""The cells that a reader fills in: a stub, and the cell that judges what stands in it."""

import ast
from collections.abc import Iterator
from hashlib import sha256

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from book.notebooks.stubs import Stub
from dtlib.exercises.declarations.numbers import Chosen, Numbers

ATTEMPT = "from dtlib.exercises import attempt\n\n"
HIDDEN = {"source_hidden": True}
BEFORE_QUESTIONS = "## Three questions, to see that you can"


def stub_cells(stub: Stub, label: str, slug: str) -> list[NotebookNode]:
    """What the reader completes, and what judges it; an answer that is missing stops no run."""
    return [stub_cell(stub.code, slug), judging_cell(label, slug, stub.answer)]


def stub_cell(code: str, slug: str) -> NotebookNode:
    """A cell to complete, which says what it held when it was handed out."""
    return mark_as_stub(new_code_cell(code), slug)


def mark_as_stub(cell: NotebookNode, slug: str) -> NotebookNode:
    """Note in a cell whose exercise is done in it, and a digest of its text as it is now."""
    digest = sha256(cell.source.encode()).hexdigest()[:8]
    cell.metadata["dtlib"] = {"exercise": slug, "stub": digest}
    return cell


def judging_cell(label: str, slug: str, answer: str) -> NotebookNode:
    """The cell that judges an answer and says what is wrong with it."""
    code = f'{ATTEMPT}attempt("{label}", {answer})'
    return new_code_cell(code, metadata={"dtlib": {"check": slug}})


def defines(code: str, names: list[str]) -> bool:
    """Whether a cell binds every one of these names at its top.

    >>> defines("def f(x):\\n    return x", ["f"]), defines("f(1)", ["f"])
    (True, False)
    """
    try:
        body = ast.parse(code).body
    except SyntaxError:
        return False  # a magic of IPython
    bound = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    targets = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    bound |= {name.id for target in targets for name in ast.walk(target) if _is_name(name)}
    return bool(names) and set(names) <= bound


def names_in(expression: str) -> list[str]:
    """The names of an expression.

    >>> names_in("(a, b)")
    ['a', 'b']
    """
    return [node.id for node in ast.walk(ast.parse(expression)) if _is_name(node)]


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def question_cells(questions: tuple[Numbers, ...]) -> Iterator[NotebookNode]:
    """The questions at the end of a chapter: each with a place for its answer, and its judge."""
    for place, question in enumerate(questions, start=1):
        heading = f"{BEFORE_QUESTIONS}\n\n" if place == 1 else ""
        yield from _asked(question, f"{heading}**{place}.** ", f"answer_{place}")


def pause_cells(pause: Numbers, place: int) -> Iterator[NotebookNode]:
    """A question in the text of a chapter: the same."""
    return _asked(pause, "> **Before you read on.** ", f"pause_{place}")


def _asked(question: Numbers, heading: str, name: str) -> Iterator[NotebookNode]:
    (asked,) = question.asked
    if isinstance(asked, Chosen):
        choices = sorted([asked.value, *asked.among], key=str)
        remark = " or ".join([", ".join(map(repr, choices[:-1])), repr(choices[-1])])
    else:
        remark = f"a number of {asked.unit}" if asked.unit else "a number"
    yield new_markdown_cell(f"{heading}{question.about.title}")
    yield stub_cell(f"{name} = ...  # {remark}", question.slug)
    yield judging_cell(question.slug, question.slug, name)
