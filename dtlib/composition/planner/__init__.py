"""Configurations searched (the lead writes this face)."""
