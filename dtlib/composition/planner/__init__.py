"""The planner: every layout of a run is timed by one engine, from a description of each part.

`software`, what a training library costs and does; `machine`, what a cluster gives to a step;
`layer`, the passes of one micro-batch through the layers; `stages`, what the ends have besides and
what replicas exchange; `lines`, what feeds what; `step`, the sheet of a whole step;
`legal`, which layouts there are; `costs`, what each takes; `reasons`, why one is behind another;
`plans`, all of them in order; `configurations`, a plan as the file of a training program, and
back; `script`, what an unmodified script sends and holds; `command`, a plan from a terminal.
"""
