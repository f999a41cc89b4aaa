"""The state of a run and the way back, and the slips that one makes in writing them."""

from copy import deepcopy

from dtlib.later import torch

PARTS = ("model", "optimizer", "schedule", "average", "order", "cursor", "shuffler", "random")


def state_of(run, without=(), copied=True):
    state = {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "schedule": run.schedule.state_dict(),
        "average": run.average,
        "order": run.order,
        "cursor": run.cursor,
        "shuffler": run.shuffler.get_state(),
        "random": torch.get_rng_state(),
    }
    state = {name: part for name, part in state.items() if name not in without}
    return deepcopy(state) if copied else state


def restore(run, state, copied=True):
    state = deepcopy(state) if copied else state
    for name in ("model", "optimizer", "schedule"):
        if name in state:
            getattr(run, name).load_state_dict(state[name])
    for name in ("average", "order", "cursor"):
        if name in state:
            setattr(run, name, state[name])
    if "shuffler" in state:
        run.shuffler.set_state(state["shuffler"])
    if "random" in state:
        torch.set_rng_state(state["random"])


def leaving_out(*names):
    """A pair whose state lacks some of the parts."""
    return lambda run: state_of(run, without=names), lambda run, state: restore(run, state)


def own(**changes):
    """The pair, with a function of one's own in place of one of its two."""
    pair = {
        "state_of": lambda run: state_of(run),
        "restore": lambda run, state: restore(run, state),
    }
    return tuple((pair | changes).values())


def reseeding(run):
    """Takes a seed for the random numbers, which changes them."""
    state = state_of(run, without=("random",))
    torch.manual_seed(1234)
    return state | {"random": torch.get_rng_state()}


def whole_objects(run):
    return {"optimizer": run.optimizer}


def remaining_rows(run):
    """Only the rows that this epoch has not seen yet: right, too."""
    state = state_of(run)
    return state | {"order": state["order"][state["cursor"] :], "cursor": 0}
