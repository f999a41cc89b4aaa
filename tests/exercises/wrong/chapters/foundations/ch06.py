"""Wrong answers of chapter 6 that no slip derives: (exercise, answer, what it must be told)."""

from dtlib.exercises.chapters.foundations.ch06 import _tornado
from dtlib.foundations import Sheet
from dtlib.memory import weight_bytes

UNITS, EXPONENT, SEGMENT = "ex-repair-the-units", "ex-exponent", "ex-best-segment"
FIT, TORNADO = "ex-design-a-fit", "ex-tornado"


def derivative(f, inputs, name):
    step = 1e-6 * inputs[name]
    return (f(**inputs | {name: inputs[name] + step}) - f(**inputs)) / step


def with_what_changes_nothing(sheet, name, share):
    return [*_tornado(sheet, name, share), ("hidden", 1.0, 1.0)]


# fmt: off
WRONG = [
    (UNITS, lambda params, P, port: 0.1, "a Sheet that has a line 'exchange'"),
    (UNITS, lambda params, P, port: Sheet({"params": params, "element_bytes": 2},
                                          {"exchange": weight_bytes}), "must be in s, but is in B"),
    (EXPONENT, derivative, "the derivative itself"),
    (EXPONENT, lambda f, inputs, name: 1.0, "the exponent is off"),
    (EXPONENT, lambda f, inputs, name: f(x=1.0), "raises TypeError"),
    ("ex-fermi", {"logits": 1}, "keys"),
    (SEGMENT, lambda layers, c: 1, "more layers in a segment"),
    (SEGMENT, lambda layers, c: layers, "fewer layers"),
    (SEGMENT, lambda layers, c: 0, "at least 1"),
    (SEGMENT, lambda layers, c: (layers / c) ** 0.5, "whole number"),
    (FIT, {"tp": 8}, "times the card"),
    (FIT, {"tp": 4, "mfu": 0.6}, "option 'mfu' is not yours to choose"),
    (FIT, {}, "pass a dict of options"),
    (TORNADO, with_what_changes_nothing, "and no others: hidden"),
    (TORNADO, lambda *bar: _tornado(*bar)[:-1], "that change the line"),
    (TORNADO, lambda sheet, name, share: [*sheet.exponents(name).items()], "a list of"),
    (TORNADO, lambda sheet, name, share: 1.0, "a list of"),
]
