"""What four kinds of attention keep of one sequence, by its length: `cache_lab`."""
