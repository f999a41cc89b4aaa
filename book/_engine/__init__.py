"""Python in the page: its parts, how they are packed, and the runner that they carry."""
