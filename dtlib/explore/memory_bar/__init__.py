"""What a rank must hold, against its GPU: `memory_bar`; `counts` is what the page must know."""
