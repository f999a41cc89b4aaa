"""What ranks print is shown in rank order, so that the same cell always shows the same text."""

import pytest

from dtlib.runtime import RankError

CHATTER = """
import random, sys, time
for line in range(2):
    time.sleep(random.random() / 200)
    print("line", line)
print("careful", file=sys.stderr)
dist.barrier()
"""
STDOUT = "".join(f"[rank {rank}] line {line}\n" for rank in range(4) for line in range(2))
STDERR = "".join(f"[rank {rank}] careful\n" for rank in range(4))


def test_output_comes_in_rank_order_whoever_was_first(ranks, capsys):
    for _ in range(20):
        ranks.cell(CHATTER)
        assert capsys.readouterr() == (STDOUT, STDERR)


def test_output_below_python_is_shown_too(ranks, capsys):
    ranks.cell("import os; os.write(1, b'from C\\n')")
    assert capsys.readouterr().out == "".join(f"[rank {rank}] from C\n" for rank in range(4))


def test_what_was_printed_before_a_failure_is_shown(ranks, capsys):
    with pytest.raises(RankError):
        ranks.cell("print('so far')\nif rank == 1: raise ValueError('so bad')\ndist.barrier()")
    assert capsys.readouterr().out == "".join(f"[rank {rank}] so far\n" for rank in range(4))


def test_a_line_without_an_end_is_a_line(ranks, capsys):
    ranks.cell("print('a', end='')\nif rank: print('\\nb é', end='')")
    text = capsys.readouterr().out
    assert text == "[rank 0] a\n" + "".join(f"[rank {r}] a\n[rank {r}] b é\n" for r in (1, 2, 3))


def test_a_flood_is_cut_and_the_next_cell_begins_clean(ranks, capsys):
    ranks.cell("if rank == 1: print('x' * 150_000)")
    shown = capsys.readouterr().out
    assert shown.endswith("[rank 1] ... and 50,001 bytes more\n")
    assert len(shown) < 101_000
    ranks.cell("if rank == 1: print('clean')")
    assert capsys.readouterr().out == "[rank 1] clean\n"
