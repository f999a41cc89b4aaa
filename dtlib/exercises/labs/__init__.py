"""The exercises of each lab, declared in the order of its page."""
