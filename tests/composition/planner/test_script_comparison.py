"""A script's model is found again from its step, and its layout is judged as the engine judges."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dtlib.__main__ import main
from dtlib.composition import (
    ScriptError,
    compare_script,
    describe_model,
    plan,
    read_model,
    read_script,
    step_parts,
)
from dtlib.composition.planner.script.reading import ScriptReading
from dtlib.foundations import Cluster, catalog, published_models
from dtlib.layout import Layout
from dtlib.layouts import Layouts
from dtlib.memory.account.many import rank_memories

SCRIPTS = Path(__file__).parent / "scripts"
NODES = Cluster(catalog["dgx-h100"], 2)
USUAL = {"layers": 3, "hidden": 96, "heads": 6, "kv_heads": 2, "ffn": 160, "vocab": 320}
ANY = {
    "--gated --repeat --fused --chunked --micro-batches 3 --ddp": {"gated": True},
    "--by-hand --layer-norm --bias --places --tied --keys 6": {
        "norm": "layer", "bias": True, "positions": 48, "tied": True, "kv_heads": 6,
    },
    "--layers 1 --gated --ffn 96 --keys 3 --qkv-bias": {
        "layers": 1, "gated": True, "ffn": 96, "kv_heads": 3, "qkv_bias": True,
    },
}  # fmt: skip


@cache
def read(name: str, *argv: str) -> ScriptReading:
    return read_script(SCRIPTS / f"{name}.py", 16, argv)


def usual() -> ScriptReading:
    return read("any_gpt", *next(iter(ANY)).split())


@pytest.mark.parametrize("arguments", ANY)
def test_the_sizes_that_a_script_is_given_are_found_again(arguments):
    reading = read("any_gpt", *arguments.split())
    spec = describe_model(reading)
    for name, value in (USUAL | ANY[arguments]).items():
        assert getattr(spec, name) == value, name
    assert spec.params() == reading.param_count
    tokens = reading.micro_batches * 2 * 48
    forward = spec.flops_per_token(48, causal=False, backward=False) * tokens
    assert reading.flops["forward"] == forward


@pytest.mark.parametrize(
    ("name", "argv", "sizes"),
    [
        ("fsdp2_tp_gpt", ("--tp", "4"), (2, 128, 8, 512, 512)),
        ("titan_gpt", (), (2, 128, 8, 512, 512)),
    ],
)
def test_what_tensor_parallelism_divides_is_counted_whole(name, argv, sizes):
    spec = describe_model(read(name, *argv))
    assert (spec.layers, spec.hidden, spec.heads, spec.ffn, spec.vocab) == sizes
    one = read(name, *argv)
    assert abs(spec.params() / one.param_count - 1) < 0.002  # a bias of the head, or no last norm
    other = replace(one, layout=one.layout | {"tp": one.layout.tp * 2, "dp": one.layout.dp // 2})
    with pytest.raises(ScriptError, match="parameters, but"):
        describe_model(other)  # the twin: with another tp the sizes are another model's


def without(reading: ScriptReading, **change) -> ScriptReading:
    return replace(reading, shapes=replace(reading.shapes, **change))


def test_what_is_no_equal_block_is_asked_for():
    """The twins: each thing that the description needs, missing or another."""
    reading = usual()
    shapes = reading.shapes
    [(kind, calls)] = shapes.attention
    more = (*shapes.attention, (replace(kind, heads=3), 1))
    wrong = {
        "no attention was seen": without(reading, attention=()),
        "attention of 2 shapes": without(reading, attention=more),
        "which are no layers": without(reading, attention=((kind, calls + 1),)),
        "tables of 0 widths": without(reading, tables=()),
        "as many columns as a table has words": without(reading, tables=((999, 96),)),
        "no equal blocks": without(reading, products=[p for p in shapes.products if p[1] != 160]),
        "parameters, but": replace(reading, params=2 * reading.params),
        "of a pipeline one stage is seen": replace(reading, layout=Layout(pp=2, dp=8)),
    }
    for said, other in wrong.items():
        with pytest.raises(ScriptError, match=f"{said}.*--model NAME or --config FILE"):
            describe_model(other)


def test_the_scripts_own_layout_has_the_engines_price():
    reading = usual()
    found = compare_script(reading, NODES)
    spec, own = describe_model(reading), Layouts.of([Layout(dp=16, micro_batch=2)], 3)
    of = {"batch": 16 * 2 * 3, "seq": 48}
    parts = step_parts(spec, NODES, own, **of, software="fsdp")
    assert found.own.parts == {cause: float(parts[cause][0]) for cause in found.own.parts}
    assert found.own.memory == rank_memories(spec, own, **of, recipe="mixed", program=None)[0]
    assert found.plans.question.work.batch == 96 and found.described


def test_the_faster_ones_are_those_of_the_plan_that_score_less():
    reading = replace(usual(), layout=Layout(dp=16, micro_batch=2, recompute="full"))
    spec = describe_model(usual())
    found = compare_script(reading, NODES, spec)
    every = plan(spec, NODES, batch=96, seq=48, software="fsdp")
    assert [one.layout for one in every] == [one.layout for one in found.plans]
    scores = [one.time * (1.15 if one.layout.pp > 1 else 1) for one in every]
    before = [one.layout for one, score in zip(every, scores, strict=True)
              if score < 0.999999 * found.own.time]  # fmt: skip
    assert [one.layout for one in found.faster] == before != []
    fields = ("tp", "pp", "cp", "ep", "zero", "interleave", "micro_batch", "recompute")
    near = [
        at
        for at in before
        if sum(getattr(at, f) != getattr(reading.layout, f) for f in fields) == 1
    ]
    assert found.nearest.layout == near[0]
    said = found.explain()
    assert "The best: " in said and "as it was given" in said and "times as fast" in said
    assert f"{found.own.time / every[0].time:.2f} times" in " ".join(said.split())


def test_the_best_layout_has_nothing_that_is_faster():
    """The twin: a script that has the plan's first layout is told so."""
    first = compare_script(usual(), NODES).plans[0].layout
    rounds = 96 // (first.dp * first.micro_batch)
    reading = replace(usual(), layout=first, micro_batches=rounds)
    found = compare_script(reading, NODES, describe_model(usual()))
    assert found.faster == [] and found.nearest is None
    assert "No layout that fits is faster" in found.explain()


def test_what_cannot_be_compared_is_one_error():
    reading, spec = usual(), describe_model(usual())
    with pytest.raises(ScriptError, match="how 8 ranks share the work, but not what the 16"):
        compare_script(replace(reading, layout=Layout(dp=8)), NODES)
    with pytest.raises(
        ScriptError, match="--model 'gpt2' has 124,439,808 parameters, but the script"
    ):
        compare_script(reading, NODES, published_models["gpt2"])
    with pytest.raises(ValueError, match=r"none of .* legal layouts fits"):
        compare_script(reading, NODES, spec, usable=1e-9)
    with pytest.raises(ValueError, match="the ranks of cluster is 8, but must be 16"):
        compare_script(reading, Cluster(catalog["dgx-h100"], 1))


COMMAND = ["plan", "--script", str(SCRIPTS / "any_gpt.py"), "--gpus", "16", "--gpu", "h100"]
GIVEN = ["--args", next(iter(ANY))]


def test_a_script_is_compared_from_a_terminal(capsys):
    assert main([*COMMAND, *GIVEN, "--json", "--assert", "memory < 75 GB", "time < 1 us"]) == 1
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["model_sizes"]["kv_heads"] == 2 and told["model_is_read"]
    assert told["own"]["layout"]["dp"] == 16 and told["own"]["fits"]
    assert told["own"]["seconds"] == pytest.approx(sum(told["own"]["parts"].values()))
    assert told["own"]["seconds"] >= told["plans"][0]["seconds"]
    assert "time < 1 us does not hold" in err and len(told["broken_assertions"]) == 1


MLP = """
import torch
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "more", "said", "shown"),
    [
        (MLP, (), "train.py: no attention was seen in its forward pass", True),
        ("print('done')", (), "but a reading needs two optimizer steps", False),
        (MLP, ("--batch", "4"), "--batch 4: a script has its own", False),
        (MLP, ("--config", "nowhere.json"), "nowhere.json", False),
        (MLP, ("--model", "gpt-9"), "--model 'gpt-9': not known", False),
    ],
)
def test_bad_input_is_exit_status_2_and_one_line(capsys, tmp_path, text, more, said, shown):
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    asked = ["plan", "--script", str(tmp_path / "train.py"), "--gpus", "1", *more]
    assert main(asked) == 2
    out, err = capsys.readouterr()
    assert said in err and err.startswith("plan: ") and err.count("\n") == 1
    assert ("a step computes" in out) == shown


def test_a_script_that_is_not_there_is_named(capsys):
    assert main(["plan", "--script", "nowhere.py", "--gpus", "8"]) == 2
    assert "path is 'nowhere.py', but must be a file" in capsys.readouterr().err


LLAMA = {
    "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "vocab_size": 128256,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "max_position_embeddings": 131072, "tie_word_embeddings": False,
}  # fmt: skip
MIXTRAL = LLAMA | {
    "model_type": "mixtral",
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
GPT2 = {
    "model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257,
    "n_positions": 1024, "n_inner": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "name"), [(LLAMA, "llama-3.1-8b"), (MIXTRAL, "mixtral-8x7b"), (GPT2, "gpt2")]
)
def test_a_config_file_is_the_published_model(config, name, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    assert read_model(file).params() == published_models[name].params()
    file.write_text(json.dumps(config | {"vocab_size": 999}))
    assert read_model(file).params() != published_models[name].params()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", "an object"),
        ('{"model_type": "t5"}', "model_type is 't5', but must be one of gpt2"),
        (
            '{"model_type": "gpt2"}',
            "layers is None, but must be given, a size, as num_hidden_layers",
        ),
    ],
)
def test_a_config_file_of_another_kind_is_refused(text, said, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=said):
        read_model(file)


def test_the_four_scripts_of_users_are_compared():
    found = compare_script(read("titan_gpt"), NODES, software="torchtitan-eager")
    assert found.own.layout.recompute == "full" and "torchtitan-eager" in repr(found)
    assert np.isfinite(found.own.time) and found.own.time > found.plans[0].time
