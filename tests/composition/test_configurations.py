"""A plan that is written as a program's file and read back is the plan, but for what is said.

The names of the options are held to a table that was read in the programs themselves.
"""

import ast
import json
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dtlib.composition.planner.configurations import deepspeed, megatron, torchtitan
from dtlib.composition.planner.configurations.exchange import (
    PROGRAMS,
    read_configuration,
    write_configuration,
)
from dtlib.layout import Layout, even_stages
from dtlib.models.published import published_models
from dtlib.models.spec import TransformerSpec

LLAMA = published_models["llama-3.1-8b"]
KNOWN = tomllib.loads((Path(__file__).parent / "option_names.toml").read_text("utf-8"))


@st.composite
def layouts(draw, layers: int):
    small = st.sampled_from([1, 2, 4, 8])
    pp = draw(small)
    dp, cp = draw(small), draw(st.sampled_from([1, 1, 2, 4]))
    uneven = pp > 1 and draw(st.booleans())
    stages = [*even_stages(layers, pp)] if uneven else None
    interleave = 1
    if uneven:
        stages[0], stages[-1] = stages[0] - 2, stages[-1] + 2
    if pp > 1:
        interleave = draw(st.sampled_from([1, 1, 2]))
    policies = ["none", "selective", "full", ("attention output",)]
    policy = draw(st.sampled_from(policies))
    return Layout(
        tp=draw(small),
        cp=cp,
        pp=pp,
        dp=dp,
        ep=draw(st.sampled_from([n for n in (1, 2, 4, 8) if dp * cp % n == 0])),
        zero=draw(st.integers(0, 3)),
        interleave=interleave,
        stages=stages,
        micro_batch=draw(st.integers(1, 4)),
        sequence_parallel=draw(st.booleans()),
        flash=draw(st.booleans()),
        recompute=policy,
        segment=draw(st.sampled_from([1, 2])) if policy == "full" else 1,
        offload=draw(st.sampled_from([(), ("optimizer",), ("activations",), ("optimizer",
                                      "activations")])),
    )  # fmt: skip


def judge(kind: str, spec: TransformerSpec, layout: Layout, steps: int = 3) -> list[str]:
    """Fields that are read as they were not written, without a sentence that says so."""
    batch, seq = layout.dp * layout.micro_batch * steps, 4096
    made = write_configuration(kind, spec, layout, batch=batch, seq=seq)
    stages = layout.pp if kind == "deepspeed" else 1
    again = read_configuration(kind, made.text, gpus=layout.ranks // stages // lost_cp(made))
    said = {sentence.split()[0] for sentence in made.left_out}
    wrong = [f.name for f in fields(Layout) if differs(f.name, layout, again.layout)]
    wrong += [n for n, v in (("batch", batch), ("seq", seq)) if getattr(again, n) != v]
    return [name for name in wrong if name not in said]


def lost_cp(made) -> int:
    """Ranks of cp, where DeepSpeed has no place for them."""
    lost = [s for s in made.left_out if s.startswith("cp") and "no place" in s]
    return int(lost[0].split()[1].rstrip(":")) if lost else 1


def differs(name: str, one: Layout, other: Layout) -> bool:
    return getattr(one, name) != getattr(other, name)


@pytest.mark.parametrize("kind", PROGRAMS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_what_is_written_is_read_but_for_what_is_said(kind, data):
    layout = data.draw(layouts(LLAMA.layers))
    counts = layout.stages or even_stages(LLAMA.layers, layout.pp)
    assume(all(count % layout.interleave == 0 for count in counts))
    assert judge(kind, LLAMA, layout) == []


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_plain_layout_comes_back_whole(kind):
    layout = Layout(dp=8, zero=3, micro_batch=2)
    made = write_configuration(kind, LLAMA, layout, batch=64, seq=8192)
    assert read_configuration(kind, made.text, gpus=8).layout == layout
    said = {sentence.split()[0] for sentence in made.left_out}
    assert said == ({"model", "seq"} if kind == "deepspeed" else set())


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_row_that_forgets_to_write_is_seen(kind, monkeypatch):
    """Sabotage: each row of the table in turn writes nothing; some layout must come back other."""
    layout = Layout(tp=2, pp=2, dp=4, ep=2, zero=2, interleave=2, micro_batch=2,
                    sequence_parallel=True, recompute="full", offload=("optimizer",))  # fmt: skip
    without = Layout(cp=2, dp=4, zero=2, flash=False)
    program = PROGRAMS[kind]
    silent = []
    for place, row in enumerate(program.rows):
        if row.write(of(layout)) == {} == row.write(of(without)):
            continue
        rows = [*program.rows]
        rows[place] = replace(row, write=lambda run: {})
        monkeypatch.setitem(PROGRAMS, kind, replace(program, rows=tuple(rows)))
        if survives(kind, layout) and survives(kind, without):
            silent.append(row.options[0])
    assert silent == SILENT[kind], "rows whose options no reader needs"


# The model, precision and graphs are not of the layout; the launcher's GPUs are given by hand.
SILENT = {
    "torchtitan": ["training.disable_cuda_graphs"],
    "megatron": ["--nnodes", "--num-layers", "--bf16"],
    "deepspeed": ["bf16.enabled"],
}


def of(layout: Layout):
    from dtlib.composition.planner.configurations.runs import PlannedRun

    return PlannedRun(layout, layout.dp * layout.micro_batch * 3, 4096, LLAMA)


def survives(kind: str, layout: Layout) -> bool:
    try:
        return judge(kind, LLAMA, layout) == []
    except ValueError:
        return False
