"""The same verdicts in the page and in CPython: every listed answer is judged in both.

answers (all answers of a group, judged: the one module that runs in both), page (an engine in a
browser's page, which runs code), compared (the table).
"""
