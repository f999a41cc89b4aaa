"""The browser and the page in which code is tried."""

import pytest
from code_tab import PAGE, with_double
from page_inspection import start_browser


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.fixture
def tab(browser, home):
    context = browser.new_context()
    tab = with_double(context.new_page())
    tab.goto(home + PAGE)
    yield tab
    context.close()
