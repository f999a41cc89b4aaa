"""How long a pipeline takes whose first and last stage are longer, and whose messages take time.

A step is as long as the longest path through what waits for what: a pass waits for the one before
it on its rank, and for a message from the stage beside. Nobody can list all paths, but few are ever
the longest. Each formula below is the length of one of them, so the step takes at least that;
`pipeline_time` is the largest, and tests say how often it is the step that is simulated.

All middle stages are equal: ``forward`` and ``backward`` are one's times for a micro-batch, and a
rank of v stages takes v times as long. The first and the last stage take ``first_load`` and
``last_load`` times as long, with their tables, or with fewer layers.

Backwards in time a pipeline is one again: its backward passes go down the stages, as the forward
passes do. So what is said of the filling holds for the draining, with ``backward`` in the place of
``forward``.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil, floor, maximum, minimum, where

_PATH = "the length of one path"
_LOADS = "equal middle stages; the load of an end is the same forward and backward"
_1F1B = f"1F1B on at least two ranks; {_LOADS}"
_ROUNDS = f"interleaved 1F1B on at least two ranks, v at least 2, m a multiple of p; {_LOADS}"


@formula(r"T_\text{round}", "s", _PATH, _LOADS)
def pipeline_round_trip_time(p, v, forward, backward, first_load, last_load, hop_time):
    """The time of one micro-batch by itself: through all stages and back.

    p v stages, the ends with their loads, and a message at each border in each direction.

    >>> pipeline_round_trip_time(4, 1, 1, 2, first_load=1.25, last_load=2, hop_time=0.5)
    18.75
    """
    return (p * v - 2 + first_load + last_load) * (forward + backward) + 2 * (p * v - 1) * hop_time


@formula(r"T_\text{turn}", "s", _PATH, _1F1B)
def pipeline_turn_time(forward, backward, first_load, last_load, hop_time):
    """The lowest part of the last way down and up, or one more backward pass of the first stage.

    >>> pipeline_turn_time(1, 2, first_load=2, last_load=1, hop_time=0.25)
    4
    """
    return maximum(last_load * (forward + backward) + 2 * hop_time, first_load * backward)


@formula(r"T_\text{zigzag}", "s", _PATH, _1F1B)
def pipeline_zigzag_time(p, m, forward, backward, first_load, last_load, hop_time):
    """The time of m - 1 - p turns on a path that goes down the stages and up again, over and over.

    The first stage begins another forward pass when it has done a backward pass, and each stage
    below is one micro-batch less ahead. So the way from a forward pass down to the k-th stage and
    up again is k turns long, and nothing hides its messages. It turns at the last stage or, where
    that is light, at the one before.

    >>> pipeline_zigzag_time(4, 13, 1, 2, first_load=1, last_load=1, hop_time=0.5)
    30.0
    """
    return (m - 1 - p) * (forward + backward + 2 * hop_time) + maximum(
        ceil((m - 1 - p) / p) * ((first_load - 1) * (forward + backward) - 2 * hop_time)
        + floor((m - 1 - p) / p) * (last_load - 1) * (forward + backward),
        ceil((m - 1 - p) / maximum(p - 1, 1))
        * ((first_load - 1) * (forward + backward) - 2 * hop_time),
    )


@formula(r"T_\text{first}", "s", _PATH, _1F1B)
def first_stage_delay_time(p, m, forward, backward, first_load, last_load, hop_time):
    """How much longer than a round trip the step is where the first stage sets the pace.

    The first micro-batch goes down and up, then the first stage does its other turns, alone or as
    the top of a zigzag; the last micro-batch goes down and up again. With fewer micro-batches than
    stages it has its other backward passes left when the first has come back.

    >>> first_stage_delay_time(4, 8, 1, 2, first_load=1.25, last_load=1, hop_time=0.25)
    25.5
    """
    return where(
        m > p,
        maximum(
            ((m - 1) * backward + (m - p) * forward) * first_load,
            pipeline_round_trip_time(p, 1, forward, backward, first_load, 0, hop_time)
            - 2 * hop_time
            + pipeline_turn_time(forward, backward, first_load, last_load, hop_time)
            + maximum(
                (m - 1 - p) * first_load * (forward + backward),
                pipeline_zigzag_time(p, m, forward, backward, first_load, last_load, hop_time),
            ),
        ),
        (m - 1) * backward * first_load,
    )


@formula(r"T_\text{middle}", "s", _PATH, _1F1B)
def middle_stages_delay_time(p, m, forward, backward, first_load, last_load, hop_time):
    """How much longer than a round trip the step is where the middle stages set the pace.

    After the first micro-batch a path zigzags between them, with the last stage or without, so that
    nearly every turn has its two messages in the open. There must be a middle stage.

    >>> middle_stages_delay_time(4, 8, 1, 2, first_load=1, last_load=1, hop_time=0.25)
    23.0
    """
    return where(
        minimum(m, p - 1) > 1,
        pipeline_turn_time(forward, backward, first_load, last_load, hop_time)
        + (m - 2) * (forward + backward)
        + 2 * (m - 3) * hop_time
        + maximum(
            -2 * ceil(maximum(m - p, 0) / maximum(p - 2, 1)) * hop_time,
            floor(maximum(m - p, 0) / maximum(p - 1, 1)) * (last_load - 1) * (forward + backward)
            - 2 * ceil(maximum(m - p, 0) / maximum(p - 1, 1)) * hop_time,
        ),
        0,
    )


@formula(r"T_\text{uneven 1F1B}", "s", _PATH, f"1F1B; {_LOADS}")
def one_f_one_b_uneven_time(p, m, forward, backward, first_load, last_load, hop_time):
    """How long a step of 1F1B takes at least, with one stage on a rank.

    One round trip, and the turns of whoever sets the pace: the last stage, which takes one turn
    after the other once the first micro-batch is there, the first, or those between. A rank alone
    does m round trips.

    >>> one_f_one_b_uneven_time(4, 8, 1, 2, first_load=1, last_load=1.5, hop_time=0)
    45.0
    """
    return where(
        p > 1,
        pipeline_round_trip_time(p, 1, forward, backward, first_load, last_load, hop_time)
        + maximum(
            (m - 1) * last_load * (forward + backward),
            maximum(
                first_stage_delay_time(p, m, forward, backward, first_load, last_load, hop_time),
                middle_stages_delay_time(p, m, forward, backward, first_load, last_load, hop_time),
            ),
        ),
        m * pipeline_round_trip_time(p, 1, forward, backward, first_load, last_load, hop_time),
    )


@formula(r"T_\text{filling}", "s", _PATH, _ROUNDS)
def interleaved_fill_time(p, v, forward, first_load, hop_time):
    """How long the last rank waits while interleaved stages are filled.

    The first micro-batch passes p - 1 ranks. Then each of the rank's p v stages but the last waits
    for a micro-batch that goes once round the ring, while the rank does p passes of its own: p
    messages. In the first of these rounds it may wait for p passes of the first stage instead.

    >>> interleaved_fill_time(4, 2, forward=1, first_load=1, hop_time=0.25)
    4.75
    """
    return (
        (p - 1) * (forward + hop_time)
        + (first_load - 1) * forward
        + (v - 2) * p * hop_time
        + maximum((p - 1) * (first_load - 1) * forward, p * hop_time)
    )


@formula(r"T_\text{ring}^\text{first}", "s", _PATH, _ROUNDS)
def first_rank_ring_time(p, v, forward, first_load, hop_time):
    """How long the first rank waits for micro-batches that come round the ring, at the filling.

    >>> first_rank_ring_time(4, 3, forward=1, first_load=0.75, hop_time=0.25)
    2.75
    """
    return (v - 1) * p * hop_time + maximum((p - 1) * (1 - first_load) * forward, 0)


@formula(r"T_\text{wrap}", "s", _PATH, _ROUNDS)
def first_rank_wrap_time(p, v, forward, backward, first_load, last_load, hop_time):
    """How far the first rank is behind if it waits for the first result of the second round.

    The last rank is filled, does its last stage's first p turns and the first pass of the second
    round, and sends it on. Less what the first rank has done itself by then. A lighter last stage
    is no shorter way: the path leads over the rank before it.

    >>> first_rank_wrap_time(4, 2, 1, 2, first_load=1, last_load=1, hop_time=0)
    4
    """
    return (
        interleaved_fill_time(p, v, forward, first_load, hop_time)
        + forward
        + hop_time
        - 2 * p * first_load * forward
        + maximum(
            p * last_load * (forward + backward) - 2 * backward,
            p * (forward + backward) - 4 * backward,
        )
    )


@formula(r"T_\text{return}", "s", _PATH, _ROUNDS)
def first_rank_return_time(p, m, v, forward, backward, first_load, last_load, hop_time):
    """How far the first rank is behind if it waits for the first micro-batch to come back.

    That goes through all stages and up again to the first rank's last stage. Less the forward
    passes that the rank has done by then.

    >>> first_rank_return_time(4, 8, 2, 1, 2, first_load=1, last_load=1, hop_time=0)
    3
    """
    return (
        interleaved_fill_time(p, v, forward, first_load, hop_time)
        + last_load * (forward + backward)
        + (p - 2) * backward
        + (p - 1) * hop_time
        - minimum(m, 2 * p - 1) * first_load * forward
    )


@formula(r"T_\text{behind}", "s", _PATH, _ROUNDS)
def first_rank_wait_time(p, m, v, forward, backward, first_load, last_load, hop_time):
    """How long the first rank waits in all at the filling, or backwards in time at the draining.

    >>> first_rank_wait_time(4, 8, 2, 1, 2, first_load=1, last_load=1, hop_time=0)
    4
    """
    return maximum(
        first_rank_ring_time(p, v, forward, first_load, hop_time),
        where(
            m > p,
            first_rank_wrap_time(p, v, forward, backward, first_load, last_load, hop_time),
            0,
        ),
    )


@formula(r"T_\text{uneven interleaved}", "s", _PATH, _ROUNDS)
def interleaved_uneven_time(p, m, v, forward, backward, first_load, last_load, hop_time):
    """How long a step of interleaved 1F1B takes at least.

    A rank does m (v - 1) middle stages and m of its other one, and waits at both ends. Who waits
    longest with its work is the last rank, the one before it, or the first. Ranks do two forward
    passes more before their first backward pass than the rank below: so in between no message
    holds anybody up.

    >>> interleaved_uneven_time(4, 8, 2, 1, 2, first_load=1, last_load=1, hop_time=0)
    57
    """
    return m * (v - 1) * (forward + backward) + maximum(
        interleaved_fill_time(p, v, forward, first_load, hop_time)
        + interleaved_fill_time(p, v, backward, first_load, hop_time)
        + maximum(
            m * last_load * (forward + backward),
            minimum(p - 2, 1) * ((m - 1 + last_load) * (forward + backward) - 2 * forward),
        ),
        m * first_load * (forward + backward)
        + maximum(
            first_rank_return_time(p, m, v, forward, backward, first_load, last_load, hop_time),
            first_rank_wait_time(p, m, v, forward, backward, first_load, last_load, hop_time),
        )
        + first_rank_wait_time(p, m, v, backward, forward, first_load, last_load, hop_time),
    )


@formula(
    r"T_\text{pipe}^\text{uneven}",
    "s",
    _PATH,
    f"1F1B, interleaved if v is more than 1, which needs p of at least 2 and m = k p; {_LOADS}; "
    "a backward pass at least as long as a forward pass",
)
def pipeline_time(p, m, v, forward, backward, first_load, last_load, hop_time):
    """How long a step of a pipeline takes, from the first forward pass to the last gradient.

    The simulated step is never shorter. With equal stages it is the same; with loads from 0.7 to
    1.5, and messages of at most a tenth of a forward pass, less than a percent longer.

    >>> pipeline_time(4, 8, 1, 1, 2, first_load=1, last_load=1, hop_time=0)
    33
    >>> pipeline_time(4, 8, 2, 0.5, 1, first_load=1, last_load=1, hop_time=0)
    28.5
    """
    return where(
        v > 1,
        interleaved_uneven_time(p, m, v, forward, backward, first_load, last_load, hop_time),
        one_f_one_b_uneven_time(p, m, forward, backward, first_load, last_load, hop_time),
    )
