"""Feeding the data: `rates`, `prefetcher`, `memoryless` and `sampling`."""
