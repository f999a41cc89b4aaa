"""Chapter numbers from file names: 13a-topology is chapter 13a, its second theorem is 13a.2.

Sphinx counts the pages of a part from 1. The book's numbers are those of its file names, in
sections, equations, figures, theorems, exercises and every reference to one of them. And
``{ref}`ch-13a` `` reads 'Chapter 13a', whether the chapter is written or only planned.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles

PART = re.compile(r"^(?:.*/)?part-\d+-[^/]+$")
CHAPTER = re.compile(r"^(?:.*/)?chapters/[^/]+/0*(\d+[a-z]?)-[^/]+$")
LABEL = re.compile(r"^ch-(\d+[a-z]?)$")


def renumber(env: BuildEnvironment) -> None:
    """Put the chapter's own number in the place of the counted one, in the tables of Sphinx.

    The page of a part stands among its chapters and has no number.
    """
    for page in filter(PART.match, env.toc_secnumbers):
        env.toc_secnumbers[page] = {}
        for numbered in [env.titles[page], *env.tocs[page].findall(nodes.reference)]:
            numbered.attributes.pop("secnumber", None)
    for page, numbers in env.toc_secnumbers.items():
        match = CHAPTER.match(page)
        if not match:
            continue
        chapter = match[1]
        for anchor, number in numbers.items():
            if number:
                numbers[anchor] = (chapter, *number[1:])
        for numbered in [env.titles[page], *env.tocs[page].findall(nodes.reference)]:
            if numbered.get("secnumber"):
                numbered["secnumber"] = (chapter, *numbered["secnumber"][1:])


def number_sections_by_file_name() -> None:
    """Renumber right after Sphinx has numbered the sections, before it numbers the figures.

    The collector in use is the one of sphinx_external_toc, and its method is the only place
    between the two steps.
    """
    collector = TocTreeCollectorWithStyles
    counted = collector.assign_section_numbers
    if hasattr(counted, "by_file_name"):
        return

    def assign_section_numbers(self, env):
        before = env.toc_secnumbers
        counted(self, env)
        renumber(env)
        return [page for page, new in env.toc_secnumbers.items() if before.get(page) != new]

    assign_section_numbers.by_file_name = True
    collector.assign_section_numbers = assign_section_numbers


def name_chapters(app: Sphinx, env: BuildEnvironment) -> None:
    """Give every chapter the label ch-NN; it, and that of a planned chapter, reads 'Chapter NN'."""
    domain = env.get_domain("std")
    for page in env.found_docs:
        if match := CHAPTER.match(page):
            domain.anonlabels[f"ch-{match[1]}"] = (page, "")
    for label, (page, anchor) in domain.anonlabels.items():
        if match := LABEL.match(label):
            domain.labels[label] = (page, anchor, f"Chapter {match[1]}")


def setup(app: Sphinx) -> dict:
    number_sections_by_file_name()
    app.connect("env-check-consistency", name_chapters)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
