"""Notebooks that open anywhere: no markup of the book's tools, every exercise cells of its own.

`stubs` says what stands where a reader is to write, `names` what a label is called, `sources` how
a source is cited; `words` turns what stands in a line into words, `boxes` what stands in a box
into quotes; `cells` makes the cells of exercises, `plain` the whole notebook, `pages` the page of
the site from its text and a notebook's outputs; `residues` finds markup that is left.
"""
