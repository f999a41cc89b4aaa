"""Ranks that change places: `seats`; `model.js` counts what each port carries."""
