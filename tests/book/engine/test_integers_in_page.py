"""Integers in the page have 64 bits, as in CPython: twenty expressions, and one out of reach."""

import pytest
from page_inspection import start_browser

pytestmark = pytest.mark.site

EXPRESSIONS = [
    "np.arange(5) * 10**9", "np.array([1, 2]) * 2**40", "np.asarray((3,)) * 10**10",
    "np.full(2, 7) * 10**12", "np.full(2, 7, int) * 10**12", "np.zeros(2, dtype=int) + 2**40",
    "np.ones(3, int) * 10**11", "np.indices((2, 2)) * 10**10", "np.sum([2**31 - 1, 5])",
    "np.cumsum([2**30] * 4)", "np.prod([10**5, 10**5])", "np.eye(2, dtype=int) * 10**10",
    "np.arange(3, dtype=int) * 10**10", "np.bincount(np.array([1, 2, 2])) * 10**10",
    "np.repeat([1, 2], np.array([2, 1])) * 10**10", "np.concatenate([[1], [2, 3]]) * 10**10",
    "np.dot([10**5, 1], [10**5, 1])", "np.where([False, True])[0] * 10**10",
    "np.argsort([2, 1]) * 10**10", "np.max([3, 4]) * 10**10",
]  # fmt: skip
SCRIPT = """async ([address, code]) => {
    const { Engine } = await import(address);
    const engine = new Engine();
    try {
        return (await engine.run({ code })).text;
    } finally {
        engine.interrupt();
    }
}"""


@pytest.fixture(scope="module")
def told(home):
    """What the page says of an expression."""
    browser = start_browser()
    tab = next(browser).new_page()
    tab.goto(f"{home}404.html")

    def tell(expression):
        code = f"import numpy as np\n{expression}"
        return tab.evaluate(SCRIPT, [f"{home}_static/code/engine.js", code])

    yield tell
    browser.close()


def plainly(expression):
    names = {}
    exec("import numpy as np", names)
    return eval(expression, names)


def test_twenty_expressions_are_those_of_cpython(told):
    lists = f"[np.asarray(one).tolist() for one in ({', '.join(EXPRESSIONS)})]"
    assert eval(told(lists)) == plainly(lists)


SUMMARIES = [
    "np.median([3.0, 1.0, 2.0])", "np.median([[1, 2], [3, 5]], axis=0)",
    "np.quantile([1.0, 2.0, 4.0], [0.1, 0.9], method='inverted_cdf')",
    "np.percentile([1.0, 2.0, 4.0], 30)", "np.std([1, 2, 4])", "np.take([1, 2, 4], [2, 0])",
]  # fmt: skip


def test_medians_and_quantiles_are_those_of_cpython(told):
    """They ask numpy's own modules, some of which stay at home."""
    lists = f"[np.asarray(one).tolist() for one in ({', '.join(SUMMARIES)})]"
    assert eval(told(lists)) == plainly(lists)


def test_an_array_prints_as_in_cpython(told):
    for expression in ("np.array([58, -1])", "np.array([], dtype=np.int64)", "np.arange(40)"):
        assert told(expression) == repr(plainly(expression))


def test_the_narrow_integers_of_the_page_are_still_there_to_be_compared(told):
    """The twin: what the wraps do not reach overflows, so that the test above can fail."""
    assert told("(np.zeros(1).astype(int) + 1).dtype.itemsize") == "4"
