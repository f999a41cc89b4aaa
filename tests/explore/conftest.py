"""Chromium for the widgets' tests, started once for each file."""

import pytest
from page import PATIENCE

from book._tools.browser import ADVICE, MISSING, find_chromium


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = find_chromium()
    if not chromium:
        pytest.skip(f"{MISSING}: {ADVICE}")
    arguments = [
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=arguments, timeout=PATIENCE)
        playwright.expect.set_options(timeout=PATIENCE)
        contexts = browser.new_context

        def patient(**options):
            context = contexts(**options)
            context.set_default_timeout(PATIENCE)
            return context

        browser.new_context = patient
        yield browser
        browser.close()
