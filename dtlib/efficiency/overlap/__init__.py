"""What communication hides behind what computation: bounds, buckets, queues, and real ranks.

`cost`, the formulas; `buckets`, the cuts that end first; `queues`, kernels in streams that share a
GPU, and `programs`, the orders in which frameworks launch them; `readiness`, when autograd has each
gradient; `matmul`, a product whose operand arrives while it runs; `one_sided`, schedules by puts
and signals.
"""
