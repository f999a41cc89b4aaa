"""A rank that fails, dies or hangs gives one error, which says who and where; then work goes on."""

import os
import signal
import time

import pytest
from processes import rank_processes

from dtlib.runtime import RankDied, RankError, RankTimeout, launch, pool
from dtlib.runtime.messages import Failure
from dtlib.runtime.process_group import let_go
from dtlib.runtime.verdict import rank_failed

SHARE = """
def share(x):
    if rank == {who}:
        raise ValueError("no share for me")
    dist.all_reduce(x)
    return x.sum().item()

share(torch.ones(3))
"""
NEW_RANKS = "without the names that their cells had defined"


# An exception.


def test_one_error_names_the_rank_that_fails_while_the_others_wait_and_its_line():
    with launch(4) as ranks:
        with pytest.raises(RankError) as caught:
            ranks.cell(SHARE.format(who=2))
        assert str(caught.value).splitlines() == [
            "rank 2 failed: ValueError: no share for me",
            "  <ranks cell 1>, line 8, in <module>",
            "    share(torch.ones(3))",
            "  <ranks cell 1>, line 4, in share",
            '    raise ValueError("no share for me")',
        ]
        assert ranks.cell(SHARE.format(who=None)) == [12.0] * 4
    error = caught.value
    assert (error.rank, error.ranks, error.error) == (2, [2], "ValueError: no share for me")
    assert "Traceback" in error.traceback


def test_an_exception_in_a_function_shows_the_line_of_its_file(ranks):
    def share(limit):
        import torch.distributed as dist

        assert dist.get_rank() < limit
        dist.barrier()

    with pytest.raises(RankError, match="rank 3 failed: AssertionError") as caught:
        ranks.run(share, 3)
    assert f"test_rank_failures.py, line {share.__code__.co_firstlineno + 3}" in str(caught.value)
    assert "assert dist.get_rank() < limit" in str(caught.value)
    assert ranks.run(share, 4) == [None] * 4


def test_ranks_that_fail_alike_are_named_together(ranks):
    with pytest.raises(RankError, match=r"^ranks 1-3 failed: ZeroDivisionError") as caught:
        ranks.cell("if rank: 1 / 0")
    assert caught.value.ranks == [1, 2, 3]


def test_a_lost_peer_is_not_taken_for_the_cause():
    def failure(error, time, is_consequence):
        return Failure(error, (), "", time, is_consequence)

    lost = failure("RuntimeError: Connection closed by peer", 1.0, True)
    cause = failure("ValueError: no", 2.0, False)
    assert rank_failed({0: lost, 1: cause, 2: lost}, all_idle=True).ranks == [1]
    assert rank_failed({0: lost, 2: lost}, all_idle=True).ranks == [0, 2]


def test_names_and_processes_outlive_an_exception(ranks):
    processes = ranks.run(os.getpid)
    ranks.cell("kept = rank * 10")
    with pytest.raises(RankError) as caught:
        ranks.cell(SHARE.format(who=0))
    assert NEW_RANKS not in str(caught.value)
    assert (
        ranks.cell("dist.all_gather_object(everyone := [None] * 4, kept); everyone")
        == [[0, 10, 20, 30]] * 4
    )
    assert ranks.run(os.getpid) == processes


def test_a_failure_right_after_a_collective_is_told_as_the_cause(ranks):
    """Others may still be on their way out of the collective when the failed rank leaves."""
    source = "x = torch.ones(10); dist.all_reduce(x)\nif rank == {}: raise ValueError('late')"
    for rank in [0, 1, 2, 3] * 2:
        with pytest.raises(RankError, match=rf"^rank {rank} failed: ValueError: late\n"):
            ranks.cell(source.format(rank))
        assert ranks.cell(source.format(None) + "\nx[0].item()") == [4.0] * 4


def test_sys_exit_is_an_error_of_the_rank_that_calls_it(ranks):
    with pytest.raises(RankError, match=r"^rank 1 failed: SystemExit: 7"):
        ranks.cell("import sys\nif rank == 1: sys.exit(7)\ndist.barrier()")
    assert ranks.cell("rank") == [0, 1, 2, 3]


def test_an_error_can_be_caught_on_the_rank_itself(ranks):
    source = "try: 1 / 0\nexcept ZeroDivisionError: x = torch.ones(1)\ndist.all_reduce(x); x.item()"
    assert ranks.cell(source) == [4.0] * 4


# Death.


@pytest.mark.parametrize(
    ("act", "exitcode", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, "was killed by SIGKILL"),
        ("os._exit(3)", 3, "left with exit status 3"),
        ("os.abort()", -signal.SIGABRT, "was killed by SIGABRT"),
    ],
)
def test_the_death_of_a_rank_is_told_with_its_manner(doomed, act, exitcode, words):
    with pytest.raises(RankDied, match=f"^rank 1 {words}") as caught:
        doomed.cell(f"import os, signal\nif rank == 1:\n    {act}\ndist.barrier()", timeout=30)
    assert (caught.value.rank, caught.value.exitcode) == (1, exitcode)
    assert NEW_RANKS in str(caught.value)


def test_a_crash_shows_the_line_and_the_last_words(doomed):
    source = "import os, sys\nif rank == 2:\n    print('alas', file=sys.stderr)\n    os.abort()"
    with pytest.raises(RankDied) as caught:
        doomed.cell(source)
    assert "<ranks cell 1>, line 4, in <module>\n    os.abort()" in str(caught.value)
    assert "its last words on stderr:\n  alas" in str(caught.value)


def test_names_do_not_outlive_a_death(doomed):
    doomed.cell("kept = rank")
    with pytest.raises(RankDied):
        doomed.cell("import os\nif rank == 1: os._exit(1)")
    with pytest.raises(RankError, match=r"^ranks 0-3 failed: NameError"):
        doomed.cell("kept")


def test_a_rank_that_is_killed_between_two_calls_is_missed_at_the_next(doomed):
    os.kill(doomed.run(os.getpid)[3], signal.SIGKILL)
    with pytest.raises(RankDied, match=r"^rank 3 was killed by SIGKILL"):
        doomed.cell("rank")


def test_closing_ranks_of_which_one_is_dead_is_no_error():
    with launch(2) as ranks:
        dead, other = ranks.run(os.getpid)
        os.kill(dead, signal.SIGKILL)
    with launch(2) as ranks:
        assert ranks.cell("rank") == [0, 1]
        assert not rank_processes() & {dead, other}


# A hang.


def test_a_hang_shows_where_every_stuck_rank_is(doomed):
    source = (
        "import time\ndef nap():\n    time.sleep(1000)\n"
        "if rank == 0:\n    nap()\nelif rank < 3:\n    dist.all_reduce(torch.ones(1))"
    )
    with pytest.raises(RankTimeout) as caught:
        doomed.cell(source, timeout=2)
    text = str(caught.value)
    assert text.startswith(
        "no answer from ranks 0-2 within 2 s (rank 3 had finished)\nrank 0 is at"
    )
    first, second = text.split("ranks 1, 2 are at")
    assert "<ranks cell 1>, line 5, in <module>\n    nap()" in first
    assert "line 3, in nap\n    time.sleep(1000)" in first
    assert "line 7, in <module>\n    dist.all_reduce(torch.ones(1))" in second
    assert NEW_RANKS in second
    assert caught.value.ranks == [0, 1, 2]


def test_what_is_done_in_time_is_no_hang(ranks):
    assert ranks.cell("import time; time.sleep(0.2 * rank); rank", timeout=30) == [0, 1, 2, 3]


def test_a_failure_beside_a_rank_that_cannot_be_stopped_is_still_told(doomed):
    source = """
import time
def stubborn():
    while True:
        try: time.sleep(1000)
        except BaseException: pass
stubborn() if rank == 0 else 1 / 0
"""
    with pytest.raises(RankError, match=r"^ranks 1-3 failed: ZeroDivisionError") as caught:
        doomed.cell(source)
    assert NEW_RANKS in str(caught.value)


# What a failure leaves behind.

# As a group of gloo may, whose last send never ends.
NEVER_GONE = """
import time
class NeverGone:
    def __del__(self, sleep=time.sleep): sleep(1000)
"""


def test_a_group_that_never_ends_is_left_to_itself(ranks):
    processes = ranks.run(os.getpid)
    ranks.cell(NEVER_GONE + "kept = rank\nif rank == 1: group = NeverGone()")
    with pytest.raises(RankError, match="ZeroDivisionError"):
        ranks.cell("1 / 0")
    assert ranks.cell("x = torch.ones(1); dist.all_reduce(x, group=group); x.item() + kept") == [
        4.0, 5.0, 6.0, 7.0
    ]  # fmt: skip
    assert ranks.run(os.getpid) == processes


def test_what_goes_at_once_is_waited_for():
    gone = []

    class Slow:
        def __del__(self):
            time.sleep(0.2)
            gone.append(True)

    let_go([Slow(), Slow()], 60)
    assert gone == [True, True]


@pytest.mark.parametrize("when", ["at the next call", "at the end"])
def test_ranks_that_do_not_come_back_are_replaced(monkeypatch, capsys, when):
    monkeypatch.setattr(pool, "_SECONDS_TO_MEET", 1.0)
    with launch(2) as ranks:
        before = set(ranks.run(os.getpid))
        ranks.cell(NEVER_GONE + "kept, never = NeverGone(), lambda *_: time.sleep(1000)")
        if when == "at the next call":
            ranks.cell("import dtlib.runtime.rank_process as r; r.join_group = never")
            with pytest.raises(RankError, match="ZeroDivisionError"):
                ranks.cell("1 / 0")
            assert ranks.cell("rank") == [0, 1]
            assert NEW_RANKS in capsys.readouterr().err
    with launch(2) as ranks:
        assert ranks.cell("one = torch.ones(1); dist.all_reduce(one); one.item()") == [2.0] * 2
        assert not rank_processes() & before
