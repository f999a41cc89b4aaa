"""Wrong answers of chapter 19 that no slip derives: (exercise, answer, what it must be told)."""

# fmt: off
WRONG = [
    ("ex-what-it-keeps", {"tanh(x)": 2}, "pass a dict"),
    ("ex-doubled-bytes", lambda b, s, h, a, dropout, flash: 22 * b * s * h + 2 * a * b * s * s,
     "dropout=True, flash=False: the result has the right order of magnitude"),
    ("ex-own-peak", lambda lives: (sum(n for n, _, _ in lives), 0), "not all live at one time"),
    ("ex-own-meter", lambda function, x, besides: function(x).nbytes, r"x.sum\(\): too many"),
]
