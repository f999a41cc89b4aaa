"""CacheLab: the cache of one sequence by its length, for four kinds of attention."""

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import slider
from dtlib.explore.kit.widget import Widget

HEADS = (8, 16, 32, 64, 128)
GROUPS = (1, 2, 4, 8, 16, 32, 64, 128)
WINDOWS = tuple(2**power for power in range(10, 21, 2))
LATENTS = (128, 256, 512, 1024, 2048)
TOKENS = tuple(2**power for power in range(10, 21))
MODEL = {"layers": 60, "head_dim": 128, "rope_dim": 64, "element_bytes": 2}
MEMORY = 64  # GB


class CacheLab(Widget):
    """Bytes of one sequence's cache with all heads, grouped ones, a window, and a latent.

    A model of 60 layers and heads of 128 numbers, in 16 bits, with 64 GB for caches. Arguments:
    `title`; `heads` A and `groups`, key heads (never more than A); `window`, tokens seen;
    `latent`, its numbers, with 64 rotary ones beside; `seq`, tokens; at the start, of those in
    `HEADS`, `GROUPS`, `WINDOWS`, `LATENTS` and `TOKENS`; `task`, a `Task` over these five,
    ``plain``, ``grouped``, ``windowed`` and ``latents``, GB of one sequence, ``grouped_batch``,
    ``windowed_batch`` and ``latent_batch``, sequences that fit, and ``equal``, the key heads that
    weigh as much as the latent. Raises ValueError for a start that is not among the choices, and
    for a task that is met at the start or not met by its solution.
    """

    def __init__(self, *, title: str, heads: int = 128, groups: int = 8, window: int = 2**20,
                 latent: int = 512, seq: int = 2**17, task: Task | None = None):  # fmt: skip
        super().__init__(
            title=title,
            controls=[
                slider("seq", "tokens", TOKENS, seq),
                slider("groups", "key heads", GROUPS, groups),
                slider("latent", "numbers of the latent", LATENTS, latent),
                slider("window", "window, tokens", WINDOWS, window),
                slider("heads", "heads", HEADS, heads),
            ],
            task=task,
            model=MODEL,
            memory=MEMORY,
        )

    def names(self, *, heads, groups, window, latent, seq) -> dict:
        """In GB and sequences; the same numbers from the library's formulas."""
        from dtlib.efficiency import (
            grouped_cache_bytes,
            latent_cache_bytes,
            latent_equal_kv_heads,
            windowed_cache_bytes,
        )

        layers, width, rope, size = MODEL.values()
        kept = min(groups, heads)
        found = {
            "plain": grouped_cache_bytes(layers, heads, width, seq, size) / 1e9,
            "grouped": grouped_cache_bytes(layers, kept, width, seq, size) / 1e9,
            "windowed": windowed_cache_bytes(layers, kept, width, seq, window, size) / 1e9,
            "latents": latent_cache_bytes(layers, latent, rope, seq, size) / 1e9,
        }
        return found | {
            "grouped_batch": int(MEMORY // found["grouped"]),
            "windowed_batch": int(MEMORY // found["windowed"]),
            "latent_batch": int(MEMORY // found["latents"]),
            "equal": latent_equal_kv_heads(latent, rope, width),
        }
