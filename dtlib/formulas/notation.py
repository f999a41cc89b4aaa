"""The book's one symbol table: one symbol, one meaning, in code and in every equation.

A formula's parameters are names of this table; it gives them their LaTeX, their unit and their
meaning, and typical values on which every formula is checked. To use a new symbol, add a line.
"""

from dataclasses import dataclass

from dtlib.formulas.table import Table, Tables


@dataclass(frozen=True)
class Symbol:
    """A name of the library, how it is typeset, its unit ("" for a count) and what it means.

    `sample` holds values that it takes in practice; tests evaluate every formula on them.
    """

    name: str
    latex: str
    unit: str
    meaning: str
    group: str
    sample: tuple[float, ...]

    def sympy(self):
        """The positive sympy symbol that stands for this name in a formula's expression.

        >>> NOTATION["alpha"].sympy()
        alpha
        """
        import sympy

        return sympy.Symbol(self.name, positive=True)


_MACHINE, _MESSAGE = "Links and machines", "Messages"
_RANKS, _WORK = "Ranks and how they are grouped", "Work and time"
_MODEL = "Models"
_MONEY = "Money, energy and failures"
_DATA = "Data and queues"
_PRODUCT = "Matrix products on a GPU"
_COUNTS = (1, 2, 3, 8, 64, 1000)
_RATES = (1e9, 5e10, 4.5e11)

_SYMBOLS = (
    Symbol("alpha", r"\alpha", "s", "latency, the fixed time of one message", _MACHINE,
           (2e-7, 5e-6, 3e-4)),
    Symbol("beta", r"\beta", "B/s", "bandwidth of one endpoint, per direction", _MACHINE, _RATES),
    Symbol("read_rate", r"\beta_\text{read}", "B/s", "rate at which a disk reads", _MACHINE,
           (6.5e9, 2.8e10)),
    Symbol("write_rate", r"\beta_\text{write}", "B/s", "rate at which a disk writes", _MACHINE,
           (3e9, 2.8e10)),
    Symbol("codec", r"C_\text{codec}", "B/s",
           "rate at which packed bytes are unpacked, counted as they are afterwards", _MACHINE,
           (2e9, 5e10)),
    Symbol("alpha_in", r"\alpha_\text{in}", "s", "latency of a message between ranks of one node",
           _MACHINE, (1e-6, 5e-6)),
    Symbol("beta_in", r"\beta_\text{in}", "B/s",
           "bandwidth of a rank to the other ranks of its node, per direction", _MACHINE,
           (3e11, 4.5e11)),
    Symbol("port_beta", r"\beta_\text{port}", "B/s",
           "bandwidth of one network port of a node, per direction", _MACHINE, _RATES),
    Symbol("gamma", r"\gamma", "s/B", "time to reduce one byte into another", _MACHINE,
           (5e-13, 1e-10)),
    Symbol("handover", r"\theta", "s", "time for which one piece of a message waits at a station",
           _MACHINE, (1e-6, 7e-6)),
    Symbol("own_beta", r"\beta_\text{own}", "B/s",
           "bandwidth at which a rank moves its own share within its memory", _MACHINE,
           (5e11, 9e11)),
    Symbol("exchange", r"T_\text{exch}", "s",
           "time to set up a send and a receive for every other rank", _MACHINE, (1e-6, 4e-6)),
    Symbol("switch_setup", r"T_\text{switch}", "s",
           "time to set up an all-reduce that the switch adds up", _MACHINE, (2e-5, 7e-5)),
    Symbol("L", "L", "s", "LogGP latency, the time that a byte travels", _MACHINE, (5e-7, 1e-5)),
    Symbol("o", "o", "s", "LogGP overhead, the time that a processor spends to send or receive",
           _MACHINE, (2e-7, 4e-6)),
    Symbol("gap", "g", "s", "LogGP gap, the least time between two messages", _MACHINE,
           (1e-7, 2e-6)),
    Symbol("G", "G", "s/B", "LogGP gap per byte, the inverse of the bandwidth", _MACHINE,
           (2e-12, 2e-11)),
    Symbol("peak", "F", "FLOP/s", "peak arithmetic rate, dense, of the data type in use", _MACHINE,
           (2e10, 9.895e14)),
    Symbol("bandwidth", r"B_\text{mem}", "B/s", "bandwidth of the memory that the work reads",
           _MACHINE, (1e10, 3.35e12)),
    Symbol("cores", "c", "", "processors that share one memory system", _MACHINE, (1, 2, 16)),
    Symbol("memory", "M", "B", "memory of one device", _MACHINE, (1.6e10, 8.59e10)),
    Symbol("n", "n", "B", "bytes of the message, or of the buffer that each rank holds", _MESSAGE,
           (1, 1e3, 123456.0, 1e9)),
    Symbol("k", "k", "", "messages, or chunks that one message is cut into", _MESSAGE, _COUNTS),
    Symbol("S", "S", "", "segments that are pipelined through a tree", _MESSAGE, _COUNTS),
    Symbol("h", "h", "", "hops between the source and the last receiver", _MESSAGE, (1, 2, 7, 255)),
    Symbol("P", "P", "", "ranks that take part", _RANKS, (2, 3, 8, 64, 1000, 2**29)),
    Symbol("ranks_per_node", r"P_\text{node}", "", "ranks in one node", _RANKS, (2, 4, 8, 72)),
    Symbol("nodes", r"N_\text{node}", "", "nodes", _RANKS, (2, 3, 128)),
    Symbol("nics", r"N_\text{nic}", "", "network ports of one node", _RANKS, (1, 2, 8)),
    Symbol("shards", r"N_\text{shard}", "", "servers, each of which keeps a part of the vector",
           _RANKS, (1, 4, 16)),
    Symbol("members", r"P_\text{in}", "", "ranks of one group that share a container", _RANKS,
           (1, 2, 8)),
    Symbol("container", r"P_\text{box}", "", "ranks in one container: a GPU, a node, a pod",
           _RANKS, (1, 8, 64)),
    Symbol("uplink", r"\beta_\text{out}", "B/s", "bandwidth out of one container, per direction",
           _MACHINE, (4e10, 4.5e11)),
    Symbol("traffic", "v", "B", "bytes that a rank passes on to its neighbour in one step",
           _MESSAGE, (1e6, 1.5e11)),
    Symbol("p", "p", "", "pipeline stages", _RANKS, (2, 4, 16)),
    Symbol("m", "m", "", "micro-batches", _RANKS, (1, 8, 96)),
    Symbol("v", r"p_\text{v}", "", "stages of one rank, when they interleave", _RANKS, (1, 2, 4)),
    Symbol("c", r"c_\text{lag}", "", "micro-batches that each earlier stage takes in on top",
           _RANKS, (1, 2)),
    Symbol("rank", r"r_\text{pipe}", "", "a rank's place in its pipeline, from 0", _RANKS, (1, 2)),
    Symbol("f", "t_F", "s", "time of a rank's forward pass for one micro-batch", _WORK,
           (0.001, 0.1)),
    Symbol("b", "t_B", "s", "time of the input's gradient for one micro-batch", _WORK,
           (0.001, 0.1)),
    Symbol("w", "t_W", "s", "time of the weights' gradients for one micro-batch", _WORK,
           (0.0005, 0.1)),
    Symbol("tp", "t", "", "ranks that share every layer (tensor parallelism)", _RANKS, (2, 8)),
    Symbol("dp", r"P_\text{dp}", "", "replicas that share the batch (data parallelism)", _RANKS,
           (2, 64, 1024)),
    Symbol("cp", r"P_\text{cp}", "", "ranks that share the tokens of a sequence", _RANKS,
           (2, 8, 64)),
    Symbol("ep", r"P_\text{ep}", "", "ranks that share the experts of a layer", _RANKS,
           (2, 8, 64)),
    Symbol("stage", "z", "", "ZeRO stage: how much of the model state is divided", _RANKS,
           (1, 2, 3)),
    Symbol("gathers", r"N_\text{AG}", "", "all-gathers of all weights in one step", _RANKS,
           (1, 2, 32)),
    Symbol("scatters", r"N_\text{RS}", "", "reduce-scatters of all gradients in one step", _RANKS,
           (1, 16)),
    Symbol("layers", r"\ell", "", "layers of the model", _MODEL, (12, 80, 126)),
    Symbol("hidden", "H", "", "width of the residual stream", _MODEL, (768, 8192, 16384)),
    Symbol("heads", "A", "", "attention heads", _MODEL, (12, 64, 128)),
    Symbol("kv_heads", r"A_\text{kv}", "", "attention heads that have keys and values of their own",
           _MODEL, (1, 8, 64)),
    Symbol("ffn", r"H_\text{ffn}", "", "inner width of the feed-forward block", _MODEL,
           (3072, 28672, 53248)),
    Symbol("vocab", "V", "", "words of the vocabulary", _MODEL, (32000, 50257, 128256)),
    Symbol("experts", "E", "", "experts of one layer", _MODEL, (8, 64, 256)),
    Symbol("chosen", r"k_\text{top}", "", "experts that one token is sent to", _MODEL, (1, 2, 8)),
    Symbol("capacity_factor", r"c_\text{cap}", "",
           "places at an expert, over the copies that are due to it on average", _MODEL,
           (1, 1.25, 2)),
    Symbol("dropped", r"d_\text{drop}", "", "share of the copies that find no place", _MODEL,
           (0.001, 0.014, 0.5)),
    Symbol("busiest", r"m_\text{max}", "", "load of the busiest expert, over the mean load", _MODEL,
           (1, 1.2, 4.5)),
    Symbol("seq", "s", "", "tokens in one sequence", _MODEL, (1024, 4096, 131072)),
    Symbol("micro_batch", "b", "", "sequences in one micro-batch of one rank", _MODEL, (1, 4, 32)),
    Symbol("tokens_per_rank", r"\tau", "", "tokens that one rank works on in one step", _MODEL,
           (2048, 16384, 2**20)),
    Symbol("kept_bytes", r"M_\text{kept}", "B",
           "what one micro-batch leaves for its backward pass, in all layers", _MODEL, (1e9, 2e11)),
    Symbol("segment", r"k_\text{seg}", "", "layers that are recomputed together", _MODEL,
           (1, 4, 12)),
    Symbol("state_bytes", r"n_\text{state}", "B", "bytes of the input of one layer", _MODEL,
           (1e6, 2e8)),
    Symbol("layer_bytes", r"n_\text{layer}", "B", "what a layer keeps of its forward pass",
           _MODEL, (1e8, 3e9)),
    Symbol("stream_bytes", r"n_\text{stream}", "B",
           "what a layer keeps of one token's stream, between the matrices", _MODEL, (1e4, 2e5)),
    Symbol("stream_ranks", r"P_\text{stream}", "",
           "ranks that divide the stream: those of a layer under sequence parallelism, else 1",
           _RANKS, (1, 8)),
    Symbol("split_bytes", r"n_\text{split}", "B",
           "what a layer keeps of one token's heads and inner numbers", _MODEL, (2e4, 5e5)),
    Symbol("pair_bytes", r"n_\text{pair}", "B", "what a layer keeps of one pair of tokens", _MODEL,
           (1, 480)),
    Symbol("key_bytes", r"n_\text{kv}", "B", "bytes of one token's keys and values in one layer",
           _MODEL, (4096, 32768)),
    Symbol("repeated_bytes", r"n_\text{again}", "B",
           "what a layer's forward pass makes that is not kept", _MODEL, (1e7, 2e9)),
    Symbol("in_flight", r"m_\text{flight}", "",
           "micro-batches whose forward pass a rank has done and whose backward pass it has not",
           _RANKS, (1, 4, 5.5)),
    Symbol("moving_bytes", r"M_\text{move}", "B", "memory that a step takes and gives back", _MODEL,
           (1e9, 5e10)),
    Symbol("reserve_share", r"\xi", "",
           "memory that the allocator holds for nobody, over what comes and goes", _MODEL,
           (0.05, 0.15)),
    Symbol("ahead_bytes", r"n_\text{ahead}", "B",
           "bytes of one layer's messages, for each number of the stream, not yet given back",
           _MODEL, (1, 2)),
    Symbol("token_flops", r"W_\text{tok}", "FLOP", "work for one token", _MODEL, (7e8, 1e12)),
    Symbol("reductions", r"N_\text{red}", "",
           "all-reduces of one layer for one micro-batch, forward and backward", _RANKS, (4, 6)),
    Symbol("element_bytes", "w", "B", "bytes of one number", _MODEL, (1, 2, 4)),
    Symbol("params", r"\Psi", "", "parameters of the model", _MODEL, (1.24e8, 1.75e11)),
    Symbol("tokens", "D", "", "tokens that the model is trained on", _MODEL, (1e9, 3e11)),
    Symbol("roundoff", r"u_\text{fp}", "", "unit roundoff, half the gap above 1 of a format",
           _MODEL, (2**-24, 2**-11, 2**-8)),
    Symbol("absolute_sum", r"G_\text{abs}", "", "sum of the absolute values of all ranks' numbers",
           _MODEL, (0.5, 1, 100)),
    Symbol("kept", r"\kappa", "", "bytes of a sparse gradient over those of the dense one", _MODEL,
           (0.015, 0.03, 0.2)),
    Symbol("tokens_per_param", "r", "", "training tokens for each parameter", _MODEL,
           (1, 20, 2000)),
    Symbol("batch_tokens", r"D_\text{step}", "", "tokens of all ranks in one step", _MODEL,
           (5e5, 4e6)),
    Symbol("flops", "W", "FLOP", "arithmetic work", _WORK, (1e6, 1e15)),
    Symbol("repeated_flops", r"W_\text{again}", "FLOP", "work that recomputation does once more",
           _WORK, (1e6, 3e14)),
    Symbol("bytes", "Q", "B", "bytes that the work moves to and from memory", _WORK, (1e6, 1e11)),
    Symbol("intensity", "I", "FLOP/B", "arithmetic intensity, the work per byte moved", _WORK,
           (0.25, 40, 3e3)),
    Symbol("mfu", r"\text{MFU}", "", "share of the peak rate that the model's own arithmetic uses",
           _WORK, (0.05, 0.45, 1)),
    Symbol("hfu", r"\text{HFU}", "", "the same for all arithmetic that is done, repeats included",
           _WORK, (0.05, 0.5, 1)),
    Symbol("computing", r"T_\text{comp}", "s", "time that the arithmetic takes by itself", _WORK,
           (1e-3, 0.1, 3)),
    Symbol("transfer", r"T_\text{lane}", "s", "time for which moving one layer occupies its lane",
           _WORK, (1e-3, 0.08, 2)),
    Symbol("lookahead", r"k_\text{ahead}", "", "layers that are asked for before their turn",
           _WORK, (1, 2, 8)),
    Symbol("squeeze", r"R_\text{pack}", "", "bytes before packing over bytes after it", _MESSAGE,
           (1.15, 1.39, 2)),
    Symbol("micro_time", r"T_\text{mb}", "s", "time that one micro-batch takes through all layers",
           _WORK, (0.05, 4)),
    Symbol("idle", r"T_\text{idle}", "s", "time in which a layer's pass waits for kernels to start",
           _WORK, (5e-5, 5e-4)),
    Symbol("passes", r"N_\text{pass}", "", "passes through a layer, the backward one counted twice",
           _WORK, (3, 4)),
    Symbol("touches", r"N_\text{touch}", "", "times that a kept byte is written or read", _WORK,
           (4, 8)),
    Symbol("hiding", r"T_\text{hide}", "s", "arithmetic under which communication can hide", _WORK,
           (0.01, 2)),
    Symbol("overlap_share", r"\omega", "", "share of what could overlap that does", _WORK,
           (0.25, 0.6, 1)),
    Symbol("backward", r"T_\text{bwd}", "s", "time that the backward pass takes by itself", _WORK,
           (0.08, 2)),
    Symbol("start_time", r"T_\text{start}", "s", "time that starting one more all-reduce costs",
           _WORK, (5e-5, 1e-3)),
    Symbol("compute", r"T_1", "s", "time that one rank alone would compute", _WORK, (0.5, 100)),
    Symbol("comm", r"T_\text{comm}", "s", "time that a step's communication takes", _WORK,
           (0.02, 3)),
    Symbol("sync", r"T_\text{sync}", "s", "time that a step waits for its slowest rank", _WORK,
           (0.001, 0.5)),
    Symbol("overlap", r"T_\text{ov}", "s", "time in which a step computes and communicates", _WORK,
           (0.001, 0.02)),
    Symbol("serial", "f", "", "share of the work that does not divide", _WORK, (0.001, 0.05, 1)),
    Symbol("comm_ratio", r"\rho", "", "communication of a step over the work of one rank", _WORK,
           (0.001, 0.1, 1)),
    Symbol("deadline", r"T_\text{max}", "s", "time by which the run must be over", _WORK,
           (8.64e4, 7.776e6)),
    Symbol("time", r"T_\text{meas}", "s", "time that was measured", _WORK, (1e-5, 0.25)),
    Symbol("token_bytes", r"b_\text{tok}", "B", "bytes that hold one token of the input", _DATA,
           (2, 4, 600)),
    Symbol("amplification", "a", "", "bytes that are read for each byte that is used", _DATA,
           (1, 1.25, 130)),
    Symbol("storage", r"B_\text{store}", "B/s", "bytes/s of the storage that all nodes share",
           _DATA, (1e9, 2e11)),
    Symbol("record_bytes", r"n_\text{rec}", "B", "bytes of one record", _DATA, (8192, 1.1e5)),
    Symbol("block_bytes", r"n_\text{block}", "B", "bytes that storage reads at once", _DATA,
           (4096, 1048576)),
    Symbol("fetch", r"T_\text{fetch}", "s", "mean time to make one batch ready", _DATA, (0.05, 2)),
    Symbol("step", r"T_\text{step}", "s", "time that a step takes once its batch is there", _DATA,
           (0.25, 0.5)),
    Symbol("workers", r"N_\text{work}", "", "workers that fetch batches", _DATA, (1, 4, 32)),
    Symbol("depth", "d", "", "batches that are asked for and not yet taken", _DATA, (1, 4, 64)),
    Symbol("slowest", r"T_\text{slowest}", "s", "time of the slowest fetch", _DATA, (0.4, 22)),
    Symbol("cache", r"M_\text{cache}", "B", "bytes that the cache holds", _DATA, (1e12, 3e13)),
    Symbol("fill", r"B_\text{fill}", "B/s", "bytes/s that flow into the cache", _DATA, (1e8, 3e8)),
    Symbol("drain", r"B_\text{drain}", "B/s", "bytes/s that are taken out of the cache", _DATA,
           (9e8, 2e9)),
    Symbol("load", "u", "", "share of its time for which a server is busy", _DATA,
           (0.3, 0.5, 0.9)),
    Symbol("arrival_cv", r"c_\text{a}", "", "spread of the times between arrivals, over their mean",
           _DATA, (0.5, 1, 2)),
    Symbol("service_cv", r"c_\text{s}", "", "spread of the service times, over their mean", _DATA,
           (0.25, 1, 2)),
    Symbol("service", r"T_\text{serve}", "s", "mean time of one service", _DATA, (0.001, 0.01)),
    Symbol("interval", r"\tau_\text{c}", "s", "work between two checkpoints", _MONEY,
           (600, 3600, 2e4)),
    Symbol("piece", "U", "s", "work that must be done without an interruption", _MONEY,
           (0.5, 100, 3e3)),
    Symbol("write_time", r"\delta", "s", "time for which writing a checkpoint stops the job",
           _MONEY, (1, 120, 600)),
    Symbol("mtbf", r"\mu", "s", "mean time between failures, of one machine or of the whole job",
           _MONEY, (2e3, 7.2e4, 1e6)),
    Symbol("restart_time", "R", "s", "time from a failure until the job works again", _MONEY,
           (30, 600)),
    Symbol("price", r"c_\text{GPU}", "USD/s", "price of one GPU", _MONEY, (4e-4, 1.1e-3)),
    Symbol("budget", r"C_\text{max}", "USD", "money that the run may cost", _MONEY, (5e4, 1e7)),
    Symbol("purchase", r"C_\text{buy}", "USD",
           "what a GPU costs to buy, with its share of server and network", _MONEY, (2e4, 5.5e4)),
    Symbol("running", r"c_\text{run}", "USD/s", "what one hour of a GPU of one's own costs to run",
           _MONEY, (2e-5, 1.5e-4)),
    Symbol("lifetime", r"T_\text{life}", "s", "time after which a bought GPU is worth nothing",
           _MONEY, (9e7, 1.6e8)),
    Symbol("utilisation", r"\phi", "", "share of its life in which a GPU is used", _MONEY,
           (0.1, 0.5, 1)),
    Symbol("power", r"\text{TDP}", "W", "electric power of one GPU at full load", _MONEY,
           (400, 700, 1000)),
    Symbol("pue", r"\text{PUE}", "", "power of the whole building over that of its computers",
           _MONEY, (1, 1.1, 1.5)),
    Symbol("rows", "X", "", "rows of a product's result", _PRODUCT, (1, 300, 8192)),
    Symbol("columns", "Y", "", "columns of a product's result", _PRODUCT, (64, 4096, 53248)),
    Symbol("inner", "K", "", "length of the sum in each of a product's numbers", _PRODUCT,
           (256, 4096, 65536)),
    Symbol("tile_rows", r"X_\text{tile}", "", "rows of the tile that one multiprocessor computes",
           _PRODUCT, (64, 128, 256)),
    Symbol("tile_columns", r"Y_\text{tile}", "",
           "columns of the tile that one multiprocessor computes", _PRODUCT, (64, 128, 256)),
    Symbol("tiles", r"N_\text{tile}", "", "tiles that cover a product's result", _PRODUCT,
           (1, 109, 4096)),
    Symbol("sms", r"N_\text{sm}", "", "streaming multiprocessors of one GPU", _PRODUCT,
           (108, 132, 148)),
    Symbol("edge", r"\epsilon", "", "multiply-adds that fetching one number costs a multiprocessor",
           _PRODUCT, (2, 8, 16)),
    Symbol("peak_fraction", r"\sigma_F", "", "share of the peak rate that a kernel reaches",
           _PRODUCT, (0.5, 0.8, 1)),
    Symbol("bandwidth_fraction", r"\sigma_B", "",
           "share of the memory bandwidth that a kernel reaches", _PRODUCT, (0.5, 0.8, 1)),
    Symbol("launch", r"T_\text{launch}", "s", "time that starting and ending a kernel takes",
           _PRODUCT, (1e-6, 4e-6)),
)  # fmt: skip

NOTATION: dict[str, Symbol] = {symbol.name: symbol for symbol in _SYMBOLS}


def notation_table(*names: str) -> Tables:
    """The symbol table, or the part of it that is named, in groups.

    Raises KeyError for a name that it does not have.

    >>> notation_table("alpha", "beta")
    Links and machines
      in code  unit  meaning
      alpha    s     latency, the fixed time of one message
      beta     B/s   bandwidth of one endpoint, per direction
    """
    unknown = [name for name in names if name not in NOTATION]
    if unknown:
        raise KeyError(f"no symbol {unknown[0]!r} in the notation; known: {', '.join(NOTATION)}")
    symbols = [NOTATION[name] for name in names or NOTATION]
    return Tables(
        Table(
            group,
            ("symbol", "in code", "unit", "meaning"),
            tuple(
                (f"${s.latex}$", f"`{s.name}`", s.unit or "count", s.meaning)
                for s in symbols
                if s.group == group
            ),
            page_only=("symbol",),
        )
        for group in dict.fromkeys(s.group for s in symbols)
    )
