"""Which messages the ranks of a pipeline exchange, in an order that no two ranks can disagree on.

A result that is needed on another rank is one message. All messages are ordered by the time at
which a simulation with actions of one step sends them. Every rank posts its own in this order,
sends and receives alike. This cannot deadlock: of all messages that are not yet delivered, the
earliest is posted at both of its ends, because what they post before it is earlier still, and
delivered. It holds on gloo, where a send waits for its receive, and on a stream of a GPU, which
does one after the other.
"""

from typing import NamedTuple

from dtlib.parallelism.pipeline.play import play
from dtlib.parallelism.pipeline.schedule import PipelineSchedule


class Message(NamedTuple):
    """``src`` sends ``dst`` the output, or the input's gradient, of a stage for a micro-batch.

    ``result`` is ("F" or "B", stage, micro-batch), the action that made it.
    """

    src: int
    dst: int
    result: tuple[str, int, int]


def messages(schedule: PipelineSchedule) -> list[Message]:
    """All messages of a schedule, ordered by the time at which they are sent.

    Arguments: ``schedule``, a legal one. Returns 2 m messages for every border between stages that
    lies between two ranks. Raises KeyError for a schedule that is incomplete.

    >>> from dtlib.parallelism.pipeline import one_f_one_b
    >>> for message in messages(one_f_one_b(2, 2)):
    ...     print(message.src, "→", message.dst, message.result)
    0 → 1 ('F', 0, 0)
    0 → 1 ('F', 0, 1)
    1 → 0 ('B', 1, 0)
    1 → 0 ('B', 1, 1)
    """
    stops = play(schedule).stops
    sent = []
    for src, row in enumerate(schedule.rows):
        for step, when in zip(row, stops[src], strict=True):
            for action in step.actions:
                sent += [(when, src, result) for result in action.gives()]
    found = []
    for _, src, (kind, stage, i) in sorted(sent, key=lambda entry: entry[:2]):
        follower = stage + {"F": 1, "B": -1, "W": schedule.stages}[kind]
        if 0 <= follower < schedule.stages:
            dst = schedule.rank_of(follower, i)
            if dst != src:
                found.append(Message(src, dst, (kind, stage, i)))
    return found
