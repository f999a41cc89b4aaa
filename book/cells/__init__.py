"""Which code cells of a page run in the page, and what each needs from earlier ones."""
