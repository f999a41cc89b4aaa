"""What a configuration says of a run, and the table that says it: a `Program` is `Row`s.

>>> PlannedRun(Layout(dp=8), batch=64, seq=2048).micro_batches
8

A row is one thing of a run: the options of the program's file that say it, how they are written,
how they are read, and what of it the file cannot say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from math import prod
from typing import Any

from dtlib.formulas.require import require, require_count
from dtlib.layout import Layout
from dtlib.models.spec import TransformerSpec

WHOLE_EXPERTS = "the ranks of tp get whole experts, where a Layout cuts each of them"


@dataclass(frozen=True)
class PlannedRun:
    """A layout with the `batch` of a step and the tokens `seq` of a sequence, of a model `spec`.

    What a file did not say is None.
    """

    layout: Layout
    batch: int | None = None
    seq: int | None = None
    spec: TransformerSpec | None = None

    @property
    def micro_batches(self) -> int:
        """How many a rank computes in a step. Raises ValueError for what does not divide."""
        return self.layout.micro_batches(self.batch)

    @property
    def chunks(self) -> list[int]:
        """Layers of each part of the pipeline, in the order in which a token meets them."""
        stages = self.layout.stage_layers(self.spec.layers)
        return [count // self.layout.interleave for count in stages] * self.layout.interleave

    @property
    def is_even(self) -> bool:
        """Whether all stages have the same number of layers."""
        return len(set(self.layout.stage_layers(self.spec.layers))) == 1


@dataclass(frozen=True)
class Configuration:
    """The `text` of a file for a program, and what it does not say.

    `left_out` has a sentence for each field of the run that is read otherwise than it was written,
    `noted` for each that the program takes in a sense of its own. A sentence begins with the name
    and the value of the field.
    """

    kind: str
    text: str
    left_out: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


class Options:
    """What stands in a file, by the name of the option, read with an error that names it.

    Arguments: `owner`, the program with its version; `values`; `gpus` and `layers` of the run,
    where they are known from elsewhere.
    """

    def __init__(self, owner: str, values: Mapping[str, Any], gpus: int | None, layers: int | None):
        self.owner, self.values, self._gpus, self._layers = owner, dict(values), gpus, layers

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def value(self, name: str, default: Any = None) -> Any:
        """What stands there, as it stands."""
        return self.values.get(name, default)

    def count(self, name: str, default: int | None = None, least: int = 1) -> int | None:
        """A whole number. Raises ValueError for anything else."""
        if name not in self.values:
            return default
        value = self.values[name]
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        require_count(self.owner, least, **{name: value})
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false. Raises ValueError for anything else."""
        value = self.values.get(name, default)
        require(isinstance(value, bool), self.owner, name, value, "true or false")
        return value

    def choice(self, name: str, meanings: Mapping[Any, Any], default: Any) -> Any:
        """What the value means. Raises ValueError for one without a meaning."""
        value = self.values.get(name, default)
        known = isinstance(value, str | int | None) and value in meanings
        allowed = f"one of {', '.join(map(repr, meanings))}"
        self.require(known, name, allowed, value)
        return meanings[value]

    def require(self, condition: bool, name: str, allowed: str, value: Any = None) -> None:
        """Raise ValueError, with the option's name and value, unless the condition holds."""
        require(condition, self.owner, name, self.values.get(name, value), allowed)

    def replicas(self, *degrees: str) -> int:
        """The data axis: the GPUs of the run over the product of these degrees."""
        whole = prod(self.count(name, 1) for name in degrees)
        known = "the number of GPUs of the run, which the file does not say"
        require(self._gpus is not None, self.owner, "gpus", self._gpus, known)
        allowed = f"a multiple of {' x '.join(degrees)}, which is {whole}"
        require(self._gpus % whole == 0, self.owner, "gpus", self._gpus, allowed)
        return self._gpus // whole

    def layers(self, because: str) -> int:
        """The layers of the model. Raises ValueError where neither file nor caller says them."""
        known = f"given: {because} depends on the model's layers"
        require(self._layers is not None, self.owner, "spec", None, known)
        return self._layers


def _nothing(_) -> dict:
    return {}


@dataclass(frozen=True)
class Row:
    """One thing of a run in a program's file.

    `options` are its names there; `write` gives their values for a run; `read` gives fields of
    the run for what stands in a file. `lost` gives, for a run, a sentence for each field of it that
    the file does not say, and `noted` for each that it says in a sense of its own.
    """

    options: tuple[str, ...] = ()
    write: Callable[[PlannedRun], dict[str, Any]] = _nothing
    read: Callable[[Options], dict[str, Any]] = _nothing
    lost: Callable[[PlannedRun], dict[str, str]] = _nothing
    noted: Callable[[PlannedRun], dict[str, str]] = _nothing


def degree(name: str, option: str) -> Row:
    """The row of a field of `Layout` that is a number of ranks, and is written as it is."""
    return Row(
        (option,),
        lambda run: {option: getattr(run.layout, name)},
        lambda options: {name: options.count(option, 1)},
    )


def unsaid(name: str, why: str) -> Row:
    """The row of a field for which a program's file has no option, unless it is the plain one."""

    def lost(run: PlannedRun) -> dict[str, str]:
        same = getattr(run.layout, name) == getattr(Layout(), name)
        return {} if same else {name: why}

    return Row(lost=lost)


def expert_ranks(options: Options, name: str, ranks: int, tensor: str, tp: int) -> dict:
    """The experts' degree of so many ranks in option `name`, which take in the `tp` of `tensor`."""
    allowed = f"1 or a multiple of {tensor}, which is {tp}: its expert ranks take in those of tp"
    options.require(ranks == 1 or ranks % tp == 0, name, allowed)
    return {"ep": max(1, ranks // tp)}


def noted_experts(run: PlannedRun, degree: int) -> dict:
    """What is meant otherwise where experts of a `degree` above 1 are beside tensor parallelism."""
    return {"ep": WHOLE_EXPERTS} if run.layout.tp > 1 < degree else {}


def stages_of(options: Options, name: str, sizes: list[int], pp: int) -> dict:
    """The parts and stages of a pipeline, whose parts have these layers, turn by turn."""
    turns = [sizes[stage::pp] for stage in range(pp)]
    alike = all(len(set(turn)) == 1 for turn in turns)
    options.require(alike, name, "parts of one stage that have equally many layers", sizes)
    stages = [sum(turn) for turn in turns]
    found = {"interleave": len(sizes) // pp}
    return found if len(set(stages)) == 1 else found | {"stages": stages}


def lost_sequence(run: PlannedRun) -> dict:
    """What becomes of sequence parallelism where a layer has one rank: nothing."""
    alone = run.layout.sequence_parallel and run.layout.tp == 1
    return {"sequence_parallel": "it is off where tp is 1"} if alone else {}


@dataclass(frozen=True)
class Program:
    """A training program's file: its `rows`, and how its text is made and taken apart.

    `render` makes the text of a run's options; `parse` takes them out of it again, with the `gpus`
    and the `layers` of the model where the text says them. `passed_over` are patterns of options
    that change no layout; `former` says what became of options of earlier versions. `source` is
    where the names were read.
    """

    name: str
    version: str
    source: str
    rows: tuple[Row, ...]
    render: Callable[[PlannedRun, Mapping[str, Any]], str]
    parse: Callable[[str], tuple[dict[str, Any], dict[str, int]]]
    passed_over: tuple[str, ...] = ()
    former: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> list[str]:
        """The names of all options that are written or read, in the order of the rows."""
        return [name for row in self.rows for name in row.options]

    def refuse_unknown(self, values: Mapping[str, Any]) -> None:
        """Raise ValueError, with name and value, for an option that is neither read nor passed."""
        known = self.options
        for name, value in values.items():
            if name in known:
                continue
            said = f"{self.version}: {name} is {value!r}, but"
            if name in self.former:
                raise ValueError(f"{said} that is of another version: now {self.former[name]}")
            if not any(fnmatchcase(name, pattern) for pattern in self.passed_over):
                near = ", ".join(get_close_matches(name, known, n=3, cutoff=0.3))
                raise ValueError(f"{said} no such option is read here; near it are {near}")
