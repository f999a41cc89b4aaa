"""An exercise as one declaration, from which its grader and its wrong answers follow.

In reading order: numbers.
"""
