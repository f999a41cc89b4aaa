"""What a reader hands in, read: texts as one writes them, answers not made yet, files of answers.

In reading order: reading, unanswered, saved, alone, notebook, command.
"""
