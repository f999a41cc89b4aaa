"""Mesh axes as blocks on a ruler of GPUs, inside walls that can be moved: `placing`."""
