"""Ranks in memory: one world, four sets of calls over it, and most of the same calls for real.

`record` runs point-to-point messages, `record_team` collectives, `record_replicas` all-reduces that
overlap with work, `record_groups` the making of groups. Each has the rules of the real thing;
breaking one is an error that names rank and call. `GroupComm`, `RealTeam` and `ReplicaComm` offer
the same calls on real ranks.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.exercises.worlds.world import Deadlock, TransportError, World, called_from, raised
    from dtlib.exercises.worlds.steps import Steps
    from dtlib.exercises.worlds.threads import Threads, world_of
    from dtlib.exercises.worlds.trace import Message, Trace
    from dtlib.exercises.worlds.messages import Calls, Comm, record
    from dtlib.exercises.worlds.team import Collective, RecordedTeam, Team, record_team
    from dtlib.exercises.worlds.replicas import Event, ReplicaTrace, record_replicas
    from dtlib.exercises.worlds.grouping import record_groups
    from dtlib.exercises.worlds.real import GroupComm, RealTeam, ReplicaComm
    from dtlib.exercises.worlds.stripes import Stripes

__getattr__, __dir__, __all__ = face(__name__)
