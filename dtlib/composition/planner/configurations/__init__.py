"""A plan as the configuration file of a training program, and such a file read as a plan.

`runs`, the nouns: a planned run, and a program's file as rows; `others`, options that say nothing
of a layout; `python_text`, files that are Python functions; `torchtitan`, `megatron` (with the
model's part in `megatron_model`) and `deepspeed`, one table each; `exchange`, which writes and
reads with any of them.
"""
