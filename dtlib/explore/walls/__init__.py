"""Models over parameters and tokens, and the limits that a machine sets: `walls`."""
