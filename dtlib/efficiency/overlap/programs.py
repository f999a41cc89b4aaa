"""In which order frameworks launch: three programs for one GPU, as rows of kernels.

All are written as the host issues them, from top to bottom; `simulate_queues` runs them.
"""

from dtlib.efficiency.overlap.queues import Kernel, communicating, computing
from dtlib.formulas.require import require_count


def bucketed_backward(k: int, backward, comm, start_time=0, sms=0) -> list[Kernel]:
    """Data parallelism: when a bucket is ready its all-reduce is launched, then the next layers.

    Arguments: `k` equal buckets; `backward`, time of the backward pass; `comm`, of one all-reduce
    of everything, and `start_time`, of each further start; `sms`, the share that a collective
    holds.

    >>> [kernel.name for kernel in bucketed_backward(2, backward=8, comm=4)]
    ['B0', 'R0', 'B1', 'R1']
    """
    require_count("bucketed_backward", k=k)
    program = []
    for i in range(k):
        program += [
            computing(f"B{i}", backward / k, "backward"),
            communicating(f"R{i}", comm / k + start_time, sms, [f"B{i}"]),
        ]
    return program


def tensor_parallel_backward(layers: int, input_grad, comm, weight_grad, sms=0) -> list[Kernel]:
    """Tensor parallelism: the sum of an input's gradient runs beside the weight's gradient.

    In each layer the gradient of the input is computed, its all-reduce is launched, and then the
    gradient of the weight, which does not need the sum. The layer before needs it.

    >>> [kernel.name for kernel in tensor_parallel_backward(2, 4, 3, 4)]
    ['X1', 'S1', 'W1', 'X0', 'S0', 'W0']
    """
    require_count("tensor_parallel_backward", layers=layers)
    program: list[Kernel] = []
    for i in reversed(range(layers)):
        needs = [f"S{i + 1}"] if program else []
        program += [
            computing(f"X{i}", input_grad, "backward", needs),
            communicating(f"S{i}", comm, sms, [f"X{i}"]),
            computing(f"W{i}", weight_grad, "weight"),
        ]
    return program


def sharded_forward(layers: int, forward, gather, kernels: int = 4, sms=0, ahead: int = 0):
    """Sharded weights: each layer is gathered, then computed by some `kernels`.

    With `ahead` = 0 the host launches a layer's gather just before its kernels (implicit prefetch:
    the gather may run beside kernels that were launched before it). With `ahead` = a it launches
    the gather of layer i + a before the kernels of layer i (explicit prefetch). `forward` and
    `gather` are times of one layer. Returns a list of kernels.

    >>> [kernel.name for kernel in sharded_forward(2, 4, 3, kernels=2)]
    ['G0', 'F0.0', 'F0.1', 'G1', 'F1.0', 'F1.1']
    >>> [kernel.name for kernel in sharded_forward(2, 4, 3, kernels=2, ahead=1)]
    ['G0', 'G1', 'F0.0', 'F0.1', 'F1.0', 'F1.1']
    """
    require_count("sharded_forward", layers=layers, kernels=kernels)
    require_count("sharded_forward", 0, ahead=ahead)
    program, gathered = [], 0
    for i in range(layers):
        upto = min(i + ahead + 1, layers)
        program += [communicating(f"G{j}", gather, sms) for j in range(gathered, upto)]
        gathered = upto
        program += [
            computing(f"F{i}.{j}", forward / kernels, "forward", [f"G{i}"]) for j in range(kernels)
        ]
    return program
