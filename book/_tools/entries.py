"""What the checks of listed entries share: fields, names, anchors, and how problems are told."""

import sys
from collections.abc import Collection, Iterable, Mapping


def fields_problem(entry: Mapping, needed: Iterable[str], known: Collection[str]) -> str:
    """Which fields an entry lacks or has too many, or ''.

    >>> fields_problem({"claim": ""}, ["claim"], ["claim"])
    'lacks claim; known: claim'
    >>> fields_problem({"claim": "x", "clam": "y"}, ["claim"], ["claim"])
    'has unknown clam; known: claim'
    """
    missing = [field for field in needed if not entry.get(field)]
    unknown = sorted(entry.keys() - set(known))
    if not missing and not unknown:
        return ""
    told = f"lacks {', '.join(missing)}" if missing else f"has unknown {', '.join(unknown)}"
    return f"{told}; known: {', '.join(known)}"


def repeated(names: Collection[str]) -> list[str]:
    """The names that occur more than once, in order.

    >>> repeated(["b", "a", "b"])
    ['b']
    """
    names = list(names)
    return [name for name in sorted(set(names)) if names.count(name) > 1]


def anchor_link(name: str, noun: str) -> str:
    """The mark beside an entry that is the target of links to it, and can be copied."""
    return f'<a class="dt-anchor" id="{name}" href="#{name}" aria-label="Link to this {noun}">#</a>'


def tell(problems: Collection[str]) -> int:
    """Print problems, one on a line; the exit status of a command that found them."""
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0
