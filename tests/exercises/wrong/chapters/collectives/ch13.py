"""Wrong answers of chapter 13 that no slip derives: (exercise, answer, what it must be told)."""

# fmt: off
WRONG = [
    ("ex-launch-or-link", lambda times: (1e-5, 1e-6), "launch"),
    ("ex-dedicated-servers", lambda n, P, S, beta: 3 * P * n / (S * beta), "there is one server"),
]
