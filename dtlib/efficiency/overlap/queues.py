"""Kernels in streams on one GPU: what starts when, and how fast it runs.

The nouns:

- **Kernel**: work that a stream carries out. It wants a share of the GPU's multiprocessors (SMs).
- **Stream**: kernels of one stream run one after the other, in the order of their launches. Streams
  are promises of what must wait; nobody promises that two of them run at once.
- **Event**: what makes a kernel wait for one of another stream.
- **Connection**: a queue of the hardware. Streams share the connections, in the order of their
  first launches. A kernel at the head of a connection that must wait keeps all behind it waiting,
  whatever their streams, until it has started.
- **Share**: a kernel starts once its least share is free, and keeps what it has until it ends;
  there are no priorities. What becomes free goes to kernels that wait, the longest wait first, then
  to those that run with less than they want.

Times and shares may be numbers of any kind; with fractions every result is exact.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from dtlib.timeline import KINDS, Span, Timeline

_ROUNDING = Fraction(1, 10**12)  # shares that are floats do not add up to 1 exactly


class Kernel(NamedTuple):
    """What is launched: ``seconds`` is its time with all the SMs that it wants, ``sms``.

    It starts with ``least`` of them (0: as soon as any is free), after the kernels before it in its
    ``stream`` and after those named in ``after``.
    """

    name: str
    stream: str
    seconds: object
    kind: str = "forward"
    sms: object = 1
    least: object = 0
    after: tuple[str, ...] = ()


def computing(name: str, seconds, kind: str = "forward", after: Sequence[str] = ()) -> Kernel:
    """A kernel that takes all SMs that it can get, in the stream "compute"."""
    return Kernel(name, "compute", seconds, kind, after=tuple(after))


def communicating(name: str, seconds, sms=0, after: Sequence[str] = ()) -> Kernel:
    """A collective: it needs its ``sms`` to start, all of them, in the stream "network"."""
    return Kernel(name, "network", seconds, "communication", sms, sms, tuple(after))


def simulate_queues(
    kernels: Iterable[Kernel], connections: int | None = None, launch=0, signal=0
) -> Timeline:
    """When each kernel runs, for a host that launches them in this order.

    Equation: a kernel starts when it is launched, what it waits for is over, all that were launched
    before it in its connection have started, and its least share is free; it then advances at the
    share that it has over the share that it wants.
    Arguments: `kernels`; `connections` of the GPU, None: one for each stream; `launch`, time that
    the host takes for each kernel; `signal`, time until an event is seen by another stream.
    Returns a Timeline of one rank with a lane for each stream.
    Raises ValueError for two kernels of one name, a share that is not within 0 and 1, a wait for a
    kernel that is not launched before. Source: the words above, one line each.

    >>> step = [computing("B0", 4), communicating("R0", 4, 0.25, ["B0"]), computing("B1", 6)]
    >>> simulate_queues(step).spans[1:]
    [Span(rank=0, lane='network', name='R0', start=4, stop=8, kind='communication'), \
Span(rank=0, lane='compute', name='B1', start=4, stop=11.0, kind='forward')]
    """
    kernels = list(kernels)
    _check(kernels)
    device = _Device(kernels, connections, launch, signal)
    while device.waiting or device.running:
        device.begin()
        device.advance()
    return Timeline(
        Span(0, k.stream, k.name, *device.times[i], k.kind) for i, k in enumerate(kernels)
    )


class _Device:
    """The GPU at the moment ``now``: what waits, what runs with which share, what is over."""

    def __init__(self, kernels: list[Kernel], connections: int | None, launch, signal):
        self.kernels, self.signal, self.now = kernels, signal, 0
        streams = list(dict.fromkeys(kernel.stream for kernel in kernels))
        count = len(streams) if connections is None else connections
        if count < 1:
            raise ValueError(f"connections must be at least 1; got {connections}")
        self.connection = {stream: i % count for i, stream in enumerate(streams)}
        self.launched = [launch * (i + 1) for i in range(len(kernels))]
        self.awaited = _awaited(kernels)
        self.waiting = list(range(len(kernels)))
        self.running: dict[int, list] = {}  # kernel: [share, seconds to go at full share]
        self.times: dict[int, tuple] = {}
        self.ended: dict[int, object] = {}

    def begin(self) -> None:
        """Start what can start, the longest wait first; hand out what is left over."""
        while startable := sorted(self._startable()):
            _, i = startable[0]
            kernel = self.kernels[i]
            self.waiting.remove(i)
            held = min(kernel.sms, max(kernel.least, self._free()))
            self.running[i] = [held, kernel.seconds]
            self.times[i] = (self.now, None)
        for i, held in self.running.items():
            held[0] = min(self.kernels[i].sms, held[0] + self._free())

    def advance(self) -> None:
        """Go on to the next moment at which something ends or may start."""
        ends = {i: self.now + self._left(i) for i in self.running}
        later = [at for i in self.waiting if (at := self._ready(i)) is not None and at > self.now]
        then = min([*ends.values(), *later])
        for i, end in ends.items():
            if end == then:
                del self.running[i]
                self.times[i] = (self.times[i][0], then)
                self.ended[i] = then
            else:
                self.running[i][1] -= (then - self.now) * self._speed(i)
        self.now = then

    def _startable(self) -> list[tuple]:
        blocked, found = set(), []
        for i in self.waiting:
            queue = self.connection[self.kernels[i].stream]
            if queue in blocked:
                continue
            at = self._ready(i)
            if at is not None and at <= self.now and self._fits(i):
                found.append((at, i))
            blocked.add(queue)
        return found

    def _fits(self, i: int) -> bool:
        kernel, free = self.kernels[i], self._free()
        return free >= kernel.least - _ROUNDING and (free > _ROUNDING or kernel.sms == 0)

    def _ready(self, i: int):
        """When all that it must wait for is over, or None if that is not known yet."""
        ready, stream = self.launched[i], self.kernels[i].stream
        for j in self.awaited[i]:
            if j not in self.ended:
                return None
            delay = 0 if self.kernels[j].stream == stream else self.signal
            ready = max(ready, self.ended[j] + delay)
        return ready

    def _free(self):
        return 1 - sum(share for share, _ in self.running.values())

    def _speed(self, i: int):
        share, wants = self.running[i][0], self.kernels[i].sms
        return 1 if share == wants else share / wants

    def _left(self, i: int):
        left, speed = self.running[i][1], self._speed(i)
        return left if speed == 1 else left / speed


def _awaited(kernels: list[Kernel]) -> list[list[int]]:
    """For each kernel the last one before it in its stream, and those that it names."""
    found, last, number = [], {}, {kernel.name: i for i, kernel in enumerate(kernels)}
    for i, kernel in enumerate(kernels):
        before = [last[kernel.stream]] if kernel.stream in last else []
        found.append(before + [number[name] for name in kernel.after])
        last[kernel.stream] = i
    return found


def _check(kernels: list[Kernel]) -> None:
    known: set[str] = set()
    for kernel in kernels:
        if kernel.name in known:
            raise ValueError(f"two kernels are called {kernel.name!r}")
        if not 0 <= kernel.least <= kernel.sms <= 1:
            raise ValueError(
                f"kernel {kernel.name!r}: 0 <= least <= sms <= 1; got least = {kernel.least}, "
                f"sms = {kernel.sms}"
            )
        if kernel.kind not in KINDS or kernel.seconds < 0:
            raise ValueError(
                f"kernel {kernel.name!r}: seconds of at least 0 and a kind of {', '.join(KINDS)}; "
                f"got {kernel.seconds} and {kernel.kind!r}"
            )
        if missing := [name for name in kernel.after if name not in known]:
            raise ValueError(
                f"kernel {kernel.name!r} waits for {missing[0]!r}, which is not launched before it"
            )
        known.add(kernel.name)
