"""Sheets out of sheets: with other names, without what is zero, and several as one."""

from collections.abc import Mapping
from dataclasses import replace

from dtlib.formulas.sheet import Given, Line, Sheet, SheetError

_NOTHING = 1e-12  # of a sum: less is rounding


def renamed(sheet: Sheet, **names: str) -> Sheet:
    """The same sheet with other names of some quantities and lines.

    >>> from dtlib.machines.alpha_beta import message_time
    >>> sheet = Sheet({"n": 1e6, "alpha": 2e-6, "beta": 50e9}, {"time": message_time})
    >>> renamed(sheet, n="gradient", time="sent").inputs("sent")
    {'n': 'gradient', 'alpha': 'alpha', 'beta': 'beta'}
    """

    def new(name):
        return names.get(name, name)

    given = {new(name): entry for name, entry in sheet.given.items()}
    lines = {}
    for name, entry in sheet.lines.items():
        feeds = {} if entry.formula is None else sheet.inputs(name)
        inputs = {parameter: new(feed) for parameter, feed in feeds.items()}
        inputs = {parameter: feed for parameter, feed in inputs.items() if feed != parameter}
        parts = tuple(new(part) for part in entry.parts)
        lines[new(name)] = replace(entry, inputs=inputs, parts=parts, within=new(entry.within))
    return Sheet(given, lines)


def settled(sheet: Sheet, *names: str) -> Sheet:
    """The same sheet with the numbers of some given quantities in the place of their names.

    So what is a choice and no quantity, such as a stage of ZeRO, is no input that could vary.

    >>> from dtlib.machines.alpha_beta import message_time
    >>> sheet = Sheet({"n": 1e6, "alpha": 2e-6, "beta": 50e9}, {"time": message_time})
    >>> settled(sheet, "beta").inputs("time")
    {'n': 'n', 'alpha': 'alpha', 'beta': 50000000000.0}
    """
    fixed = {name: sheet.given[name].value for name in names if name in sheet.given}
    lines = {}
    for name, entry in sheet.lines.items():
        feeds = sheet.inputs(name) if entry.formula else {}
        numbers = {p: fixed[feed] for p, feed in feeds.items() if feed in fixed}
        lines[name] = replace(entry, inputs={**entry.inputs, **numbers})
    return Sheet({name: x for name, x in sheet.given.items() if name not in fixed}, lines)


def without_zeros(sheet: Sheet, *outputs: str) -> Sheet:
    """The same sheet without what is zero where it is added, and what nothing then needs.

    The lines `outputs` stay, and all that they depend on; a sum of which one line is left is that
    line.

    >>> from dtlib.formulas.sheet import total
    >>> from dtlib.machines.alpha_beta import message_time
    >>> given = {"n": Given(0, "B"), "alpha": 2e-6, "beta": 5e10, "copy": Given(0, "s")}
    >>> sheet = Sheet(given, {"sent": message_time, "time": total("sent", "copy")})
    >>> list(without_zeros(sheet, "time").given)
    ['n', 'alpha', 'beta']
    """
    values, lines = sheet.values_at(), {}
    for name, entry in sheet.lines.items():
        least = _NOTHING * abs(values[name])
        parts = tuple(part for part in entry.parts if abs(values[part]) > least)
        parts = parts or entry.parts[:1]
        if len(parts) == 1 and parts[0] in lines:  # a sum of one line is that line
            only = lines[parts[0]]
            entry = replace(only, label=entry.label or only.label, within=entry.within)
        else:
            entry = replace(entry, parts=parts)
        lines[name] = entry
    slim, needed = Sheet(sheet.given, lines), set(outputs)
    for name in reversed(list(lines)):
        if name in needed:
            needed |= {feed for feed in slim.inputs(name).values() if isinstance(feed, str)}
            needed |= {lines[name].within}
    kept = {name: entry for name, entry in lines.items() if name in needed}
    return Sheet({name: x for name, x in sheet.given.items() if name in needed}, kept)


def together(*parts: tuple[Mapping[str, Given], Mapping[str, Line]]) -> tuple[dict, dict]:
    """What is given and the lines of several sheets, as those of one.

    Raises SheetError for a name that stands for different things in two of them.

    >>> from dtlib.machines.alpha_beta import message_time
    >>> together(({"n": Given(1, "B")}, {}), ({"n": Given(2, "B")}, {}))
    Traceback (most recent call last):
    dtlib.formulas.sheet.SheetError: 'n' is 1 in one sheet and 2 in another
    """
    given, lines = {}, {}
    for more, below in parts:
        for name, entry in more.items():
            if name in given and given[name].value != entry.value:
                was = given[name].value
                raise SheetError(f"{name!r} is {was!r} in one sheet and {entry.value!r} in another")
        both = set(lines) & (set(below) | set(more)) | set(given) & set(below)
        if both:
            raise SheetError(f"{min(both)!r} is a line in two sheets")
        given, lines = {**more, **given}, lines | below
    return given, lines
