"""What the book's machine said of itself, and how long its steps took: the lab's recording.

>>> samples, layouts, steps = recorded()
>>> len(samples["alone"]) == len(samples["crowd"]), list(layouts) == list(steps)
(True, True)
"""

from dtlib import recordings
from dtlib.layout import Layout

KINDS = ("alone", "crowd", "sum", "hop")


def recorded() -> tuple[dict, dict[str, Layout], dict[str, list[float]]]:
    """Samples of a machine, layouts by name, and the seconds of their steps, round by round."""
    kept = recordings.load("plan-on-ranks")
    samples: dict[str, list] = {kind: [] for kind in KINDS}
    for label, seconds in kept.samples.items():
        kind, _, size = label.partition(" ")
        if kind in samples:
            samples[kind] += [(int(size), t) for t in seconds]
    layouts = {name: Layout(**fields) for name, fields in kept.about["layouts"].items()}
    return samples, layouts, {name: kept.values(name) for name in layouts}
