"""A sum over the ranks in a format of few bits: `bits_lab`."""
