"""A script's own layout among the layouts that its model could have, priced by one engine.

The script's step says which model it trains, how many sequences a step has and how they lie on the
ranks. So its own layout has a price by the engine that prices all others, and what is compared is
the layout alone: the same machine, batch and software.
"""

from dataclasses import dataclass
from textwrap import fill

import numpy as np

from dtlib.composition.planner.costs import Costs
from dtlib.composition.planner.legal import broken_rules
from dtlib.composition.planner.plans import Plan, Plans, plan
from dtlib.composition.planner.reasons import CHOICES, compared, other_fields
from dtlib.composition.planner.script.describe import NEAR, describe_model
from dtlib.composition.planner.script.reader import ScriptError
from dtlib.composition.planner.script.reading import ScriptReading
from dtlib.composition.planner.software import Software
from dtlib.formulas.require import require
from dtlib.formulas.table import Table
from dtlib.formulas.units import format_quantity
from dtlib.layout import POLICIES
from dtlib.layouts import Layouts
from dtlib.machines.machine import Cluster
from dtlib.models.spec import TransformerSpec


@dataclass(frozen=True, eq=False)
class ScriptComparison:
    """What a script's layout takes, beside those that a plan would choose for the same step.

    `own` is a `Plan` of the script's layout alone, `plans` are all that fit, the best first;
    `described` says whether the model was read from the step, or given.
    """

    reading: ScriptReading
    plans: Plans
    own: Plan
    described: bool

    @property
    def faster(self) -> list[Plan]:
        """The layouts of the plan that stand before the script's own."""
        return self.plans[: int(self._before.sum())]

    @property
    def nearest(self) -> Plan | None:
        """The best of the faster ones that differ from the script's in one choice alone."""
        of, own = self.plans.costs.layouts, self.own.layout
        different = np.zeros(len(of), int)
        for name in CHOICES:
            value = getattr(own, name)
            different += getattr(of, name) != (
                POLICIES.index(value) if name == "recompute" else value
            )
        places = np.flatnonzero((different == 1) & self._before)
        return self.plans[int(places[0])] if len(places) else None

    @property
    def _before(self) -> np.ndarray:
        """Which layouts are before the script's own, by more than a rounding."""
        score = self.plans.question.score
        return score(self.plans.costs) < (1 - 1e-9) * score(self._own_costs)[0]

    @property
    def _own_costs(self) -> Costs:
        return self.own.plans.costs

    def table(self, count: int = 5) -> Table:
        """The script's layout and the best ones."""
        work, cluster = self.plans.question.work, self.plans.question.cluster
        places = [("script", self.own), *((str(one.place + 1), one) for one in self.plans[:count])]
        rows = [
            (name, str(one.layout), format_quantity(one.time, "s", 3),
             format_quantity(one.memory, "B", 2), f"{one.mfu:.1%}")
            for name, one in places
        ]  # fmt: skip
        title = (
            f"{self.reading.script} on {cluster.ranks:,} x {cluster.node.gpu.name}, "
            f"{work.batch:,} sequences of {work.seq:,} tokens, software {self._software}"
        )
        return Table(title, ("place", "layout", "step", "memory", "MFU"), tuple(rows))

    def explain(self) -> str:
        """Which layout would be faster, by how much and by which causes, with its memory."""
        sentences = [self._said_model(), *self._said_own()]
        if not self.faster:
            sentences.append("No layout that fits is faster than the script's own.")
        else:
            sentences.append(self._said("The best", self.plans[0]))
            near = self.nearest
            if near is not None and near.place:
                sentences.append(self._said("With one other choice, the best", near))
        return "\n".join(fill(one, 82, subsequent_indent="    ") for one in sentences)

    def _said(self, which: str, one: Plan) -> str:
        question, best = self.plans.question, self.plans.costs[[one.place]]
        time, before = (format_quantity(x.time, "s", 3) for x in (one, self.own))
        held, held_before = (format_quantity(x.memory, "B", 3) for x in (one, self.own))
        changes = other_fields(one.layout, self.own.layout)
        more = self.own.time / one.time
        return (
            f"{which}: {changes}: {time} in place of {before}, {more:.2f} times as fast, and "
            f"{held} of memory in place of {held_before}. Against it the script's own "
            f"{compared(question, self._own_costs, best)}."
        )

    def _said_model(self) -> str:
        spec = self.plans.question.work.spec
        how = "as its step shows it" if self.described else "as it was given"
        gates = "gated " if spec.gated else ""
        return (
            f"The model, {how}: {spec.layers} layers, {spec.hidden:,} wide, {spec.heads} heads "
            f"({spec.kv_heads} of keys), {gates}blocks of {spec.ffn:,}, {spec.vocab:,} words: "
            f"{spec.params():,} parameters."
        )

    def _said_own(self) -> list[str]:
        question, own = self.plans.question, self.own
        read, held = (format_quantity(x, "B", 3) for x in (self.reading.peak_bytes, own.memory))
        may, most = (
            format_quantity(question.limit, "B", 3),
            max(self.reading.peak_bytes, own.memory),
        )
        over = f", and a plan may fill {may}" if most > question.limit else ""
        said = [f"Its fullest GPU holds {held} by the account, {read} as read{over}."]
        broken = broken_rules(question.work, own.layout)
        if broken:
            rules = "; ".join(rule.says for rule in broken)
            said.append(f"A plan would not have its layout, which breaks a rule: {rules}.")
        wide = [dtype for dtype in self.reading.shapes.dtypes if not dtype.endswith("float16")]
        if wide:
            said.append(f"It multiplies in {' and '.join(wide)}; all prices are those of 16 bits.")
        return said

    @property
    def _software(self) -> str:
        software = self.plans.question.software
        return software.name if isinstance(software, Software) else software

    def __repr__(self) -> str:
        return f"{self.table()!r}\n\n{self.explain()}"


def compare_script(
    reading: ScriptReading,
    cluster: Cluster,
    model: TransformerSpec | None = None,
    *,
    software: str | Software = "fsdp",
    **choices,
) -> ScriptComparison:
    """Price a script's layout beside those that the planner would choose for the same step.

    Arguments: `reading`, of `read_script`; `cluster` of as many ranks; `model`, where the step does
    not show it (`describe_model`); `software`, the profile by which all are priced, one that trains
    in plain PyTorch if none is named; `choices` as for `plan`. Batch and sequence are the step's.
    Returns a `ScriptComparison`. Raises ScriptError for a step that does not show its model, or not
    how all ranks share it, and for a model of another size than the script's; ValueError for a
    cluster of other ranks, and where no layout is legal or fits.
    """
    of, described = reading.layout, model is None
    allowed = f"{reading.ranks}, those that the script was read for"
    same = cluster.ranks == reading.ranks
    require(same, "compare_script", "the ranks of cluster", cluster.ranks, allowed)
    if of.ranks != reading.ranks:
        raise ScriptError(
            f"{reading.script}: its step shows how {of.ranks} ranks share the work, but not what "
            f"the {reading.ranks} of the world do ({reading.reason}): nothing to compare"
        )
    spec = describe_model(reading) if described else _of_that_size(model, reading)
    batch = of.dp * of.micro_batch * reading.micro_batches
    seq = _tokens(reading)
    plans = plan(spec, cluster, batch=batch, seq=seq, software=software, **choices)
    own = plans.question.costs(Layouts.of([of], spec.layers))
    nothing = own[:0]
    alone = Plans(plans.question, {}, own, nothing)
    return ScriptComparison(reading, plans, alone[0], described)


def _of_that_size(model: TransformerSpec, reading: ScriptReading) -> TransformerSpec:
    """The given model, if the script has as many parameters, or its rank between a part and all."""
    count, whole = reading.param_count, model.params()
    part = whole / (reading.layout.tp * reading.layout.pp)
    if not (1 - NEAR) * part <= count <= (1 + NEAR) * whole:
        raise ScriptError(
            f"{reading.script}: --model {model.name!r} has {whole:,} parameters, but the script "
            f"{count:,}"
        )
    return model


def _tokens(reading: ScriptReading) -> int:
    """Tokens of a sequence: those of attention, or of the model's input."""
    if reading.shapes.attention:
        return reading.shapes.attention[0][0].tokens * reading.layout.cp
    if len(reading.batch) > 1:
        return reading.batch[1] * reading.layout.cp
    raise ScriptError(f"{reading.script}: its step does not show how long a sequence is")
