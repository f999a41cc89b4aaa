"""The exercises of each chapter: a room for each part, a module a chapter, in the page's order."""
