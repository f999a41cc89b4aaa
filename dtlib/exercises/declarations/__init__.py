"""An exercise as one declaration: its grader, its wrong answers and its entry follow from it.

In reading order: declaration, numbers, question, functions, made, on_page.
"""
