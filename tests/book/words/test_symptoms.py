"""Every symptom has three suspects, what decides, and a section; messages are the real ones."""

import os
import re
import subprocess
import sys

import pytest

from book._tools import symptoms
from book._tools.sections import Place, PlaceError
from book._tools.symptoms import FIELDS, Row, SymptomError, groups, symptoms_page

ROWS = {row.slug: row for group in groups() for row in group.rows}
GOOD = Row(
    sees="`out of something`",
    suspects=("one", "two", "three"),
    decides="`free -h`",
    why=("4: Whose bandwidth?",),
    slug="good",
    checked="provoked",
)


def told(**changes):
    return list(Row(**{**vars(GOOD), **changes}).problems(symptoms.ROOT))


def test_the_books_own_symptoms_hold():
    assert symptoms.problems() == []
    assert len(ROWS) >= 60
    assert len(groups()) == 8


def test_a_good_row_passes():
    assert told() == []


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"suspects": ("one", "two")}, "has 2 suspects; three are wanted"),
        ({"decides": "look closely"}, "decides nothing: no number and no command"),
        ({"checked": ""}, "without saying how it was confirmed"),
        ({"why": ()}, "names no section"),
        ({"why": ("4: Whose fault?",)}, "Chapter 4 has 0 'Whose fault?'"),
        ({"why": ("99: Anything",)}, "99"),
        ({"decides": '<data value="1+1">3</data>'}, "'3' should be '2'"),
    ],
)
def test_what_a_row_lacks_is_said(changes, complaint):
    assert any(complaint in problem for problem in told(**changes))


def test_a_row_without_a_field_or_with_another_is_refused(tmp_path):
    file = tmp_path / "book/symptoms.toml"
    file.parent.mkdir()
    row = '[[group]]\ntitle = "t"\nintro = "i"\n[[group.row]]\nslug = "s"\nsees = "x"\n'
    file.write_text(row)
    with pytest.raises(SymptomError, match="row 's': lacks suspects, decides, why"):
        groups(tmp_path)
    rest = 'suspects = ["a", "b", "c"]\ndecides = "1"\nwhy = ["4"]\ncure = "none"\n'
    file.write_text(row + rest)
    (told,) = symptoms.problems(tmp_path)
    assert told.startswith("symptoms.toml: row 's': has unknown cure; known: sees, suspects")


def test_the_page_has_every_row_with_its_anchor_and_its_links():
    page = symptoms_page()
    assert page.count('class="dt-anchor"') == len(ROWS)
    assert page.count('class="dt-suspect"') == 3 * len(ROWS)
    assert 'id="symptom-watchdog-timeout" href="#symptom-watchdog-timeout"' in page
    lines = [line for line in page.splitlines() if 'class="dt-anchor"' in line]
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 5 for line in lines)


def test_every_row_leads_to_a_page():
    for row in ROWS.values():
        for place in row.why:
            assert Place.read(place).link().startswith(("{ref}`", "{doc}`", "Chapter "))
    with pytest.raises(PlaceError, match="nowhere"):
        Place.read("nowhere: at all")


def test_a_place_that_is_gone_leads_to_its_page_until_the_check_is_heeded():
    assert Place.read("4: Whose fault?").link() == "{ref}`ch-4`"


def test_the_fields_are_those_that_the_docstring_names():
    assert all(f"`{field}`" in symptoms.__doc__ for field in (*FIELDS, "checked"))


# What can be provoked with one process, in a few seconds. Others were provoked once by hand.
START = "import torch, torch.distributed as dist\n"
GROUP = START + "dist.init_process_group('gloo')\n"
PROVOKED = {
    "no-default-group": START + "dist.all_reduce(torch.ones(1))",
    "rank-expected-but-not-set": START + "import os; del os.environ['RANK']\n"
    "dist.init_process_group('gloo')",
    "address-already-in-use": START + "import os, socket; s = socket.socket()\n"
    "s.bind(('', int(os.environ['MASTER_PORT']))); s.listen()\ndist.init_process_group('gloo')",
    "initialised-twice": GROUP + "dist.init_process_group('gloo')",
    "unable-to-find-address": "import os; os.environ['GLOO_SOCKET_IFNAME'] = 'eth0x'\n" + GROUP,
    "mixed-tensor-and-dtensor": GROUP + "from torch.distributed.fsdp import fully_shard\n"
    "m = torch.nn.Linear(4, 4); fully_shard(m); m.weight + torch.ones(4, 4)",
    "keys-begin-with-module": GROUP + "from torch.nn import Linear, parallel\n"
    "m = parallel.DistributedDataParallel(Linear(2, 2))\n"
    "Linear(2, 2).load_state_dict(m.state_dict())",
}


def free_port():
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def said_by(code: str) -> str:
    """What one process says that runs the code as rank 0 of 1."""
    names = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    names |= {"MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": _loopback()}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **names}
    )
    assert done.returncode, "nothing went wrong"
    return " ".join(done.stderr.split())


def _loopback() -> str:
    return "lo0" if sys.platform == "darwin" else "lo"


def pieces(row: Row) -> list[str]:
    """The parts of a row's first message that do not depend on the machine."""
    message = re.search(r"`([^`]+)`", row.sees)[1]
    return [piece.strip() for piece in re.split(r"…|eth0", message) if len(piece.strip()) > 3]


@pytest.mark.parametrize("slug", PROVOKED)
def test_a_message_is_the_one_that_torch_gives(slug):
    said = said_by(PROVOKED[slug])
    assert all(piece in said for piece in pieces(ROWS[slug])), said[-2000:]


def test_equal_numbers_in_bf16_stop_growing_at_256():
    import torch

    total = torch.zeros((), dtype=torch.bfloat16)
    for _ in range(384):
        total = total + torch.ones((), dtype=torch.bfloat16)
    assert total == 256
    assert "stop growing at 256" in ROWS["sixteen-bit-reduction"].decides


def test_a_message_that_torch_does_not_give_would_be_noticed():
    said = said_by(PROVOKED["no-default-group"])
    assert not all(piece in said for piece in pieces(ROWS["initialised-twice"]))
