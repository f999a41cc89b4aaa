"""A pipeline schedule that the reader builds himself, in levels: `pipeline_builder`, `levels`."""
