"""A rank that fails, dies or hangs gives one error, which says who and where; then work goes on."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from processes import rank_processes

from dtlib.runtime import RankDied, RankError, RankTimeout, launch, pool, rank_process
from dtlib.runtime.exchange import Death, Exchange, RankHandle
from dtlib.runtime.messages import Failure
from dtlib.runtime.process_group import let_go
from dtlib.runtime.verdict import rank_failed, ranks_died

SHARE = """
def share(x):
    if rank == {who}:
        raise ValueError("no share for me")
    dist.all_reduce(x)
    return x.sum().item()

share(torch.ones(3))
"""
NEW_RANKS = "without the names that their cells had defined"
SAME_RANKS = "free again and keep what their cells had defined"


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
    assert rank_failed({0: lost, 1: cause, 2: lost}, kept=True).ranks == [1]
    assert rank_failed({0: lost, 2: lost}, kept=True).ranks == [0, 2]


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


def test_of_two_ranks_that_die_the_lower_speaks_and_the_other_is_named():
    """What they wrote last is shown of the one that speaks."""
    deaths = {2: Death(-9, [], "second"), 1: Death(3, [], "first")}
    assert str(ranks_died(deaths, [])).splitlines()[:3] == [
        "rank 1 left with exit status 3 (rank 2 also died)",
        "its last words on stderr:",
        "  first",
    ]


def test_advice_is_given_on_an_abort_and_on_no_other_death():
    """gloo aborts where the ranks disagree."""
    assert "compare" in str(ranks_died({0: Death(-signal.SIGABRT, [], "")}, ["compare them"]))
    assert "compare" not in str(ranks_died({0: Death(-signal.SIGKILL, [], "")}, ["compare them"]))


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
    assert SAME_RANKS in second and NEW_RANKS not in text
    assert caught.value.ranks == [0, 1, 2]


# What waits for what nobody sends, in gloo, in Python, and in a mixture of both.
HANGS = {
    "all wait in different calls": "x = torch.ones(1)\n"
    "dist.recv(x, src=0, tag=9) if rank == 3 else dist.all_reduce(x)",
    "one is missing": "if rank != 3: dist.all_reduce(torch.ones(1))",
    "two wait for each other": "x = torch.ones(1)\nif rank < 2: dist.recv(x, 1 - rank)",
    "in a group of its own": "pair = dist.new_group([1, 2])\n"
    "if rank == 1: dist.barrier(group=pair)",
    "a loop": "while rank == 0: pass\ndist.barrier()",
    "a lock": "import threading\nlock = threading.Lock(); lock.acquire()\nlock.acquire()",
    "a backward pass": "class Wait(torch.autograd.Function):\n"
    "    forward = staticmethod(lambda ctx, x: x.clone())\n"
    "    backward = staticmethod(lambda ctx, g: [g, dist.all_reduce(g)][0])\n"
    "if rank: Wait.apply(torch.ones(1, requires_grad=True)).backward()",
}


@pytest.fixture(scope="module")
def hung():
    """What became of four ranks that hung in each way, one after the other."""
    with launch(4, timeout=60) as ranks:
        ranks.cell("kept = rank * 10")
        fates = {}
        for name, source in HANGS.items():
            before = ranks.run(os.getpid)
            with pytest.raises(RankTimeout) as caught:
                ranks.cell(source, timeout=1)
            values = ranks.cell("x = torch.ones(1); dist.all_reduce(x, group=group); x.item()")
            fates[name] = str(caught.value), values, ranks.run(os.getpid) == before
        yield fates, ranks.cell("kept")


@pytest.mark.parametrize("how", HANGS)
def test_ranks_that_hang_are_freed_and_work_again(hung, how):
    text, values, same = hung[0][how]
    assert values == [4.0] * 4
    assert same and SAME_RANKS in text


def test_names_outlive_a_hang(hung):
    assert hung[1] == [0, 10, 20, 30]


def test_sabotage_without_the_lifeline_ranks_that_wait_in_gloo_are_replaced(doomed, monkeypatch):
    """An interrupt alone does not reach them, and the message says so."""
    monkeypatch.setattr(RankHandle, "let_go", lambda rank, _: rank.signal(signal.SIGINT))
    doomed.cell("kept = rank")
    before = doomed.run(os.getpid)
    with pytest.raises(RankTimeout) as caught:
        doomed.cell(HANGS["one is missing"], timeout=1)
    assert NEW_RANKS in str(caught.value)
    assert not set(doomed.run(os.getpid)) & set(before)
    with pytest.raises(RankError, match=r"^ranks 0-3 failed: NameError"):
        doomed.cell("kept")


DEAF = """
import ctypes
C = ctypes.PyDLL(None)  # whose calls keep the interpreter's lock
mutex = ctypes.create_string_buffer(256)
C.pthread_mutex_init(mutex, None)
C.pthread_mutex_lock(mutex)
if rank == 1: C.pthread_mutex_lock(mutex)
"""
STOPPED = "import os, signal\nif rank == 1: os.kill(os.getpid(), signal.SIGSTOP)"


@pytest.mark.parametrize("source", [DEAF, STOPPED], ids=["deaf", "stopped"])
def test_a_rank_that_cannot_be_freed_is_replaced_and_all_others_with_it(doomed, source):
    """Names are there on all ranks or on none."""
    doomed.cell("kept = rank")
    with pytest.raises(RankTimeout, match=r"^no answer from ranks 0-3 within 1 s") as caught:
        doomed.cell(source + "\ndist.barrier()", timeout=1)
    assert NEW_RANKS in str(caught.value) and SAME_RANKS not in str(caught.value)
    with pytest.raises(RankError, match=r"^ranks 0-3 failed: NameError"):
        doomed.cell("kept")


def test_a_failure_frees_the_ranks_that_wait_for_others_than_the_failed_one(ranks):
    processes = ranks.run(os.getpid)
    with pytest.raises(RankError, match=r"^rank 3 failed: ZeroDivisionError") as caught:
        ranks.cell("x = torch.ones(1)\nif rank < 2: dist.recv(x, 1 - rank)\nif rank == 3: 1 / 0")
    assert NEW_RANKS not in str(caught.value)
    assert ranks.run(os.getpid) == processes


def test_a_lifeline_that_comes_late_leaves_the_next_generation_alone(monkeypatch):
    cut = []
    monkeypatch.setattr(rank_process, "cut_connections", lambda: cut.append(True))
    monkeypatch.setattr(rank_process, "leave_group", lambda: None)
    monkeypatch.setattr(rank_process, "join_group", lambda *_: None)
    rank = object.__new__(rank_process.RankProcess)
    vars(rank).update(rank=0, world_size=1, backend="gloo", directory=Path())
    vars(rank).update(_sessions={}, _generation=None, _generation_lock=threading.Lock())
    for generation in (1, 2):
        rank.do_join(generation)
    rank.let_go(1)
    assert cut == []
    rank.let_go(2)
    assert cut == [True]


def test_who_interrupts_once_more_while_ranks_are_freed_finds_new_ranks(doomed, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Exchange, "collect", interrupt)
        patch.setattr(Exchange, "free", interrupt)
        with pytest.raises(KeyboardInterrupt):
            doomed.cell("dist.barrier() if rank == 1 else None")


def test_an_idle_rank_does_not_heed_an_interrupt(doomed):
    processes = doomed.run(os.getpid)
    for process in processes:
        os.kill(process, signal.SIGINT)
    assert doomed.run(os.getpid) == processes


def test_sabotage_an_idle_rank_with_the_usual_handler_is_ended_by_an_interrupt(doomed):
    doomed.cell("import signal; signal.signal(signal.SIGINT, signal.default_int_handler); None")
    os.kill(doomed.run(os.getpid)[2], signal.SIGINT)
    with pytest.raises(RankDied, match=r"^rank 2 "):
        doomed.run(os.getpid)


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
    def __del__(self, sleep=time.sleep, all=BaseException):
        while True:
            try: sleep(1000)
            except all: pass
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
