"""The page checks can fail: a page with one fault of each kind."""

import shutil
from threading import Thread

import pytest
from page_inspection import browser_faults, file_faults, start_browser

from book._tools.layout import ROOT
from book._tools.serve import server

FACE = """@font-face { font-family: Page; src: url(sans.woff2); font-weight: 400 700 }
* { font-family: Page }"""

DARK = """<script>matchMedia("(prefers-color-scheme: dark)").onchange = () => {
document.documentElement.dataset.theme = "dark"; }</script>"""

# Its text takes half a second to turn light in the dark, and is pale until then.
FINE = f"""<!doctype html><html lang="en"><head><title>A page</title>{DARK}<style>{FACE}
body {{ color: #111; background: #fff; transition: color 0.5s }} a {{ color: inherit }}
[data-theme=dark] body {{ color: #eee; background: #111 }}</style></head><body><main>
<h1>A page</h1><p id="here"><a href="#here">fine</a></p></main></body></html>"""

# Where a token is pale for what stands around it, or in dark alone, the others must not hide it.
PALE_TOKENS = f"""<!doctype html><html lang="en"><head><title>Code</title>{DARK}<style>{FACE}
.lit .k {{ color: #ddd }} [data-theme=dark] .n {{ color: #ddd }} .k, .n {{ color: #222 }}
</style></head><body><main><h1>Code</h1><pre><span class="k">for</span> <span class="n">x</span>
<span class="k">in</span> <span class="n" id="name">ranks</span>
<span class="lit"><span class="o">+</span></span>
<span class="lit"><span class="k" id="pale">if</span></span></pre></main></body></html>"""

FAULTY = """<!doctype html><html lang="en" data-widgets="ready"><head>
<link rel="stylesheet" href="https://elsewhere.example/style.css">
<script src="//elsewhere.example/script.js"></script></head><body>
<a href="missing.html">gone</a> <a href="fine.html#nowhere">lost</a>
<p style="color: #bbb; background: #fff">pale</p>
<span class="math">$x^2$</span> <p>As \\(x\\) grows</p> <div class="needs-kernel">no</div>
<div class="dt-place"></div> <img src="missing.png">
<div style="width: 900px">wide</div>
<article><p style="width: 90px; overflow: hidden; white-space: nowrap">a sentence
with an end</p><svg width="60" height="20"><text y="15">words of a figure</text></svg></article>
<figure class="dt-figure" style="width: 200px; overflow: auto"><svg width="400" height="20"></svg>
<figcaption>A figure for a desk</figcaption></figure>
<figure class="dt-figure"><svg viewBox="0 0 100 20" width="60">
<text y="15" font-size="16">tiny</text><text y="15" font-size="20">large</text></svg></figure>
<div class="dt-compare" style="width: 300px; overflow: auto"><table style="width: 400px"><tbody>
<tr><th>ring</th><td>1 ms</td><td>2x</td></tr></tbody></table></div>
<script>console.error("something broke"); undefined_name()</script></body></html>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "book/_static/fonts/sans.woff2", folder)
    (folder / "fine.html").write_text(FINE)
    (folder / "faulty.html").write_text(FAULTY)
    (folder / "tokens.html").write_text(PALE_TOKENS)
    return folder


@pytest.fixture(scope="module")
def seen(site):
    """The faults of the pages in Chromium."""
    with server(str(site)) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{running.server_port}/"
        for browser in start_browser():
            context = browser.new_context()
            names = ("fine", "faulty", "tokens")
            found = {name: browser_faults(context, f"{home}{name}.html", home) for name in names}
        running.shutdown()
        return found


def test_a_fine_page_has_no_fault(site, seen):
    assert file_faults(site / "fine.html", site) == []
    assert [fault for fault in seen["fine"] if "favicon" not in fault] == []


@pytest.mark.parametrize(
    "fault",
    [
        "loads https://elsewhere.example/style.css",
        "loads //elsewhere.example/script.js",
        "no title",
        "missing.html leads nowhere",
        "fine.html#nowhere leads nowhere",
    ],
)
def test_file_faults_are_found(site, fault):
    assert fault in file_faults(site / "faulty.html", site)


@pytest.mark.parametrize(
    "fault",
    [
        "asks for https://elsewhere.example/style.css",
        "404 for",
        "0 h1 headings",
        "script error: undefined_name is not defined",
        "console error: something broke",
        "1 formulas not typeset",
        "2 places with TeX",
        "1 widgets that need a kernel",
        "1 widgets that are not drawn",
        "1 images without alternative text",
        "axe color-contrast",
        "scrolls sideways on a phone",
        "ratio out of sight on a phone: ring",
        "wider than a phone: A figure for a desk (400 px)",
        "small on a phone: tiny (9.6 px)",
        "does not turn dark",
        "no face for",
        "cut off on a desktop: a sentence",
        "cut off on a phone: words of a figure",
    ],
)
def test_browser_faults_are_found(seen, fault):
    assert any(fault in found for found in seen["faulty"])


def test_letters_that_are_large_enough_are_no_fault(seen):
    assert not any("large" in fault for fault in seen["faulty"])


def test_pale_tokens_of_code_are_found(seen):
    told = [fault for fault in seen["tokens"] if "favicon" not in fault]
    assert told == ["axe color-contrast: #pale", "axe in dark color-contrast: #name, #pale"]
