"""One ratio, five borders: the page's numbers are the formulas', key by key."""

import pytest
from page import opened

from dtlib.explore import OneRatio, Task
from dtlib.explore.one_ratio.one_ratio import DEGREE, LINKS, MODELS, TASK, factors_of, lengths_of
from dtlib.foundations import (
    backward_hiding_tokens,
    catalog,
    causal_context_parallel_tokens,
    expert_parallel_width,
    format_quantity,
    pipeline_parallel_extent,
    published_models,
    tensor_parallel_width,
)
from dtlib.foundations.roofline.one_ratio import MANY, link_bandwidths

playwright = pytest.importorskip("playwright.sync_api")

TITLE = "What hides?"


def figure(**changes):
    return OneRatio(TITLE, **{"task": TASK} | changes)


def test_the_borders_are_the_formulas_at_the_links_of_the_catalog():
    model = published_models["mixtral-8x7b"]
    common = {"element_bytes": 2, "peak": catalog["h100-sxm"].peak("bf16")}
    for name in LINKS:
        beta = link_bandwidths()["ib-ndr400" if name == "scattered" else name]
        node = catalog["dgx-h100"] if name == "ib-ndr400" else None
        rings, split = (node.ring_bandwidth(n) if node else beta for n in (8, DEGREE // 2))
        assert figure(link=name, task=None).borders() == pytest.approx(
            {
                "data": backward_hiding_tokens(P=MANY, beta=rings, **common),
                "tensor": tensor_parallel_width(tp=DEGREE, beta=split, **common),
                "pipeline": pipeline_parallel_extent(beta=beta, **common),
                "context": causal_context_parallel_tokens(
                    model.heads, model.kv_heads, beta=beta, **common
                ),
                "expert": expert_parallel_width(ep=MANY, beta=beta, **common),
            },
            rel=3e-4,  # the slider's ratio is a whole number
        )


def test_a_dense_model_has_no_experts_and_its_own_key_heads():
    gpt, llama = published_models["gpt-3"], published_models["llama-3.1-405b"]
    assert lengths_of(gpt)["expert"] is None
    assert factors_of(gpt)["context"] == 16 * factors_of(llama)["context"] == 2
    models = ("gpt-3", "llama-3.1-405b")
    assert list(OneRatio(TITLE, models=models).shares()) == [
        "data",
        "tensor",
        "pipeline",
        "context",
    ]


def test_with_scattered_ranks_no_published_model_is_wide_enough_for_tensor_parallelism():
    widget = figure(models=MODELS)
    for model in range(len(MODELS)):
        scattered, network = (
            widget.shares(model=model, link=x) for x in ("scattered", "ib-ndr400")
        )
        assert scattered["tensor"] > 2
        assert scattered["tensor"] == pytest.approx(4 * network["tensor"])
        assert scattered["data"] == pytest.approx(8 * network["data"])
        assert scattered["pipeline"] == network["pipeline"] < 0.2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"models": ()}, "models: from 1 to 6; got 0"),
        ({"link": "carrier-pigeon"}, "link = 'carrier-pigeon'; there are nvlink4"),
        ({"task": Task("", "hidden >= 1", {})}, "met already at the start"),
        ({"task": Task("", "hidden > 5", {})}, "not met by its solution"),
        ({"task": Task("", "rho > 3e4", {"rho": 34567})}, "solution, rho: 34567"),
    ],
)
def test_what_cannot_be_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        figure(**changes)


@pytest.fixture
def tab(browser, tmp_path):
    with opened(browser, tmp_path, figure()) as tab:
        yield tab


def ratios(widget) -> list[float]:
    return next(one["values"] for one in widget.spec["controls"] if one["name"] == "rho")


def expected(shares) -> list[str]:
    return [
        f"{'hidden' if share <= 1 else 'exposed'}: {format_quantity(share, '×', 2)}"
        for share in shares.values()
    ]


def test_keys_buttons_and_pointer_lead_to_numbers_that_python_computed(tab):
    widget = figure()
    group = tab.get_by_role("group", name=TITLE, exact=True)
    shown = lambda: group.locator(".dt-row-value").all_inner_texts()  # noqa: E731
    assert shown() == expected(widget.shares())
    values = ratios(widget)
    slower = values[values.index(widget._rho) + 1]
    group.get_by_role("slider", name="FLOP while").press("ArrowRight")
    assert shown() == expected(widget.shares(rho=slower))
    group.get_by_role("radio", name="NVLink").click()
    nvlink = widget.spec["ratios"][list(LINKS).index("nvlink4")]
    assert shown() == expected(widget.shares(rho=nvlink, link="nvlink4"))

    mark = group.get_by_role("slider", name="tensor (0")
    mark.press("End")
    border = widget.borders(rho=nvlink, link="nvlink4")["tensor"]
    assert shown()[1] == f"hidden: {format_quantity(border / 1_000_000, '×', 2)}"
    assert "1,000,000 against" in group.inner_text()
    assert "Done." not in group.inner_text()

    lane = group.locator(".dt-track").nth(1)
    lane.scroll_into_view_if_needed()
    track = lane.bounding_box()
    tab.mouse.move(track["x"] + track["width"] - 3, track["y"] + 12)
    tab.mouse.down()
    tab.mouse.move(track["x"] - 300, track["y"] + 12)
    tab.mouse.up()
    assert shown()[1] == f"exposed: {format_quantity(border / 100, '×', 2)}"

    group.get_by_role("radio", name="bad case").click()
    for name in ("gpt-3", "mixtral-8x7b"):  # the lengths are a model's again
        group.get_by_role("radio", name=name).click()
    assert shown() == expected(widget.shares(link="scattered"))
    group.get_by_role("button", name="Reset").click()
    assert shown() == expected(widget.shares())
    said = "hidden are data, pipeline, expert; exposed are tensor, context"
    playwright.expect(group.locator(".dt-summary")).to_contain_text(said)


def test_the_task_is_noticed_for_a_published_model_and_not_for_lengths_of_ones_own(tab):
    widget = figure()
    group = tab.get_by_role("group", name=TITLE, exact=True)
    slider = group.get_by_role("slider", name="FLOP while")
    values = ratios(widget)
    slider.fill(str(values.index(10000)))
    assert "Done." not in group.inner_text()
    group.get_by_role("radio", name="mixtral-8x22b").click()
    assert "Done. Here tensor parallelism is the first" in group.inner_text()
    group.get_by_role("slider", name="data (0").press("ArrowRight")
    assert "Done." not in group.inner_text()
