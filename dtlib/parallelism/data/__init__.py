"""Data parallelism: `flat`, `backward`, `alike`, `replica`, `overlap`, `rounding`; `cost`."""
