"""Words about numbers are found where readers see them, and nothing but a binding silences them."""

import pytest

from book._tools.layout import ROOT
from book._tools.length import words_read
from book._tools.number_words import spelled_out
from book._tools.words import KINDS, Listed, check, listed, sources, unbound

FOUND = {
    "a ratio": [
        *("twice", "thrice", "sevenfold", "four times", "1.5 times", "factor of", "doubles"),
        *("half of", "a third", "two thirds", "nine tenths", "one in ten", "halved"),
    ],
    "a bound": ["within 13", "within about 2", "within ten per cent"],
    "for all": ["at every size", "for all widths", "on every machine", "in any case"],
    "an extreme": ["the largest", "the fastest", "the most", "the worst"],
    "nearness": ["hardly", "nearly", "almost", "barely"],
}


@pytest.mark.parametrize(("kind", "word"), [(k, w) for k, words in FOUND.items() for w in words])
def test_each_kind_of_word_is_found_in_prose(kind, word):
    (found,) = unbound(f"# Title\n\nIt takes {word} here.\n", [])
    assert found.word == word and found.line == 3
    assert kind in KINDS


@pytest.mark.parametrize(
    "page",
    [
        "`four times`",
        "$$ \\text{twice} $$",
        "$\\text{twice}$",
        "```\nfour times\n```",
        '<data value="2 > 1">four times</data>',
        "<!-- four times -->",
        "[link](#half-of-it-a-third)",
        ":::{pause} pause-divided-twice\n:::",
        "## Claims\n\nIt is four times as long.\n: `tests/x.py::test_y`",
        "The threefoldness of a semester, a thirdly, nearlying.",
    ],
)
def test_what_readers_do_not_read_as_prose_is_passed_over(page):
    assert unbound(page, []) == []


def cell(code: str) -> str:
    return f"# Title\n\n```{{code-cell}} ipython3\n{code}\n```\n"


@pytest.mark.parametrize(
    "code",
    [
        'show_figure(fig, caption="The ring is four times slower.")',
        'Task("Make it at least " "four times as fast", {})',
        'print(f"{x:.1f} ms, four times the other")',
        '%load_ext dtlib\nprint("it is four times as long")',
        '---\ndeletable: false\n---\nprint("it is four times as long")',
    ],
)
def test_texts_in_code_cells_are_read_too(code):
    (found,) = unbound(cell(code), [])
    assert found.word == "four times"


def test_names_labels_and_comments_in_code_are_not():
    assert unbound(cell("x = 'twice'  # four times\nnearly = 4"), []) == []


def test_a_phrase_covers_its_words_and_no_others():
    page = "# Title\n\nIt is four\ntimes as long, and four times as dear.\n"
    (found,) = unbound(page, ["four times as long"])
    assert "dear" in found.around and found.line == 4


def entries(tmp_path, text: str, page: str = "four times as long") -> Listed:
    file = tmp_path / "page.toml"
    file.write_text(text)
    return listed(file, page)


GOOD_TEST = "tests/book/words/test_words.py::test_a_phrase_covers_its_words_and_no_others"


@pytest.mark.parametrize(
    "entry",
    [
        'holds = "8 / 2 > 3"',
        f'test = "{GOOD_TEST}"',
        'cell = "assert 8 / 2 > 3"',
    ],
)
def test_a_phrase_is_bound_by_what_holds_it(tmp_path, entry):
    text = f'[[bound]]\nwords = "four times as long"\n{entry}\n'
    assert entries(tmp_path, text, cell("assert 8 / 2 > 3")).problems == []


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ('holds = "8 / 2 > 5"', "does not hold"),
        ('holds = "8 / 2"', "compares nothing"),
        ('holds = "8 / two > 5"', "'two' is not a name"),
        ('test = "tests/book/words/test_words.py::test_of_nothing"', "there is no test"),
        ('test = "tests/book/test_nothing.py::test_of_nothing"', "there is no test"),
        ('cell = "assert 8 / 2 > 4"', "no cell of the page has"),
        ('cell = "x = 8"', "asserts nothing"),
        ("", "needs one of holds, test, cell"),
        ('holds = "2 > 1"\ncell = "assert 8 / 2 > 3"', "needs one of holds, test, cell"),
    ],
)
def test_what_does_not_hold_is_told(tmp_path, entry, complaint):
    text = f'[[bound]]\nwords = "four times as long"\n{entry}\n'
    (problem,) = entries(tmp_path, text, cell("assert 8 / 2 > 3\nx = 8")).problems
    assert complaint in problem


def test_a_given_has_a_reason(tmp_path):
    said = '[[given]]\nreason = "{}"\nwords = ["four times as long"]\n'
    assert entries(tmp_path, said.format("stated in the exercise")).problems == []
    assert "say the reason" in entries(tmp_path, said.format("")).problems[0]


def test_an_entry_that_its_page_lacks_is_an_error(tmp_path):
    (tmp_path / "book/words").mkdir(parents=True)
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nIt is five times as long.\n")
    words = tmp_path / "book/words/page.toml"
    words.write_text('[[given]]\nreason = "for this very test"\nwords = ["four times"]\n')
    stale, open_word = check(page, tmp_path)
    assert "the page does not say 'four times'" in stale
    assert "page.md:3: 'five times' is not bound" in open_word


def test_every_file_of_words_belongs_to_a_page():
    stems = {page.stem for page in sources()} | {"common"}
    assert {file.stem for file in (ROOT / "book/words").glob("*.toml")} <= stems


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("twice", 2),
        ("a factor of eight", 8),
        ("twenty-three times", 23),
        ("two hundred thousand", 200_000),
        ("nine tenths", 0.9),
        ("a thousandth", 0.001),
        ("three halves", 1.5),
        ("halves", 0.5),
        ("halved", 0.5),
        ("a hundredfold", 100),
        ("a hundred and twenty", 120),
    ],
)
def test_a_number_in_words_has_its_value(text, value):
    quantity = spelled_out(text)
    assert quantity.value == pytest.approx(value)
    assert quantity.agrees_with(1.09 * value) and not quantity.agrees_with(1.11 * value)


@pytest.mark.parametrize("text", ["35 ms", "1,024", "many", ""])
def test_digits_and_vague_words_are_no_number_in_words(text):
    assert spelled_out(text) is None


PAGE = """---
title: not read
---

# One

Two three $x + y$ four <data value="2 > 1">five six</data>.

```{code-cell} ipython3
not_read = "not read"
```

$$
not read
$$ (eq-not-read)

:::{admonition} Seven
:class: dropdown
not read
:::

## Exercises

not read
"""


def test_only_what_is_read_is_counted():
    assert words_read(PAGE) == 7
    assert words_read(PAGE.replace(":class: dropdown", ":class: note")) == 9
