"""The eight parts: their pages, and the doors at the ends of their chapters."""
