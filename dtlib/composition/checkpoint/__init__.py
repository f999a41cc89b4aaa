"""Checkpoints that any layout writes and any other reads.

`boxes`, the arithmetic of which part of a tensor lies where; `disk`, the few operations of a file
system that a writer needs; `shards`, a rank's file with a checksum for each part; `manifest`, what
makes files a checkpoint; `writing` and `reading`, of all ranks together; `states`, which parts a
run and its optimizer have; `saving`, the two functions of the face; `background`, a save that the
run does not wait for; `dcp`, from and to torch's own format; `buddies`, copies in the memory of
other ranks.
"""
