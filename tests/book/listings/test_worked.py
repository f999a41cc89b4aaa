"""The values of the quick reference: one for every formula that rests on a machine, on its link."""

import re

from book._tools.equations import by_label
from book._tools.expressions import Expression
from book._tools.layout import ROOT
from book._tools.listings.worked import OF_THE_PROCESSOR, OVER, worked
from book._tools.yours import traced
from dtlib.formulas.formula import formulas
from dtlib.machines.hardware import catalog

VALUE = re.compile(r'<data value="([^"]*)">([^<]*)</data>\.$')


def test_the_page_has_the_sentence_of_every_formula_and_each_can_be_the_reader_s():
    page = (ROOT / "book/quick-reference.md").read_text("utf-8")
    sentences = [said for formula in by_label().values() if (said := worked(formula))]
    assert len(sentences) >= 30
    for said in sentences:
        source, text = VALUE.search(said).groups()
        assert traced(Expression(source)) and text
    shown = [line for line in page.splitlines() if VALUE.search(line)]
    assert shown and set(shown) <= set(sentences)


def test_a_formula_that_rests_on_no_machine_has_no_value():
    assert worked(formulas()["adam_state_bytes"]) == ""


def test_offloading_goes_over_the_processor_s_link_and_its_memory_is_not_the_gpu_s():
    offload, other = formulas()["gradient_offload_time"], formulas()["message_time"]
    assert "pcie5-x16" in worked(offload) and "over PCIe" in worked(offload)
    assert "pcie5-x16" not in worked(other)
    assert not any(worked(formulas()[name]) for name in OF_THE_PROCESSOR)
    assert set(OVER) <= set(formulas()) and set(OVER.values()) <= set(catalog)
