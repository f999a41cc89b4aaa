"""A run that comes back on fewer ranks, and the slips that one makes in writing it."""


def go_on(folder, until, watch, *, load=True, place=True, moments=True, early=False):
    from dtlib.composition import load_checkpoint, save_checkpoint
    from dtlib.composition.checkpoint.manifest import newest_checkpoint
    from dtlib.exercises.labs.kill_it.real import fresh_run, rows_at

    run, optimizer = fresh_run()
    first, cursor = 0, 0
    if load and newest_checkpoint(folder):
        found = load_checkpoint(folder, run, optimizer if moments else None)
        first, cursor = found.step, found.extra["cursor"] if place else 12 * found.step
    for step in range(first, until):
        tokens, cursor = rows_at(cursor)
        loss = float(run.forward_backward(tokens[:, :-1], tokens[:, 1:]))
        watch(step, loss)
        if early and (step + 1) % 3 == 0:
            save_checkpoint(folder, run, optimizer, step=step + 1, extra={"cursor": cursor})
        optimizer.step()
        optimizer.zero_grad()
        if not early and (step + 1) % 3 == 0:
            save_checkpoint(folder, run, optimizer, step=step + 1, extra={"cursor": cursor})


def supervise(program, n, *, fewer=1, last=1):
    from dtlib import launch
    from dtlib.runtime import RankDied

    while n >= last:
        try:
            with launch(n, backend="gloo") as ranks:
                ranks.run(program)
            return n
        except RankDied:
            n -= fewer
    return n


def giving_up(program, n):
    from dtlib import launch

    with launch(n, backend="gloo") as ranks:
        ranks.run(program)
    return n


def pair(supervisor=supervise, **changes):
    """The two functions, of which the first is wrong in what is given here."""
    return (
        lambda folder, until, watch: go_on(folder, until, watch, **changes),
        lambda program, n: supervisor(program, n),
    )


def starting_with_as_many(program, n):
    """After the first death, once more with as many."""
    return supervise(program, n, fewer=0)


def saying_how_many_there_were(program, n):
    supervise(program, n)
    return n
