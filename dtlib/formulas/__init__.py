"""The language of the book: a formula is a Python function that typesets itself and runs on a page.

`units`; `notation` and `symbols`, the table of symbols; `poly`, functions of numbers, arrays and
symbols; `typeset` and `formula`; `sheet` and `sheet_table`, formulas that feed one another;
`table`; `require`, what an argument must be.
"""
