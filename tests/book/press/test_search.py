"""The search of the built site: questions as readers ask them, by keys, by touch, by address."""

import re

import pytest
from page_inspection import axe_faults, console_faults, start_browser
from site_server import served_site

from book._tools.layout import ROOT

pytestmark = pytest.mark.site

SITE = ROOT / "_build/html"
A_CHAPTER = "sub/chapters/3-collectives/12-ring-and-tree-algorithms.html"
QUESTIONS = {
    "bubble fraction": r"folklore-16-the-bubble-fraction-is|16-\S*#where-the-bubble-went",
    "all_reduce hangs": r"symptoms.html#it-hangs$",
    "ZeRO stage 3 memory": r"20-sharding-the-training-state.html#stage-by-stage",
    "why is my loss P times too large": r"#symptom-gradient-off-by-p",
    "alpha beta model": r"04-the-alpha-beta-model.html$",
    "double binary tree": r"#term-double-binary-tree$",
    "activation recomputation square root": r"21-recomputing-activations.html$",
    "zigzag causal mask": r"#term-zigzag$",
    "the one forgotten sum in tensor parallelism": r"15-\S*#the-one-forgotten-sum$",
    "NCCL watchdog timeout": r"#symptom-watchdog-timeout$",
    "how often to save a checkpoint": r"05-what-compute-costs.html#how-often-to-save$",
    "how much memory does Adam need": r"19-where-the-memory-goes.html$",
    "exercise 12.1": r"#ex-trace-the-ring$",
    "theorem 14.1": r"#thm-data-parallel$",
    "pipeline": r"16-pipeline-parallelism.html$",
}
ANSWERED = (
    "question => document.querySelector('.found-said')?.textContent.includes(`“${question}”`)"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The site below another address, as a repository's pages have it."""
    folder = tmp_path_factory.mktemp("host")
    (folder / "sub").symlink_to(SITE)
    yield from served_site(folder)


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.fixture
def tab(browser, home):
    context, faults = browser.new_context(color_scheme="light"), []
    page = context.new_page()
    page.on("console", lambda said: faults.extend(console_faults(said)))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(home + A_CHAPTER, wait_until="load")
    yield page
    context.close()
    assert faults == []


def ask(page, question: str) -> list[str]:
    """The addresses that the panel shows for a question."""
    page.fill(".find input", question)
    page.wait_for_function(ANSWERED, arg=question)
    return page.eval_on_selector_all(".find .hit", "links => links.map(link => link.href)")


def stands_first(wanted: str, found: list[str]) -> bool:
    return any(re.search(wanted, address) for address in found[:3])


def test_questions_find_their_section_among_the_first_three(tab):
    answers = {question: ask(tab, question) for question in QUESTIONS}
    missed = [q for q, wanted in QUESTIONS.items() if not stands_first(wanted, answers[q])]
    assert missed == []
    assert not stands_first(QUESTIONS["zigzag causal mask"], answers["bubble fraction"])


def test_every_address_that_is_found_is_there(tab):
    for question in ("ring", "memory of a pipeline", "exercise"):
        for address in ask(tab, question):
            page, _, place = address.partition("#")
            file = SITE / page.partition("/sub/")[2]
            assert not place or f'id="{place}"' in file.read_text(encoding="utf-8")


def test_nothing_of_it_is_loaded_before_it_is_asked_for(browser, home):
    context = browser.new_context()
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(home + A_CHAPTER, wait_until="networkidle")
    searching = [url for url in asked if "/find/" in url or "/pagefind/" in url]
    assert searching == []
    page.focus(".find input")
    page.wait_for_selector(".found-panel", state="attached")
    assert any("/pagefind/" in url for url in asked)
    assert all(url.startswith(home + "sub/") for url in asked)
    context.close()


def test_it_is_used_by_keys(tab):
    tab.keyboard.press("/")
    tab.wait_for_selector(".found-panel", state="attached")
    wanted = ask(tab, "double binary tree")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    assert tab.get_attribute(".find input", "aria-activedescendant") == "found-1"
    tab.keyboard.press("Escape")
    assert not tab.is_visible(".found-panel")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    tab.wait_for_url(wanted[0])


def test_the_panel_has_no_faults_of_access(tab):
    ask(tab, "bubble")
    tab.keyboard.press("ArrowDown")
    assert axe_faults(tab) == []


def test_it_is_used_by_touch_on_a_phone(browser, home):
    context = browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True)
    page = context.new_page()
    page.goto(home + A_CHAPTER)
    page.tap(".find input")
    page.wait_for_selector(".found-panel", state="attached")
    first = ask(page, "zigzag")[0]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator(".find .hit").first.tap()
    page.wait_for_url(first)
    context.close()


def test_a_page_of_its_own_holds_the_question_in_its_address(tab):
    tab.fill(".find input", "bus bandwidth")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/sub/search.html?q=bus*bandwidth")
    tab.wait_for_selector("#search-results .hit")
    assert axe_faults(tab) == []


def test_sphinx_has_left_nothing_behind():
    left = ["searchindex.js", "_static/searchtools.js", "_static/doctools.js"]
    assert [name for name in left if (SITE / name).exists()] == []
