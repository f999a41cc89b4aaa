"""A training step in ZeRO's stages: `zero_stages`; `model.js` says what is held."""
