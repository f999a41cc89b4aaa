"""Groups that the reader's ranks make in memory: a call of all ranks, as it really is."""

from collections.abc import Callable, Sequence
from typing import Any

from dtlib.exercises.judge import items, whole
from dtlib.exercises.worlds.threads import world_of
from dtlib.exercises.worlds.world import TransportError


def record_groups(program: Callable, size: int, *args: Any, timeout: float = 20.0) -> list:
    """Run ``program(new_group, rank, *args)`` on ``size`` ranks; for each its result and its calls.

    ``new_group(members)`` returns once all ranks have called it, members or not, and gives the
    members in ascending order, as torch does. Raises `TransportError` where two ranks name others
    in the same call, and `Deadlock` where a rank waits for a call that another one never makes.

    >>> record_groups(lambda new_group, rank: new_group([1, 0]), 2)
    [((0, 1), [(0, 1)]), ((0, 1), [(0, 1)])]
    """
    world = world_of(size)
    made: list[list] = [world.diary(rank, []) for rank in range(size)]

    def late(number: int) -> int | None:
        return next((rank for rank in range(size) if len(made[rank]) <= number), None)

    def run(rank: int) -> tuple:
        def new_group(members: Sequence[int]) -> tuple[int, ...]:
            group = tuple(sorted(_ranks(members)))
            with world.lock:
                number = len(made[rank])
                made[rank].append(group)
                world.lock.notify_all()
                says = f"waits in new_group({[*group]}), its call {number + 1}, for"
                world.until(rank, lambda: late(number), says)
            _check_alike(made, number)
            return group

        return program(new_group, rank, *args), [*made[rank]]

    return world.run(run, timeout)


def _ranks(members: Any) -> list[int]:
    count = len(members) if hasattr(members, "__len__") else 0
    return [whole(one, "a member") for one in items(members, "a group", count)]


def _check_alike(made: list[list], number: int) -> None:
    first = made[0][number]
    for rank, calls in enumerate(made):
        if calls[number] != first:
            raise TransportError(
                f"call {number + 1} is new_group({[*first]}) on rank 0, but "
                f"new_group({[*calls[number]]}) on rank {rank}: all ranks make the same calls in "
                "the same order"
            )
