"""What the reader moves, as a widget's script needs to know it."""

from collections.abc import Mapping, Sequence

from dtlib.explore.controls import slider_over


def slider(
    name: str, label: str, values: Sequence[float], start: float, unit: str = "", size: float = 1
) -> dict:
    """A slider over these values: the state is a value, shown is `value * size` in `unit`.

    Raises ValueError for a start that is not among the values.

    >>> slider("latency", "latency", (0, 50, 200), 50, unit="s", size=1e-3)["plain"]
    '0 s to 200 ms'
    >>> slider("P", "ranks", (2, 4, 8), 3)
    Traceback (most recent call last):
    ValueError: P: 3, but must be one of 2, 4, 8
    """
    among(name, start, values)
    shown = [value * size for value in values]
    over = slider_over(name, label, unit, shown, start * size)
    return over | {"kind": "slider", "values": list(values), "size": size}


def choice(name: str, label: str, words: Mapping, start) -> dict:
    """A choice of a few: `words` says what each value is called.

    >>> choice("layout", "Layout", {0: "contiguous", 1: "zigzag"}, 1)["index"]
    1
    """
    among(name, start, list(words))
    values = list(words)
    return {"kind": "choice", "name": name, "label": label, "values": values,
            "words": list(words.values()), "index": values.index(start)}  # fmt: skip


def toggle(name: str, label: str, start: bool) -> dict:
    """A switch, which is 0 or 1.

    >>> toggle("causal", "causal mask", True)["index"]
    1
    """
    among(name, start, (0, 1))
    return {"kind": "toggle", "name": name, "label": label, "values": [0, 1], "index": int(start)}


def grip(name: str, label: str, values: Sequence, start, unit: str = "") -> dict:
    """A slider whose place is in the figure: the mark there that says `grip: name`.

    >>> grip("node", "GPUs in a node", (2, 4, 8), 8)["index"]
    2
    """
    among(name, start, values)
    return {"kind": "grip", "name": name, "label": label, "unit": unit,
            "values": list(values), "index": list(values).index(start)}  # fmt: skip


def among(name: str, value, values: Sequence) -> None:
    """Raise ValueError, with the argument's name, for a value that is not one of these."""
    if value not in values:
        allowed = ", ".join(map(str, values[:12])) + (" ..." if len(values) > 12 else "")
        raise ValueError(f"{name}: {value!r}, but must be one of {allowed}")
