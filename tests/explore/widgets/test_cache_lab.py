"""The cache lab shows what the formulas and `kv_bytes` say."""

from itertools import product

import pytest
from scripts import Scripts

from dtlib.efficiency import kv_bytes
from dtlib.explore import CacheLab
from dtlib.explore.cache_lab.cache_lab import GROUPS, HEADS, LATENTS, MODEL, TOKENS, WINDOWS
from dtlib.foundations import MLA, TransformerSpec

STATES = list(product(HEADS[::2], GROUPS[::3], WINDOWS[::2], LATENTS[::2], TOKENS[::5]))


def spec(heads, mla=None, **options):
    return TransformerSpec("", 60, 128 * heads, heads, 1, head_dim=128, mla=mla, **options)


def test_the_script_the_formulas_and_the_cache_of_a_spec_agree():
    scripts, lab = Scripts("cache_lab/model.js"), CacheLab(title="Caches")
    for heads, groups, window, latent, seq in STATES:
        state = {"heads": heads, "groups": groups, "window": window, "latent": latent}
        names = lab.names(**state, seq=seq)
        shown = scripts("keptOf(model, state, seq)", model=MODEL, state=state, seq=seq)
        assert shown == pytest.approx({kind: names[kind] for kind in shown})
        grouped = spec(heads, kv_heads=min(groups, heads))
        assert names["plain"] == pytest.approx(kv_bytes(spec(heads), seq) / 1e9)
        assert names["windowed"] == pytest.approx(kv_bytes(grouped, seq, window=window) / 1e9)
        mla = MLA(q_rank=1, kv_rank=latent, rope_dim=64, nope_dim=1, value_dim=1)
        assert names["latents"] == pytest.approx(kv_bytes(spec(heads, mla), seq) / 1e9)


def test_a_start_that_is_no_choice_of_the_cache_lab_is_refused():
    with pytest.raises(ValueError, match="groups: 3, but must be one of"):
        CacheLab(title="", groups=3)
