"""A sheet as bars whose parts open: `worksheet`."""
