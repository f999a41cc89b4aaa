"""A plan that is written as a program's file and read back is the plan, but for what is said.

The names of the options are held to a table that was read in the programs themselves.
"""

import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from configuration_cases import JSON, RECIPE, REFUSED, SCRIPT
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dtlib.composition.planner.command import cluster_of
from dtlib.composition.planner.configurations.exchange import (
    PROGRAMS,
    read_configuration,
    write_configuration,
)
from dtlib.composition.planner.configurations.runs import PlannedRun
from dtlib.composition.planner.plans import plan
from dtlib.layout import Layout, even_stages
from dtlib.models.published import published_models
from dtlib.models.spec import TransformerSpec

FIELDS = [field.name for field in fields(Layout)]
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


def lost(made, layout: Layout) -> dict[str, Any]:
    """The fields that a file leaves out, by its own account, with their values."""
    values = vars(layout) | {"batch": None, "seq": None, "model": None}
    return {name: values[name] for name in (said.split()[0] for said in made.left_out)}


def unlike(kind: str, spec: TransformerSpec, layout: Layout) -> set[str]:
    """Where what is read differs from what was written, and its own account of that does not."""
    batch, seq = layout.dp * layout.micro_batch * 3, 4096
    made = write_configuration(kind, spec, layout, batch=batch, seq=seq)
    said = lost(made, layout)
    gpus = layout.ranks // (said.get("pp", 1) * said.get("cp", 1))
    again = read_configuration(kind, made.text, gpus=gpus)
    pairs = {name: (getattr(layout, name), getattr(again.layout, name)) for name in FIELDS}
    pairs |= {"batch": (batch, again.batch), "seq": (seq, again.seq)}
    differ = {name for name, (one, other) in pairs.items() if one != other}
    return differ ^ (said.keys() - {"model"})


@pytest.mark.parametrize("kind", PROGRAMS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_exactly_what_is_said_to_be_left_out_is_read_otherwise(kind, data):
    layout = data.draw(layouts(LLAMA.layers))
    counts = layout.stages or even_stages(LLAMA.layers, layout.pp)
    assume(all(count % layout.interleave == 0 for count in counts))
    assert unlike(kind, LLAMA, layout) == set()


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_plain_layout_comes_back_whole(kind):
    layout = Layout(dp=8, zero=3, micro_batch=2)
    made = write_configuration(kind, LLAMA, layout, batch=64, seq=8192)
    assert read_configuration(kind, made.text, gpus=8).layout == layout
    said = {sentence.split()[0] for sentence in made.left_out}
    assert said == ({"model", "seq"} if kind == "deepspeed" else set())


# Sabotage: rows that write nothing. What is not of the layout nobody misses, nor the launcher's
# GPUs where the reader gives them.
SEVERAL = [
    Layout(tp=2, pp=2, dp=4, zero=2, interleave=2, micro_batch=2, sequence_parallel=True),
    Layout(cp=2, dp=4, ep=2, zero=2, flash=False, recompute="full", offload=("optimizer",)),
    Layout(tp=2, dp=2, recompute="selective"),
]
NOT_MISSED = {
    "torchtitan": ["training.disable_cuda_graphs"],
    "megatron": ["--nnodes", "--num-layers", "--bf16"],
    "deepspeed": ["bf16.enabled"],
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_row_that_forgets_to_write_is_missed(kind, monkeypatch):
    program, not_missed = PROGRAMS[kind], []
    for place, row in enumerate(program.rows):
        runs = [PlannedRun(layout, layout.dp * 12, 4096, LLAMA) for layout in SEVERAL]
        if not any(map(row.write, runs)):
            continue
        rows = [*program.rows]
        rows[place] = replace(row, write=lambda run: {})
        monkeypatch.setitem(PROGRAMS, kind, replace(program, rows=tuple(rows)))
        if all(comes_back(kind, layout) for layout in SEVERAL):
            not_missed.append(row.options[0])
    assert not_missed == NOT_MISSED[kind]


LOSING = [
    *(Layout(dp=2, tp=2, pp=2, zero=zero, ep=2, interleave=2, flash=False,
             recompute=("attention output",), sequence_parallel=True,
             offload=("optimizer", "activations")) for zero in (0, 1)),
    Layout(sequence_parallel=True, zero=3, recompute="full", segment=2, offload=("activations",)),
    Layout(pp=2, stages=[15, 17]),
    Layout(tp=2, cp=2),
]  # fmt: skip


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_row_that_hides_what_it_loses_is_seen(kind, monkeypatch):
    program = PROGRAMS[kind]
    for place, row in enumerate(program.rows):
        runs = [PlannedRun(layout, layout.dp * 12, 4096, LLAMA) for layout in LOSING]
        losing = [run.layout for run in runs if row.lost(run)]
        hiding = [*program.rows]
        hiding[place] = replace(row, lost=lambda run: {})
        monkeypatch.setitem(PROGRAMS, kind, replace(program, rows=tuple(hiding)))
        assert not any(comes_back(kind, layout) for layout in losing), row


@pytest.mark.parametrize("kind", ["torchtitan", "megatron"])
def test_what_a_program_would_refuse_is_noted(kind):
    layout = Layout(pp=2, interleave=2)
    for batch, refused in ((8, False), (5, True)):
        made = write_configuration(kind, LLAMA, layout, batch=batch, seq=4096)
        assert refused == any("it refuses 5 micro-batches" in said for said in made.noted)


def comes_back(kind: str, layout: Layout) -> bool:
    try:
        return not unlike(kind, LLAMA, layout)
    except ValueError:
        return False


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_names_of_options_are_those_of_the_program(kind):
    known = [name for names in KNOWN[kind]["options"].values() for name in names]
    assert sorted(known) == sorted(PROGRAMS[kind].options)
    assert KNOWN[kind]["commit"] in PROGRAMS[kind].source


@pytest.mark.parametrize("spec", published_models.values(), ids=lambda spec: spec.name)
@pytest.mark.parametrize("kind", PROGRAMS)
def test_every_published_model_is_written(kind, spec):
    layout = Layout(tp=4, dp=8, ep=8 if spec.moe else 1, zero=1)
    made = write_configuration(kind, spec, layout, batch=64, seq=1024)
    assert read_configuration(kind, made.text, gpus=32).layout.tp == 4
    absent = {"megatron": False, "deepspeed": True}
    in_registry = spec.name.startswith(("llama-3", "deepseek"))
    said = any(sentence.startswith("model") for sentence in made.left_out)
    assert said == absent.get(kind, not in_registry)


def test_a_megatron_script_has_its_own_number_of_gpus():
    layout = Layout(tp=8, pp=2, dp=3)
    made = write_configuration("megatron", LLAMA, layout, batch=6, seq=4096)
    assert read_configuration("megatron", made.text) == PlannedRun(layout, 6, 4096)


def test_files_as_people_write_them_are_read():
    split = Layout(tp=2, pp=4, dp=8, zero=2, micro_batch=2, sequence_parallel=True,
                   recompute="full", stages=[8, 9, 8, 7])  # fmt: skip
    assert read_configuration("torchtitan", RECIPE, gpus=64, spec=LLAMA).layout == split
    script = read_configuration("megatron", SCRIPT)
    assert (script.batch, script.seq) == (256, 4096)
    assert script.layout == Layout(tp=4, pp=4, dp=4, zero=3, recompute="selective", flash=False,
                                   stages=[6, 8, 8, 8])  # fmt: skip
    found = read_configuration("deepspeed", JSON, gpus=16)
    assert found == PlannedRun(Layout(dp=16, zero=3, micro_batch=4, offload=("optimizer",)), 256)


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_no_layout_can_mean_is_refused(name):
    kind, text, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        read_configuration(kind, text)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_another_number_of_gpus_is_refused(kind):
    made = write_configuration(kind, LLAMA, Layout(dp=8), batch=8, seq=4096)
    with pytest.raises(ValueError, match="gpus is"):
        read_configuration(kind, made.text, gpus=12)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_what_a_layout_does_not_divide_is_not_written(kind):
    with pytest.raises(ValueError, match="Layout: batch is 12, but must be a multiple of"):
        write_configuration(kind, LLAMA, Layout(dp=8), batch=12, seq=4096)
    with pytest.raises(ValueError, match="Layout: pp is 3, but must be a divisor of the 32 layers"):
        write_configuration(kind, LLAMA, Layout(pp=3), batch=12, seq=4096)


def test_a_file_is_judged_by_the_planner():
    plans = plan(LLAMA, cluster_of("h100", 64), batch=512, seq=8192)
    other = Layout(tp=4, dp=16, zero=1, sequence_parallel=True)
    script = write_configuration("megatron", LLAMA, other, batch=512, seq=8192).text
    run = read_configuration("megatron", script)
    assert plans.why_not(run.layout) == plans.why_not(other)
    assert str(other) in plans.why_not(run.layout)
