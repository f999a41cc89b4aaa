"""Data parallelism: `flat`, `backward`, `alike`, `replica`, `overlap`, `rounding`, and its `cost`."""
