"""The exercises of each chapter: a module a chapter, declarations in the order of its page."""
