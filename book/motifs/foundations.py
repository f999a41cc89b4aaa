"""Chapters 1 to 6: walls, roofs, levels, a queue, a knee, an interval, an estimate."""

from book.motifs.marks import HEIGHT, WIDTH, Motif, log_scale, powers, scale
from dtlib.estimator.sheet import estimate
from dtlib.formulas.units import GB, day, hour, minute, us
from dtlib.foundations.cost.preemption import failure_multiplier, gang_mtbf, young_interval
from dtlib.foundations.data.prefetcher import count_trace, fetch_times, prefetch
from dtlib.foundations.roofline.times import ridge_intensity, roofline_rate
from dtlib.foundations.walls import exchange_wall_ranks, memory_wall_params, time_wall_params
from dtlib.machines.alpha_beta import half_performance_bytes, message_time
from dtlib.machines.axis_order import cluster_levels
from dtlib.machines.datasheets import catalog
from dtlib.machines.machine import Cluster
from dtlib.models.spec import TransformerSpec

NODE = 180  # from one node of the drawing to the next


def walls() -> Motif:
    """The largest model that P ranks hold, and that they train in time; the third wall stands."""
    motif, peak = Motif(), catalog["h100-sxm"].peak("bf16")
    ranks = powers(1, 65536)
    held = [memory_wall_params(P=P, memory=80 * GB) for P in ranks]
    done = [
        time_wall_params(P=P, peak=peak, mfu=0.4, deadline=90 * day, tokens_per_param=20)
        for P in ranks
    ]
    x = log_scale(1, 65536, 10, WIDTH - 10)
    y = log_scale(min(done), max(held), HEIGHT - 8, 8)
    both = [(x(P), y(min(pair))) for P, *pair in zip(ranks, held, done, strict=True)]
    beta = catalog["dgx-h100"].ring_bandwidth(8)
    third = x(exchange_wall_ranks(peak=peak, mfu=0.4, batch_tokens=4e6, beta=beta))
    motif.area([(10, HEIGHT), *both, (WIDTH - 10, HEIGHT)], "forward", 0.16)
    motif.line([(x(P), y(n)) for P, n in zip(ranks, held, strict=True)], "fourth", 3)
    motif.line([(x(P), y(n)) for P, n in zip(ranks, done, strict=True)], "forward", 3)
    motif.line([(third, 6), (third, HEIGHT - 4)], "communication", 3)
    return motif


def roofline() -> Motif:
    """Two roofs over one floor: what memory feeds, and what the network does."""
    gpu, node = catalog["h100-sxm"], catalog["dgx-h100"]
    peak, motif = gpu.peak("bf16"), Motif()
    intensity = powers(1, 30_000)
    x = log_scale(1, 30_000, 10, WIDTH - 10)
    y = log_scale(roofline_rate(1, peak, node.ring_bandwidth(1)), peak, HEIGHT - 8, 14)
    for rate, colour in (
        (gpu.hbm_bandwidth, "forward"),
        (node.ring_bandwidth(8), "communication"),
        (node.ring_bandwidth(1), "backward"),
    ):
        roof = [(x(i), y(roofline_rate(i, peak, rate))) for i in intensity]
        motif.line(roof, colour, 3)
        if colour == "forward":
            motif.area([(10, HEIGHT), *roof, (WIDTH - 10, HEIGHT)], colour, 0.12)
        motif.dot(x(ridge_intensity(peak, rate)), y(peak), 11, colour)
    return motif


def levels() -> Motif:
    """Four nodes of eight: a line is as thick as one rank's share of the bandwidth there."""
    motif = Motif()
    inside, between, above = cluster_levels(catalog["dgx-h100"], pod_nodes=8, taper=7)
    thick = log_scale(above.share, inside.share, 1.2, 13)
    for node in range(4):
        left = 20 + node * NODE
        places = [left + 20 * rank for rank in range(8)]
        motif.line([(places[0], 88), (places[-1], 88)], "fourth", thick(inside.share))
        for place in places:
            motif.line([(place, 88), (place, 52)], "communication", thick(between.share))
            motif.dot(place, 88, 15, "forward")
        motif.line([(places[0], 52), (places[-1], 52)], "communication", thick(between.share))
        middle = (places[0] + places[-1]) / 2
        motif.line([(middle, 52), (middle, 18)], "backward", thick(above.share))
    motif.line([(90, 18), (90 + 3 * NODE, 18)], "backward", thick(above.share))
    return motif


def queue() -> Motif:
    """Batches that wait for the GPU, and below the steps of the GPU, with the gaps between."""
    motif, step = Motif(), 10.0
    run = prefetch(fetch_times(38, 1.1, 46, seed=3), step, workers=4, depth=9)
    moments, waiting = count_trace(run.ready, run.taken)
    x = scale(run.started, run.stopped, 6, WIDTH - 6)
    y = scale(0, max(waiting), 78, 8)
    shape = [(6, 78)]
    for moment, count in zip(moments, waiting, strict=True):
        if moment >= run.started:
            shape += [(x(moment), shape[-1][1]), (x(moment), y(count))]
    motif.area([*shape, (WIDTH - 6, 78)], "communication", 0.75)
    for taken in run.taken:
        motif.bar(x(taken), 90, x(taken + step) - x(taken) - 1.5, 22, "forward")
    return motif


def knee() -> Motif:
    """The time of a message: flat where latency rules, steep where bandwidth does."""
    motif, link = Motif(), {"alpha": 5 * us, "beta": 50 * GB}
    sizes = powers(1e3, 1e8)
    x = log_scale(1e3, 1e8, 10, WIDTH - 10)
    y = log_scale(2e-6, message_time(1e8, **link), HEIGHT - 6, 8)
    bend = half_performance_bytes(**link)
    motif.line([(10, y(link["alpha"])), (WIDTH - 10, y(link["alpha"]))], "fourth", 2)
    steep = [n for n in sizes if n / link["beta"] > 2e-6]
    motif.line([(x(n), y(n / link["beta"])) for n in steep], "communication", 2)
    motif.line([(x(n), y(message_time(n, **link))) for n in sizes], "forward", 4)
    motif.dot(x(bend), y(message_time(bend, **link)), 14, "backward")
    return motif


def interval() -> Motif:
    """What an hour of progress costs, over the time between two checkpoints; Young's is lowest."""
    motif = Motif()
    stops = {"write_time": 2 * minute, "mtbf": gang_mtbf(mtbf=20 * hour, P=64)}
    best = young_interval(**stops)
    lengths = powers(best / 9, best * 9)
    price = [failure_multiplier(t, restart_time=10 * minute, **stops) for t in lengths]
    x = log_scale(lengths[0], lengths[-1], 10, WIDTH - 10)
    y = log_scale(min(price), 4 * min(price), HEIGHT - 14, 6)
    curve = [(x(t), y(p)) for t, p in zip(lengths, price, strict=True) if p < 4 * min(price)]
    motif.area([(curve[0][0], 6), *curve, (curve[-1][0], 6)], "backward", 0.14)
    motif.line(curve, "backward", 3.5)
    least = y(failure_multiplier(best, restart_time=10 * minute, **stops))
    motif.dot(x(best), least, 14, "fourth")
    return motif


def parts_of_an_estimate() -> Motif:
    """The memory of a rank and the time of a step, each as the sum of its lines."""
    motif = Motif()
    spec = TransformerSpec("30B", layers=48, hidden=7168, heads=56, vocab=32000, context=4096)
    sheet = estimate(
        spec, Cluster(catalog["dgx-h100"], nodes=16), batch=1024, zero=3, software="fsdp"
    )
    colours = ("forward", "fourth", "communication", "backward", "soft")
    for total, top in (("memory", 14), ("step", 66)):
        left = 8.0
        for place, share in enumerate(sheet.shares(total).values()):
            wide = share * (WIDTH - 16)
            motif.bar(left, top, max(wide - 2, 0.6), 40, colours[place % len(colours)])
            left += wide
    return motif


CHAPTERS = {
    "1": walls,
    "2": roofline,
    "3": levels,
    "3a": queue,
    "4": knee,
    "5": interval,
    "6": parts_of_an_estimate,
}
