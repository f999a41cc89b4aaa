"""Several strategies in one run: how tensors lie on a mesh, and what it costs to lay them anew.

`placement`, the arithmetic; `redistributing`, which does it on real ranks; `types`, in which a
training step is a program whose ranks mean what one process means; `interpreters`, which run it;
`programs`, the steps of the book and eleven silent bugs; `prices`, what a program sends; `block`, a
feed-forward block as one; `search`, the cheapest of these; `reduction`, over which axes a gradient
is added; `uses`, what a step does with each weight; `mixture`, a layer with experts on three axes;
`hybrid`, all strategies in one run; `checkpoint`, which saves such a run for any other layout;
`failures`, what they cost a long run; `quorum`, replicas that go on without the one that failed;
`planner`, what a step takes in every layout that there is.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.composition.placement import Change, Placed, Way, cheapest_way
    from dtlib.composition.redistributing import redistribute
    from dtlib.composition.types import PlacementError, Typed, Types, check_step
    from dtlib.composition.interpreters import Alone, OnRanks
    from dtlib.composition.programs import BROKEN, STEPS, Bug, Step
    from dtlib.composition.prices import Price, Prices
    from dtlib.composition.block import BlockProgram, SentLine
    from dtlib.composition.search import cheapest_program
    from dtlib.composition.reduction import reduction_axes
    from dtlib.composition.uses import USES, Use
    from dtlib.composition.mixture import MIXTURE_USES, mixture_step
    from dtlib.composition.hybrid.parallel import HybridRun, parallelize
    from dtlib.composition.checkpoint.manifest import newest_checkpoint
    from dtlib.composition.checkpoint.saving import Loaded, load_checkpoint, save_checkpoint
    from dtlib.composition.checkpoint.shards import CheckpointError
    from dtlib.composition.checkpoint.background import BackgroundSaves
    from dtlib.composition.checkpoint.dcp import (
        CheckpointReader,
        from_torch_checkpoint,
        to_torch_checkpoint,
    )
    from dtlib.composition.checkpoint.buddies import BuddyCopies
    from dtlib.composition.failures.rates import failure_shares, fleet_mtbf
    from dtlib.composition.failures.intervals import (
        daly_interval,
        exact_interval,
        lagging_overhead,
        lambert_w,
        level_interval,
        restarting_multiplier,
        two_level_overhead,
    )
    from dtlib.composition.failures.fleet import Fleet, Lifetime, Recovery
    from dtlib.composition.failures.account import TICKS, Account, Phase
    from dtlib.composition.failures.simulation import simulate_fleet
    from dtlib.composition.failures.traces import (
        Failure,
        QuorumAccount,
        Voting,
        failure_trace,
        quorum_account,
        restarts_account,
    )
    from dtlib.composition.quorum.small import small_task
    from dtlib.composition.quorum.task import Fault, Quorum, ReplicaTask
    from dtlib.composition.quorum.lighthouse import Attempt, QuorumRun, train_with_quorum
    from dtlib.composition.quorum.restarting import JobLife, RestartsRun, train_with_restarts
    from dtlib.composition.planner.software import Software, software_profiles
    from dtlib.composition.planner.machine import Machine, machine_of
    from dtlib.composition.planner.step import step_parts, step_sheet, step_times
    from dtlib.memory.account.many import rank_memories
    from dtlib.composition.planner.legal import (
        Workload,
        broken_rules,
        candidate_layouts,
        factorisations,
        funnel,
        legal_layouts,
    )
    from dtlib.composition.planner.costs import Costs, Question
    from dtlib.composition.planner.plans import Plan, Plans, plan
    from dtlib.composition.planner.configurations.exchange import (
        PROGRAMS,
        read_configuration,
        write_configuration,
    )
    from dtlib.composition.planner.script.reader import ScriptError, read_script
    from dtlib.composition.planner.script.prices import ScriptPrice, script_price
    from dtlib.composition.planner.script.describe import describe_model
    from dtlib.composition.planner.script.config_file import read_model
    from dtlib.composition.planner.script.comparison import ScriptComparison, compare_script

__getattr__, __dir__, __all__ = face(__name__)
