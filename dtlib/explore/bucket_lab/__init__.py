"""A backward pass in buckets, with a network that may hold processors: `bucket_lab`, `model.js`."""
