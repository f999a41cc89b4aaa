"""In which order units run, on all ranks alike: who gathers another unit gets wrong numbers.

A gather of a unit is one collective of all ranks. Where two ranks gather different units of the
same size, each gets a part of either, and nothing fails. So the ranks agree on the order: in a
first pass each unit is **announced**, by a few bytes, before it is gathered. A pass that goes as
the one before sends nothing. One that goes otherwise is announced again, and so are all after it.
"""

import torch
import torch.distributed as dist

from dtlib.memory.zero.units import Unit, different
from dtlib.runtime.process_group import ranks_of


class RunOrder:
    """Which unit runs after which, in forward passes or in backward passes.

    Arguments: the `units`, in the same order on all ranks; their `group`; `then`, the order of the
    backward pass, for that of a forward pass. Raises RuntimeError, on every rank, where ranks run
    different units. (Where some ranks differ from a pass before, the others' next message is a
    gather, in which the former take part and **object**. Only in a backward pass, or with weights
    kept for it, it may be a reduction; then those that differ wait for an answer.)
    """

    def __init__(self, units: list[Unit], group, then: "RunOrder | None" = None):
        self.units, self.group, self._then = list(units), group, then
        self.rank, self.P = ranks_of(group)
        self.before: list[Unit | None] = []
        self.ran: list[Unit | None] = []
        self.announces, self.varies = True, False

    def begin(self) -> None:
        """A pass begins; nothing has run."""
        self.ran = []

    def run(self, unit: Unit | None) -> None:
        """This unit is next on every rank (None: no further one), or an error is."""
        expected = self.before[len(self.ran) :]
        self.ran.append(unit)
        if not self.announces and expected[:1] != [unit]:
            self._object(unit, [u for u in expected if u])
            self.announces = self.varies = True
        if self.announces:
            self._announce(unit)

    def end(self) -> None:
        """The pass is over, on every rank, or an error comes."""
        self.run(None)
        self.before, self.announces = self.ran, self.varies

    def ahead(self, count: int) -> list[Unit]:
        """What came next in the pass before."""
        place = len(self.ran)
        if self.before[place - 1 : place] != self.ran[-1:]:
            return []
        return [unit for unit in self.before[place : place + count] if unit]

    def _object(self, unit: Unit | None, expected: list[Unit]) -> None:
        """Say in the next gather of ranks that go on as before that this one does not."""
        if self._then is None:
            return
        for ahead in expected:
            if ahead.under_way:
                ahead.gather()  # another rank may have objected to it
        following = self._then if torch.is_grad_enabled() else self
        later = [u for u in following.before[:1] if u and not u.keep]
        to_come = [u for u in expected if not u.under_way] + later
        if to_come and (others := to_come[0].object()):
            raise RuntimeError(different(self.rank, unit, others))

    def _announce(self, unit: Unit | None) -> None:
        numbers = torch.zeros(self.P, dtype=torch.int64, device=self.units[0].flats[0].own.device)
        numbers[self.rank] = len(self.units) if unit is None else self.units.index(unit)
        dist.all_reduce(numbers, group=self.group)
        seen = numbers.tolist()
        if others := [rank for rank, number in enumerate(seen) if number != seen[self.rank]]:
            raise RuntimeError(different(self.rank, unit, others))
