"""The examples in the modules hold: those of the runner in CPython as well."""

import doctest

import pytest

from book._engine import runner
from book.cells import data, names, needs, page


@pytest.mark.parametrize("module", [data, names, needs, page, runner], ids=lambda m: m.__name__)
def test_the_examples_of_a_module_hold(module):
    failed, tried = doctest.testmod(module)
    assert tried and not failed
