"""Feeding the data: `rates`, `prefetcher`, `memoryless`, `sampling` and `balance`."""
