"""The steps of a causal ring: `ring_steps`; `model.js` times them."""
