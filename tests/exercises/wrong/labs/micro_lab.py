"""Wrong answers of the micro-lab that no slip derives: (exercise, answer, what it must be told)."""

from dtlib.exercises.labs.micro_lab import MINI, _audit, _closed_at, _exposed


def of_two_limits(sizes, limits):
    """Knows no third limit, and no first one alone."""
    return _closed_at(sizes, [limits[0], limits[1]])


def audit_of_sums(records, params, count):
    """The bytes of all ranks of a step together."""
    totals = {}
    for record in records:
        if record["op"] == "all_reduce":
            totals[record["step"]] = totals.get(record["step"], 0) + record["bytes"]
    whole = 4 * params * len({record["rank"] for record in records})
    wrong = any(total != whole for total in totals.values())
    return _audit(records, params, count) - {"c"} | ({"c"} if wrong else set())


BUCKETS, EXPOSED = "ex-micro-buckets", "ex-micro-exposed"
AUDIT, TIME = "ex-micro-audit", "ex-micro-time"
RIGHT = [
    (EXPOSED, lambda lines: list(_exposed(lines))),
    (AUDIT, lambda *given: "".join(sorted(_audit(*given)))),
]

# fmt: off
WRONG = [
    ("ex-micro-predict", {"gradient_bytes": 1}, "keys gradient_bytes, ddp_sent_bytes"),
    (BUCKETS, of_two_limits, "raises IndexError"),
    (BUCKETS, lambda sizes, limits: _closed_at(sizes, limits[:2]), "limits .60, 300, 900."),
    (BUCKETS, lambda sizes, limits: list(sizes), "bucket 1 has another size"),
    (BUCKETS, lambda sizes, limits: [*_closed_at(sizes, limits), 0], "a bucket is empty"),
    (BUCKETS, lambda sizes, limits: 3, "return a list of sizes"),
    (BUCKETS, lambda sizes, limits: sizes * 2, "are in two buckets"),
    (BUCKETS, lambda sizes: sizes, "must take"),
    (EXPOSED, lambda lines: _exposed(lines)[0], "a pair .share, milliseconds. must have 2 items"),
    (EXPOSED, lambda lines: (0.5, 1.0), "launched at or after bwd_done_ms is another"),
    (EXPOSED, lambda lines: (_exposed(lines)[0], 1.0), "it is another time"),
    (AUDIT, lambda r, p, c: _audit(r, p, c, ranks=[1]), "five steps .* claim b is broken"),
    (AUDIT, lambda r, p, c: _audit(r, p, c, steps=[0, 1, 2]), "five steps .* claim b"),
    (AUDIT, lambda r, p, c: _audit(r, p, c, steps=[1, 2]), "all buckets: .* claim a is broken"),
    (AUDIT, lambda r, p, c: _audit(r, MINI, 7), "five buckets: claim a holds"),
    (AUDIT, audit_of_sums, "that another lacks: .* claim c"),
    (AUDIT, lambda r, p, c: set(), "all buckets: you do not see that claim a"),
    (AUDIT, lambda r, p, c: {"a", "d"}, "letters of a, b, c; got d"),
    (AUDIT, lambda r, p, c: 3, "return the letters"),
]
