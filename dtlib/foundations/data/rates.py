"""What a training run reads: from tokens per second to bytes per second, and what storage gives.

The nouns:

- **Token bytes**: what one token occupies in the files that are read.
- **Amplification**: bytes that storage moves for each byte that the run wants.
- **Data intensity**: arithmetic per byte read. Its **ridge** belongs to the whole cluster, because
  all nodes read from one storage.
- **Fetch**: making one batch ready, from the request until it could be computed on.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil, minimum


@formula(
    r"\lambda_\text{tok}",
    "",
    "Kaplan et al. 2020, solved for the tokens",
    "dense model, attention neglected; tokens per second of the whole cluster",
)
def token_rate(params, P, peak, mfu):
    """Tokens per second that a cluster trains on.

    Useful arithmetic per second, over 6 FLOP for each parameter and token.

    >>> round(token_rate(params=70e9, P=256, peak=989e12, mfu=0.4))
    241128
    """
    return P * peak * mfu / (6 * params)


@formula(
    r"B_\text{need}",
    "B/s",
    "counting",
    "on average; says nothing of latency, of bursts or of the number of reads",
)
def data_bandwidth(params, P, peak, mfu, token_bytes, amplification):
    """Bytes per second that a cluster reads in order not to wait.

    Tokens per second, times the bytes of a token, times the bytes read for each of them. For the
    whole cluster.

    >>> round(data_bandwidth(70e9, P=256, peak=989e12, mfu=0.4, token_bytes=4, amplification=1))
    964510
    """
    return token_rate(params, P, peak, mfu) * token_bytes * amplification


@formula(
    r"I_\text{data}",
    "FLOP/B",
    "Williams, Waterman and Patterson 2009, applied to storage",
    "dense model, attention neglected",
)
def data_intensity(params, token_bytes, amplification):
    """Arithmetic that is done for each byte that is read from storage.

    6 FLOP per parameter and token, over the bytes that a token costs to read.

    >>> data_intensity(params=70e9, token_bytes=4, amplification=1)
    105000000000.0
    """
    return 6 * params / (token_bytes * amplification)


@formula(
    r"I_\text{data ridge}",
    "FLOP/B",
    "Williams, Waterman and Patterson 2009, applied to storage",
    "all ranks read from the one storage that is named",
)
def data_ridge_intensity(P, peak, mfu, storage):
    """The data intensity below which storage, and not arithmetic, limits the cluster.

    The arithmetic of *all* ranks over the bytes/s of the storage that they share.

    >>> f"{data_ridge_intensity(P=256, peak=989e12, mfu=0.4, storage=1e9):.3g}"
    '1.01e+08'
    """
    return P * peak * mfu / storage


@formula(
    "L_{0}", "", "Little 1961", "a mean: it needs neither a distribution nor an order of service"
)
def fetches_in_flight(fetch, step):
    """How many fetches are under way, on average, when a batch is used in every step.

    Little's law, rate times time: one batch a step, each under way for `fetch`.

    >>> fetches_in_flight(fetch=2, step=0.5)
    4.0
    """
    return fetch / step


@formula(
    r"d_\text{safe}",
    "",
    "the recursion of a loader that keeps the order",
    "batches are taken in order, by a GPU that has as many workers as batches ahead",
)
def safe_depth(slowest, step):
    """How many batches must be under way so that the GPU never waits once it took that many.

    The slowest fetch must fit into the steps between its request and its turn.

    >>> safe_depth(slowest=2, step=0.5), safe_depth(slowest=2.1, step=0.5)
    (4, 5)
    """
    return ceil(slowest / step)


@formula(
    r"U_\text{max}",
    "",
    "Little 1961",
    "an upper bound for every distribution; reached when no worker ever waits",
)
def busy_fraction_bound(workers, fetch, step):
    """The largest share of the time for which the GPU can be busy.

    Workers over the fetches that must be in flight, and never more than 1.

    >>> busy_fraction_bound(workers=3, fetch=2, step=0.5)
    0.75
    """
    return minimum(1, workers / fetches_in_flight(fetch, step))


@formula(
    r"T_\text{wait}",
    "s",
    "Kingman 1961",
    (
        "one server with an unbounded queue, load close to 1; exact for arrivals at random "
        "(exponential gaps), an approximation otherwise"
    ),
)
def kingman_wait_time(load, arrival_cv, service_cv, service):
    """How long a request waits, on average, before its service begins.

    Load over what is left of it, times the mean of the squared spreads, times a service.

    >>> kingman_wait_time(load=0.5, arrival_cv=1, service_cv=1, service=0.01)
    0.01
    """
    return load / (1 - load) * (arrival_cv**2 + service_cv**2) / 2 * service


@formula(
    r"a_\text{block}",
    "",
    "counting",
    "records lie at random offsets, each is read alone, and blocks are not kept",
)
def read_amplification(record_bytes, block_bytes):
    """Bytes that storage moves for each byte of a record, when it reads in whole blocks.

    A record at a random offset touches 1 + (record - 1)/block blocks on average. At least 1.

    >>> read_amplification(record_bytes=8192, block_bytes=1)
    1.0
    """
    return (record_bytes + block_bytes - 1) / record_bytes


@formula(r"T_\text{fill}", "s", "counting", "nothing is taken out meanwhile")
def cache_fill_time(cache, fill):
    """How long an empty cache takes to fill.

    Bytes over bytes/s.

    >>> cache_fill_time(cache=3e12, fill=3e8)
    10000.0
    """
    return cache / fill


@formula(
    r"T_\text{last}",
    "s",
    "counting",
    "every byte is used once; the outflow is larger than the inflow",
)
def cache_lasting_time(cache, fill, drain):
    """How long a full cache hides that storage is slower than the run.

    Its bytes over the difference of the two flows. Afterwards the run gets `fill`.

    >>> cache_lasting_time(cache=1e12, fill=3e8, drain=8e8)
    2000.0
    """
    return cache / (drain - fill)
