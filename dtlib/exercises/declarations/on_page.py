"""What a page needs to know of an exercise, in order to judge an answer without Python.

Numbers, choices and formulas are judged in the page, by `book/_static/reader/judge.js`, which says
what the declaration says; code is judged by the page's Python, or where it needs torch in the
notebook.
"""

from dtlib.exercises.declarations.declaration import Declaration
from dtlib.exercises.declarations.functions import Formula
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.formulas.units import ladder, spellings


def asked_on_page(declaration: Declaration) -> dict:
    """The data of an answer box, as JSON has it; its ``kind`` is numbers, formula or code."""
    if isinstance(declaration, Numbers):
        asked = [_field(one) for one in declaration.asked]
        return {"kind": "numbers", "verified": declaration.verified, "asked": asked}
    if isinstance(declaration, Formula) and declaration.of_numbers():
        return {"kind": "formula", "verified": declaration.verified} | _formula(declaration)
    return {"kind": "code", "needs": declaration.about.needs}


def _field(asked: Asked | Chosen) -> dict:
    if isinstance(asked, Chosen):
        among = [[str(word), hint] for word, hint in asked.among.items()]
        return {"name": asked.name, "value": str(asked.value), "among": among}
    return {
        "name": asked.name,
        "value": float(asked.value),
        "unit": asked.unit,
        "units": spellings(asked.unit),
        "takes": ", ".join(ladder(asked.unit)),
        "slips": [[float(slip), hint] for slip, hint in asked.slips.items()],
        "tolerance": asked.tolerance,
    }


def _formula(declaration: Formula) -> dict:
    names = declaration.signature.partition("(")[2].rstrip(")").split(", ")
    cases = [list(args) for _, args in declaration.cases()]

    def values(function, at: list) -> list[float]:
        return [float(function(*args)) for args in at]

    def corner(limit) -> list:
        at = [dict(zip(names, case, strict=True)) | dict(limit.inputs) for case in cases]
        return [list(one.values()) for one in at]

    return {
        "signature": declaration.signature,
        "names": names,
        "cases": cases,
        "values": values(declaration.reference, cases),
        "slips": [[hint, values(wrong, cases)] for wrong, hint in declaration.wrong()],
        "limits": [
            [limit.name, limit.hint, corner(limit), values(declaration.reference, corner(limit))]
            for limit in declaration.limits
        ],
    }
