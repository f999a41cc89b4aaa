"""A notebook that nobody has run yet says of each widget how it comes to life."""

import pytest

from dtlib.collectives import Switch, ring_all_reduce
from dtlib.explore import Stepper, bet


@pytest.fixture
def shown(monkeypatch):
    """What a front end without the widget's state shows of it."""

    def shown(widget) -> str:
        outputs = []
        monkeypatch.setattr("IPython.display.display", lambda out, **_: outputs.append(out))
        widget._ipython_display_()
        return outputs[0]["text/plain"]

    return shown


def test_a_figure_and_a_bet_ask_to_be_run(shown):
    stepper = Stepper(ring_all_reduce(4), title="A ring of four", n=1, topology=Switch(4, 0, 1))
    assert shown(stepper) == "Run this cell to move this figure: A ring of four."
    question = bet("0.9", "How long?", unit="ms", anchor=1.0)
    assert shown(question) == "Run this cell to bet: How long?"
