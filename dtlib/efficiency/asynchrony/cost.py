"""What meeting seldom saves, and how much of the time those wait who hand over through a queue."""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum

_ALIKE = "ranks are equally fast; a meeting hides behind nothing"
_FULL = "generators never wait for each other; no cap on the age of a sample; long runs"


@formula(r"T_\text{local}", "s", "counting", _ALIKE)
def local_step_time(computing, meeting, inner_steps):
    """One inner step, with its part of the meeting that ends the round.

    >>> local_step_time(computing=1, meeting=8, inner_steps=4)
    3.0
    """
    return computing + meeting / inner_steps


@formula(
    r"T_\text{frags}",
    "s",
    "Douillard et al. 2025",
    "ranks are equally fast; fragments of one size, at even distances in a round",
)
def streamed_step_time(computing, meeting, inner_steps, fragments, hiding_steps):
    """One inner step where the weights meet in fragments, and each hides behind further steps.

    What of a fragment's meeting is longer than the steps that it may hide behind is exposed.

    >>> streamed_step_time(computing=1, meeting=8, inner_steps=4, fragments=2, hiding_steps=3)
    1.5
    """
    return computing + fragments / inner_steps * maximum(
        0, meeting / fragments - hiding_steps * computing
    )


@formula(
    r"i_\text{turns}",
    "",
    "counting",
    "generation ends before training begins, and the other way round",
)
def turns_idle_fraction(generating, training):
    """The share of time for which a trainer is idle that takes turns with its generators.

    Generators are idle for the rest, and for what they wait for the longest sample.

    >>> turns_idle_fraction(generating=3, training=1)
    0.75
    """
    return generating / (generating + training)


@formula(r"i_\text{upd}", "", "the slower side is always busy", _FULL)
def queue_trainer_idle_fraction(generating, training):
    """The share of time for which the trainer waits for samples, when a queue is between the two.

    >>> queue_trainer_idle_fraction(generating=4, training=1)
    0.75
    """
    return maximum(0, 1 - training / generating)


@formula(r"i_\text{gen}", "", "the slower side is always busy", _FULL + ", but that the queue ends")
def queue_generator_idle_fraction(generating, training):
    """The share of time for which generators must wait, when the queue may not grow for ever.

    >>> queue_generator_idle_fraction(generating=1, training=4)
    0.75
    """
    return maximum(0, 1 - generating / training)
