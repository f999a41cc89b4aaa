"""Collective communication: schedules as data, and what can be done with one.

``schedule`` has the nouns, ``algorithms`` the builders, ``check`` the proofs, ``cost`` and
``topology`` the times, ``execute`` the real ranks and ``draw`` the figures.
"""

from dtlib.collectives.algorithms import (
    double_binary_tree_all_reduce,
    double_binary_tree_reduce,
    flat_all_reduce,
    flat_reduce,
    halving_doubling_all_gather,
    halving_doubling_all_reduce,
    halving_doubling_reduce_scatter,
    pairwise_all_to_all,
    recursive_doubling_all_reduce,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    tree_all_reduce,
    tree_broadcast,
    tree_reduce,
)
from dtlib.collectives.check import (
    ScheduleError,
    check_all_gather,
    check_all_reduce,
    check_all_to_all,
    check_broadcast,
    check_reduce,
    check_reduce_scatter,
    states,
)
from dtlib.collectives.schedule import Round, Schedule, Send
