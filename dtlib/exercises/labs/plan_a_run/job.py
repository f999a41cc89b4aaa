"""The nouns of the lab 'Plan a run': a line, a machine of such lines, a job, and its layouts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dtlib.layout import Layout, divisors
from dtlib.models.spec import TransformerSpec

Samples = Mapping[str, Sequence[tuple[int, float]]]


class Line(NamedTuple):
    """What takes `start` seconds, whatever its size, and `each` seconds for each unit of it.

    >>> Line(start=0.002, each=0.5).time(3)
    1.502
    """

    start: float
    each: float

    def time(self, amount: float) -> float:
        """Seconds for so many units."""
        return self.start + self.each * amount


@dataclass(frozen=True)
class Machine:
    """Ranks that share a machine, as three lines and a number.

    - `ranks`: the processes that train.
    - `cores`: how many of them compute at full pace at once; at most `ranks`.
    - `work`: seconds of one rank that computes alone, forward and backward, for each sequence.
    - `sum`: seconds of one step of an all-reduce, of which P ranks take 2(P - 1), for each byte
      that a rank sends.
    - `hop`: seconds of a message to the next rank, for each byte.
    """

    ranks: int
    cores: float
    work: Line
    sum: Line
    hop: Line


@dataclass(frozen=True)
class Job:
    """What one step trains: a model, `batch` sequences, `seq` tokens of each; 4 bytes a number."""

    spec: TransformerSpec
    batch: int
    seq: int

    @property
    def table(self) -> int:
        """Numbers of the embedding, and as many of the head; tp divides both."""
        return self.spec.vocab * self.spec.hidden

    @property
    def layer_matrices(self) -> int:
        """Numbers of a layer's matrices, which tp divides."""
        parts = self.spec.parameter_parts()
        return (parts["attention"] + parts["feed-forward"]) // self.spec.layers

    @property
    def norm(self) -> int:
        """Numbers of a norm, of which a layer has two, and the head one; all ranks have them."""
        return self.spec.hidden


def lab_job() -> Job:
    """The job of the lab: a GPT of 850,000 parameters, 16 sequences of 64 tokens."""
    spec = TransformerSpec("small GPT", 4, 128, 4, 256, norm="rms", bias=False)
    return Job(spec, batch=16, seq=64)


def all_layouts(job: Job, ranks: int) -> list[Layout]:
    """Every layout of tp, pp and dp on so many ranks, with micro-batches of each size that divides.

    >>> len(all_layouts(lab_job(), 4))
    26
    """
    found = []
    for tp in divisors(ranks):
        for pp in divisors(ranks // tp):
            dp = ranks // (tp * pp)
            fits = job.spec.heads % tp == 0 and job.spec.layers % pp == 0 and job.batch % dp == 0
            sizes = divisors(job.batch // dp) if fits else []
            found += [Layout(tp=tp, pp=pp, dp=dp, micro_batch=b) for b in sizes]
    return found
