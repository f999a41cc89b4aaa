"""A quorum for each step: replicas that answer train on, and one that comes back is healed.

`task`, the nouns; `small`, a task to try it on; `replica`, what each process does in a
step; `lighthouse`, which agrees on who takes part and whether the step counts, in the process that
started them; `restarting`, the same replicas when all stop with each failure.
"""
