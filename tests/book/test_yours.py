"""A number for the reader's machine is what the library gives for that machine, to the last digit.

The reference is the page's own expression, evaluated where the catalog's names mean the entries of
another machine; what is tried is the JavaScript that the page carries.
"""

import dataclasses
import json

import pytest
import quickjs

from book._ext.yours import machines
from book._tools import prose_numbers
from book._tools.expressions import Expression, names
from book._tools.layout import ROOT, pages
from book._tools.run import BOOK_RUN, shape
from book._tools.yours import traced
from dtlib.formulas.units import parse_quantity
from dtlib.machines.hardware import Node, catalog

SCRIPT = (ROOT / "book/_static/reader/roles.js").read_text("utf-8").replace("export ", "")
NUMBERS = [
    (page.stem, number)
    for page in pages()
    for number in prose_numbers.numbers(page.read_text("utf-8"))
    if "catalog[" in number.source or "run." in number.source
]
YOURS = [
    pytest.param(number, trace, id=f"{page}-{number.position}")
    for page, number in NUMBERS
    if not number.is_in_words and (trace := traced(number.expression))
]
# A desk with four cards, and a run of another model.
CHOSEN = {
    "gpu": "rtx-4090",
    "gpus": "4",
    "port": "ethernet-100",
    "ports": "1",
    "host": "pcie4-x16",
    "model": "mistral-7b",
    "seq": "2048",
    "P": "8",
    "tokens": "2e9",
    "batch_tokens": "5e5",
    "mfu": "0.3",
}


class Elsewhere(dict):
    """The catalog, where every GPU is this one, every link of a kind this one, every node that."""

    def __init__(self, node: Node, host: str):
        super().__init__(catalog)
        self.node, self.host = node, host

    def __getitem__(self, name):
        if name.startswith("pcie"):
            return catalog[self.host]
        if name.startswith(("ib-", "roce-", "ethernet-")):
            return self.node.nic
        if name.startswith("nvlink"):
            return self.node.gpu.link
        return _WholeNode(self.node) if name.startswith("dgx-") else self.node.gpu


class _WholeNode:
    """A node whose 'eight members' are all of its GPUs."""

    def __init__(self, node: Node):
        self.network_bandwidth = node.network_bandwidth
        self._node = node

    def ring_bandwidth(self, members: int) -> float:
        return self._node.ring_bandwidth(self._node.gpus if members == 8 else members)


@pytest.fixture(scope="module")
def page():
    context = quickjs.Context()
    context.eval(SCRIPT)
    context.eval(f"const known = {json.dumps(machines())}")
    return context


def roles(page, chosen: dict) -> dict:
    return json.loads(
        page.eval(f"JSON.stringify(rolesOf(completed({json.dumps(chosen)}, known), known))")
    )


def on_page(page, number, trace, played: dict):
    """Value and words of a number where these figures play the roles."""
    shape = json.dumps(prose_numbers.printed_shape(number.text, number.expression.value))
    value = page.eval(f"valueOf({json.dumps(trace.js)}, {json.dumps(played)})")
    return value, value if value is None else page.eval(f"printed({value!r}, {shape})")


@pytest.mark.parametrize(("number", "trace"), YOURS)
def test_with_the_books_machine_a_number_is_the_books(page, number, trace):
    value, text = on_page(page, number, trace, roles(page, {}) | trace.book)
    assert value == pytest.approx(number.expression.value, rel=1e-12)
    assert float(text.split()[0].strip("%×xB").replace(",", "").replace("−", "-")) == pytest.approx(
        float(number.text.split()[0].strip("%×xB").replace(",", "").replace("−", "-")), rel=0.06
    )


@pytest.mark.parametrize(("number", "trace"), YOURS)
def test_on_another_machine_a_number_is_what_the_library_gives_there(page, number, trace):
    gpu = catalog["rtx-4090"]
    node = Node("desk", gpu, 4, catalog["ethernet-100"], 1, source="this test", date="2026")
    given = {"tokens": 2e9, "batch_tokens": 5e5, "P": 8, "mfu": 0.3, "seq": 2048}
    run = dataclasses.replace(BOOK_RUN, **shape("mistral-7b"), **given)
    there = {**names(), "catalog": Elsewhere(node, "pcie4-x16"), "run": run}
    value, _ = on_page(page, number, trace, roles(page, CHOSEN))
    assert value == pytest.approx(number.expression.evaluated(there), rel=1e-12)


def test_sabotage_a_figure_in_another_role_is_noticed(page):
    trace = traced(Expression("1*GB / catalog['nvlink4'].beta"))
    played = roles(page, CHOSEN)
    right = page.eval(f"valueOf({json.dumps(trace.js)}, {json.dumps(played)})")
    swapped = played | {"link_beta": played["port_beta"]}
    assert page.eval(f"valueOf({json.dumps(trace.js)}, {json.dumps(swapped)})") != right


def test_the_books_machine_plays_the_roles_of_the_book(page):
    assert (
        roles(page, {}).items()
        >= {
            "gpu_peak_bf16": catalog["h100-sxm"].peak("bf16"),
            "node_ring_of_all": catalog["dgx-h100"].ring_bandwidth(8),
            "node_ring_of_one": catalog["dgx-h100"].ring_bandwidth(1),
            "run_params": BOOK_RUN.params,
        }.items()
    )


def test_most_numbers_over_hardware_can_be_the_readers():
    assert len(YOURS) >= 0.85 * len(NUMBERS)


@pytest.mark.parametrize(
    "source",
    [
        "catalog['ib-ndr400'].beta / catalog['ib-hdr200'].beta",  # two of a kind
        "catalog['ddr5-socket'].bandwidth",  # plays no role
        "catalog['dgx-h100'].ring_bandwidth(4)",  # an example's own group
        "2 * GB",
        "catalog['nvlink4'].beta > 1 * GB",
    ],
)
def test_what_has_no_counterpart_stays_the_books(source):
    assert traced(Expression(source)) is None


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        (0.07, "35 ms", "70 ms"),
        (700.0, "35 ms", "12 min"),
        (0.5, "3.9 years", "500 ms"),
        (12_345_678, "1,024", "12,350,000"),
        (5, "2", "5"),
        (3e9, "16.1 GB", "3.0 GB"),
        (3e6, "16.1 GB", "3.0 MB"),
        (0.042, "30 %", "4.2 %"),
        (0.4171, "1.2", "0.42"),
    ],
)
def test_a_far_number_is_printed_in_a_unit_that_suits_it(page, value, text, expected):
    shape = json.dumps(prose_numbers.printed_shape(text, parse_quantity(text).value))
    assert page.eval(f"printed({value}, {shape})") == expected


def test_a_choice_survives_its_address(page):
    chosen = json.loads(page.eval(f"JSON.stringify(decoded(encoded({json.dumps(CHOSEN)})))"))
    assert chosen == CHOSEN


def test_nonsense_in_an_address_is_the_book(page):
    odd = {"gpu": "abacus", "gpus": "-3", "ports": "many", "mfu": "0"}
    assert roles(page, odd) == roles(page, {})


def test_a_card_without_a_type_shows_nothing(page):
    trace = traced(Expression("1 / catalog['h100-sxm'].peak('bf16')"))
    played = roles(page, {"gpu": "v100-sxm"})
    assert page.eval(f"valueOf({json.dumps(trace.js)}, {json.dumps(played)})") is None


def test_the_doctors_report_is_heard(page):
    report = json.dumps({"gpus": [{"name": "NVIDIA A100", "entry": "a100-sxm"}] * 2})
    found = json.loads(page.eval(f"JSON.stringify(heard({json.dumps(report)}, known))"))
    assert found == {"gpu": "a100-sxm", "gpus": "2", "link": "nvlink3"}
    unknown = json.dumps({"gpus": [{"name": "Abacus", "entry": None}]})
    for text, why in ((unknown, "Abacus is not in the book's catalog"), ('{"gpus": []}', "no GPU")):
        with pytest.raises(quickjs.JSException, match=why):
            page.eval(f"heard({json.dumps(text)}, known)")
