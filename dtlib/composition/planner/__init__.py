"""The planner: every layout of a run is timed by one engine, from a description of each part.

`software`, what a training library costs and does; `machine`, what a cluster gives to a step;
`layer`, the passes of one micro-batch through the layers; `step`, the sheet of a whole step;
`legal`, which layouts there are; `plans`, all of them in order; `reasons`, why the others lost;
`script`, what an unmodified script sends and holds; `configurations`, a plan as the file of a
training program; `command`, a plan from a terminal.
"""
