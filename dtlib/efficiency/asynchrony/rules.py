"""What a parameter server does with a gradient that arrives, and who may go on.

The nouns:

- **Worker**: reads the weights, computes a gradient there, sends it, and waits for a reply.
- **Version**: how many updates the weights have had.
- **Staleness** of a gradient: the updates between the reading of its weights and its arrival.
- **Rule**: a state machine, which the simulator and the server on real ranks both ask.
"""

from dataclasses import dataclass

from dtlib.formulas.require import require_count


@dataclass(frozen=True)
class Reply:
    """To one arrival: `used`, workers whose gradients make one update together; `released`, who
    may read the weights after it and go on. Either may be empty."""

    used: tuple[int, ...] = ()
    released: tuple[int, ...] = ()


class Rule:
    """The base of all rules: it counts versions, and what each worker has read.

    Arguments: `P`, the number of workers, which are 0 to P - 1. Attributes: `version`; `read`, the
    version that each worker read last; `clock`, how often each has arrived; `waiting`, the workers
    that have no reply yet. Subclasses say `decide`.
    """

    def __init__(self, P: int):
        require_count(type(self).__name__, P=P)
        self.P, self.version = P, 0
        self.read, self.clock = [0] * P, [0] * P
        self.waiting: set[int] = set()

    def arrive(self, worker: int) -> Reply:
        """Take note of an arrival, and answer it."""
        self.clock[worker] += 1
        self.waiting.add(worker)
        reply = self.decide(worker)
        self.version += bool(reply.used)
        for each in reply.released:
            self.read[each] = self.version
        self.waiting -= set(reply.released)
        return reply

    def decide(self, worker: int) -> Reply:
        """Who is used, and who may go on, after this worker's arrival."""
        raise NotImplementedError


class Asynchronous(Rule):
    """Nobody waits: each gradient is an update, and its worker goes on at once."""

    def decide(self, worker: int) -> Reply:
        """This worker's gradient, and this worker."""
        return Reply((worker,), (worker,))


class StaleSynchronous(Rule):
    """As asynchronous, but a worker that is ahead by more than `slack` rounds must wait.

    Whoever is fast is blocked before it *reads*; a slow worker is never blocked, since it is the
    one that the others wait for. Raises ValueError for a slack below 0. Source: Ho et al. 2013.

    >>> rule = StaleSynchronous(2, slack=1)
    >>> [rule.arrive(worker).released for worker in (0, 0, 1)]
    [(0,), (), (1, 0)]
    """

    def __init__(self, P: int, slack: int):
        super().__init__(P)
        require_count(type(self).__name__, least=0, slack=slack)
        self.slack = slack

    def decide(self, worker: int) -> Reply:
        """This worker's gradient; all that wait and are no longer too far ahead."""
        last = min(self.clock)
        free = [w for w in self.waiting if self.clock[w] - last <= self.slack]
        return Reply((worker,), tuple(sorted(free, key=lambda w: (w != worker, w))))


class Synchronous(Rule):
    """One update is the mean of P - `backups` gradients at the present weights.

    Gradients of the slowest `backups` come too late, and are dropped. Without backups it is
    synchronous training. Raises ValueError where no worker is left. Source: Chen et al. 2016.

    >>> rule = Synchronous(3, backups=1)
    >>> [rule.arrive(worker).used for worker in (0, 2, 1)]
    [(), (0, 2), ()]
    """

    def __init__(self, P: int, backups: int = 0):
        super().__init__(P)
        require_count(type(self).__name__, least=0, backups=backups)
        require_count(type(self).__name__, **{"P - backups": P - backups})
        self.backups = backups

    def decide(self, worker: int) -> Reply:
        """Nothing until enough have arrived; a late worker goes on, its gradient unused."""
        if self.read[worker] < self.version:
            return Reply((), (worker,))
        if len(self.waiting) < self.P - self.backups:
            return Reply()
        together = tuple(sorted(self.waiting))
        return Reply(together, together)
