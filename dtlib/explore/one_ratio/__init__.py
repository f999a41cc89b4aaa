"""Five strategies and one ratio that decides which of them hide: `one_ratio`."""
