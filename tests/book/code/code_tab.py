"""A tab in which a double answers for the engine, also where a site has none."""

from pathlib import Path

PAGE = "chapters/3-collectives/12-ring-and-tree-algorithms.html"
DOUBLE = Path(__file__).with_name("engine_double.js")


def with_double(tab):
    """The tab, whose pages find the double instead of the engine."""

    def page(route):
        answer = route.fetch()
        body = answer.text().replace('"engine": 0', '"engine": 4400000')
        route.fulfill(response=answer, body=body)

    tab.route("**/*.html", page)
    script = {"path": DOUBLE, "content_type": "text/javascript"}
    tab.route("**/code/engine.js*", lambda route: route.fulfill(**script))
    return tab
