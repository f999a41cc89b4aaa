"""Data parallelism: `buckets`, `replica`, `overlap`, `rounding`, and its `cost`."""
