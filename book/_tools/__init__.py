"""The commands that build and check the book: notebooks, equations, numbers, generated pages."""
