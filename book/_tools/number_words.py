"""Numbers that a sentence spells out: 'four times', 'two thirds', 'a factor of eight', 'halves'.

>>> [spelled_out(text).value for text in ("twice", "a quarter", "about ten times", "three eighths")]
[2.0, 0.25, 10.0, 0.375]
>>> spelled_out("35 ms") is None
True
"""

import re
from fractions import Fraction

from dtlib.formulas.units import Quantity

_SMALL = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
_SMALL += " sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
CARDINALS = {word: n for n, word in enumerate(_SMALL.split(), 1)}
CARDINALS |= {word: 10 * n for n, word in enumerate(_TENS.split(), 2)}
LARGE = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_PARTS = {"half": 2, "halves": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "seventh": 7}
_PARTS |= {"eighth": 8, "ninth": 9, "tenth": 10, "twelfth": 12, "sixteenth": 16, "twentieth": 20}
_PARTS |= {"hundredth": 100, "thousandth": 1000, "millionth": 10**6}
PARTS = _PARTS | {f"{word}s": n for word, n in _PARTS.items() if not word.startswith("hal")}
WHOLE_WORDS = {
    **dict.fromkeys(("twice", "double", "doubles", "doubled", "doubling", "twofold"), 2),
    **dict.fromkeys(("thrice", "triple", "triples", "tripled", "tripling", "threefold"), 3),
    **dict.fromkeys(("quadruple", "quadruples", "quadrupled", "quadrupling"), 4),
    **dict.fromkeys(("halve", "halves", "halved", "halving"), Fraction(1, 2)),
}
TOLERANCE = 0.1


def spelled_out(text: str) -> Quantity | None:
    """The number that words name, agreeing with what is within a tenth of it; None for digits.

    >>> spelled_out("sevenfold").agrees_with(7.6), spelled_out("sevenfold").agrees_with(7.8)
    (True, False)
    """
    if re.search(r"\d", text):
        return None
    value = _value(re.findall(r"[a-z]+", text.lower().replace("-", " ")))
    return None if value is None else Quantity(float(value), "", TOLERANCE * float(value))


def _value(words: list[str]) -> Fraction | None:
    for i, word in enumerate(words):
        if word in WHOLE_WORDS and not (word == "halves" and i and words[i - 1] in CARDINALS):
            return Fraction(WHOLE_WORDS[word])
        if word.endswith("fold") and word[:-4] in CARDINALS | LARGE:
            return Fraction((CARDINALS | LARGE)[word[:-4]])
        if word in PARTS:
            return _before(words[:i]) / PARTS[word]
    named = [i for i, word in enumerate(words) if word in CARDINALS or word in LARGE]
    return _before(words[: named[-1] + 1]) if named else None


def _before(words: list[str]) -> Fraction:
    """The whole number with which a list of words ends, and 1 where it ends with none."""
    number = {"a", "and"} | set(CARDINALS) | set(LARGE)
    start = len(words)
    while start and words[start - 1] in number:
        start -= 1
    total = group = 0
    for word in words[start:]:
        if word in CARDINALS:
            group += CARDINALS[word]
        elif word == "hundred":
            group = max(group, 1) * 100
        elif word in LARGE:
            total, group = total + max(group, 1) * LARGE[word], 0
    return Fraction(total + group or 1)
