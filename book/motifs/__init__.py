"""A chapter's motif: one wide drawing, made by the library from the chapter's schedule or formula.

`marks` is what a motif is made of and how it becomes SVG; the modules named after their parts
have one function for each chapter; `cards` sets a motif on the picture that is shown where the
chapter's address is shared. Nothing here is drawn by hand, and nothing imports torch.
"""

from functools import cache

from book.motifs.marks import Motif


@cache
def motifs() -> dict[str, Motif]:
    """Every chapter that has a motif, with it."""
    from book.motifs import (
        collectives,
        composition,
        efficiency,
        foundations,
        memory,
        parallelism,
        scaling_laws,
    )

    parts = (foundations, scaling_laws, collectives, parallelism, memory, composition, efficiency)
    return {number: draw() for part in parts for number, draw in part.CHAPTERS.items()}
