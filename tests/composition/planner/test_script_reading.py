"""What is read from a script without a GPU is what real ranks send, and what the book derives."""

from pathlib import Path

import pytest
from script_on_gloo import second_step

from dtlib.composition.planner.script import read_script
from dtlib.runtime import launch

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture(scope="module")
def four():
    with launch(4, timeout=120) as ranks:
        yield ranks


@pytest.mark.parametrize("name", ["ddp_gpt", "fsdp2_gpt", "fsdp2_tp_gpt"])
def test_a_script_is_read_as_four_real_ranks_run_it(name, four):
    read = read_script(SCRIPTS / f"{name}.py", ranks=4)
    sent, params = four.run(second_step, SCRIPTS / f"{name}.py")[0]
    again = [each for each in read.start if each.dtype == "int32"]  # DDP's buckets are made anew
    assert [(each.operation, each.bytes) for each in (*again, *read.collectives)] == sent
    assert read.param_count == params
