"""Functions, arguments and results travel whole, or an error says at once why they cannot."""

import threading

import pytest
import torch

from dtlib.runtime import RankError, launch


def test_a_closure_takes_its_surroundings_along(ranks):
    factor = 3

    def times(x, *, plus):
        import torch.distributed as dist

        return factor * x * dist.get_rank() + plus

    assert ranks.run(times, 2, plus=1) == [1, 7, 13, 19]
    assert ranks.run(lambda: factor) == [3] * 4


def test_a_function_of_a_cell_sees_later_cells(ranks):
    ranks.cell("def twice(): return 2 * value")
    ranks.cell("value = rank")
    assert ranks.cell("twice()") == [0, 2, 4, 6]


def test_a_class_goes_to_the_ranks_and_its_instances_come_back(ranks):
    class Doubler(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((2,), 2.0))

        def forward(self, x):
            return self.weight * x

    def fill(model):
        import torch.distributed as dist

        with torch.no_grad():
            model.weight += dist.get_rank()
        return model

    models = ranks.run(fill, Doubler())
    assert all(isinstance(model, Doubler) for model in models)
    assert [model(torch.ones(2)).tolist() for model in models] == [[2 + r] * 2 for r in range(4)]


def test_four_megabytes_go_and_come_unchanged(ranks):
    tensor = torch.randn(2**20, generator=torch.Generator().manual_seed(1))

    def negated(x):
        return -x

    for result in ranks.run(negated, tensor):
        assert torch.equal(result, -tensor)


def test_results_do_not_depend_on_each_other(ranks):
    first, second, *_ = ranks.run(lambda x: x, torch.zeros(2))
    first += 1
    assert second.tolist() == [0, 0]


def test_pushed_values_are_names_of_the_cells(ranks):
    ranks.push(scale=torch.tensor(10.0), shift=1)
    assert ranks.cell("(scale * rank + shift).item()") == [1, 11, 21, 31]


def test_the_value_of_a_cell_is_that_of_its_last_line(ranks):
    assert ranks.cell("x = rank") == [None] * 4
    assert ranks.cell("x = rank\nx + 1") == [1, 2, 3, 4]
    assert ranks.cell("") == [None] * 4


def test_a_cell_that_is_no_python_is_refused_before_it_travels(ranks):
    with pytest.raises(SyntaxError):
        ranks.cell("x = = 1")


def test_an_argument_that_cannot_travel_is_named(ranks):
    def use(x, lock=None):
        return x

    with pytest.raises(TypeError, match=r"argument 2 of use cannot be sent to the ranks.*lock"):
        ranks.run(use, 1, threading.Lock())
    with pytest.raises(TypeError, match="argument 'lock' of use cannot be sent"):
        ranks.run(use, 1, lock=threading.Lock())
    with pytest.raises(TypeError, match="the value of 'y' cannot be sent"):
        ranks.push(x=1, y=threading.Lock())
    assert ranks.run(use, 1) == [1] * 4


def test_a_function_that_holds_what_cannot_travel_is_named(ranks):
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"the function <lambda> cannot be sent.*lock"):
        ranks.run(lambda: lock)


def test_ranks_cannot_be_sent_to_ranks(ranks):
    with pytest.raises(TypeError, match="only where they were launched"):
        ranks.run(lambda: ranks)


def test_a_result_that_cannot_travel_is_an_error_and_nothing_is_lost(ranks):
    ranks.cell("kept = rank")
    with pytest.raises(RankError, match="failed: TypeError: a result of type lock cannot be sent"):
        ranks.cell("import threading; threading.Lock()")
    assert ranks.cell("kept") == [0, 1, 2, 3]


def test_a_result_that_only_the_ranks_understand_is_an_error(ranks):
    class Homesick:
        def __reduce__(self):
            return (at_home, ())

    def at_home():
        from dtlib.runtime.rank_process import rank_here

        if rank_here() is None:
            raise LookupError("not at home")

    with pytest.raises(RankError, match=r"result of rank 0 cannot be rebuilt.*not at home"):
        ranks.run(Homesick)
    assert ranks.cell("rank") == [0, 1, 2, 3]


def test_a_hundred_calls_in_a_row_give_equal_results(ranks):
    ranks.push(x=torch.linspace(0, 1, 1001))
    source = "y = x * (rank + 1) / 3; dist.all_reduce(y); y"
    first = ranks.cell(source)
    assert all(torch.equal(y, first[0]) for y in first)
    for _ in range(99):
        assert all(torch.equal(y, first[0]) for y in ranks.cell(source))


def test_a_cell_that_uses_random_numbers_does_so_again_in_a_new_launch():
    draws = []
    for _ in range(2):
        with launch(2) as ranks:
            draws.append(ranks.cell("torch.rand(3).tolist()"))
            assert ranks.cell("torch.rand(3).tolist()") != draws[-1]
    assert draws[0] == draws[1]
