"""Failures: `rates`, of a fleet of unlike parts; `intervals`, how often to save; `fleet`, a run."""
