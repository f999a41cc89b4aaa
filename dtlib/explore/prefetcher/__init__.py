"""A loader and its stalls: `prefetcher`; `model.js` runs it."""
