"""Wrong answers of chapter 12 that no slip derives: (exercise, answer, what it must be told)."""

from dtlib.collectives import Schedule, Send, halving_doubling_all_reduce, ring_all_reduce


def ring_of_the_page(P):
    """The page's broken ring, repaired."""
    return Schedule(P, P, [
        [Send(r, (r + 1) % P, (r - t + (not adds)) % P, adds) for r in range(P)]
        for adds in (True, False) for t in range(P - 1)
    ])  # fmt: skip


def ring_that_gathers_twice(P):
    rounds = list(ring_of_the_page(P))
    return Schedule(P, P, [*rounds, *rounds[P - 1 :]])


def all_reduce_with_ghosts(P):
    Q = 2 ** (P - 1).bit_length()
    return Schedule(P, Q, halving_doubling_all_reduce(Q).rounds)


def two_way_ring(P, left=-1):
    """Both directions in the same rounds; mirrored, or both to the right."""

    def mirrored(send):
        src, dst, chunk = (left * place % P for place in send[:3])
        return Send(src, dst, P + chunk, send.reduce)

    ring = [list(round) for round in ring_all_reduce(P)]
    return Schedule(P, 2 * P, [sends + list(map(mirrored, sends)) for sends in ring])


def one_way_then_the_other(P):
    both = [list(round) for round in two_way_ring(P)]
    right = [[s for s in round if s.chunk < P] for round in both]
    return Schedule(P, 2 * P, right + [[s for s in round if s.chunk >= P] for round in both])


def contributors(P, r, t):
    return {(r - k) % P for k in range(t + 2)}


TRACE, REPAIR, PROVE = "ex-trace-the-ring", "ex-repair-the-ring", "ex-prove-the-ring"
TWO_WAY = "ex-two-way-ring"

# fmt: off
WRONG = [
    (TRACE, ([26, 25, 24], [28, 32, 36, 40]), "sent must have 4 items"),
    (TRACE, [1, 2, 3], "2 items"),
    ("ex-bytes-on-the-wire", {"seconds": 1.5e-3}, "keys steps_per_phase, sent_bytes, seconds"),
    ("ex-buckets", 0.5, "2 items"),
    (REPAIR, ring_that_gathers_twice, "receives nothing"),
    (REPAIR, lambda P: ring_of_the_page(P) if P == 2 else ring_all_reduce(P), "P = 3: .*keep"),
    (REPAIR, lambda P: [[]], "return a Schedule, got list"),
    (REPAIR, lambda: None, r"must take my_ring\(P\)"),
    (REPAIR, ring_of_the_page(4), r"pass your function my_ring\(P\)"),
    (PROVE, lambda P, r, t: {r - k for k in range(t + 2)}, "the ranks are 0 to"),
    (PROVE, lambda P, r, t: [*contributors(P, r, t)], "a set of ranks"),
    (PROVE, lambda P, r, t: contributors(P, r, t - 1) if t else {r}, "before the round|too few"),
    (PROVE, lambda P, r, t: 1 / 0, "raises ZeroDivisionError"),
    ("ex-ring-in-any-order", lambda order: ring_all_reduce(len(order)), "to the next rank"),
    ("ex-fold", all_reduce_with_ghosts, "raises ValueError"),
    (TWO_WAY, lambda P: two_way_ring(P, left=1), "one from P on to the left"),
    (TWO_WAY, one_way_then_the_other, "both directions run in the same rounds"),
]
