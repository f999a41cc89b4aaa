"""Failures and how to live with them.

`rates`, of a fleet of unlike parts; `intervals`, how often to save; `fleet`, nodes, spares and how
a job comes back; `account`, where a run's time goes; `simulation`, which runs a job on a fleet;
`traces`, one list of failures for a job that stops and for replicas that go on.
"""
