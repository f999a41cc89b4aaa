"""Figures that the reader moves: they compute in the page and need no kernel."""

from dtlib.explore.arrows import Arrows
from dtlib.explore.bets import answer, bet
from dtlib.explore.bias_balance import BiasBalance
from dtlib.explore.bits_lab import BitsLab
from dtlib.explore.controls import Control, Task, between
from dtlib.explore.cuts import Cuts
from dtlib.explore.explorer import Explorer
from dtlib.explore.fastest import Fastest
from dtlib.explore.hand_fit import HandFit
from dtlib.explore.headroom import Headroom
from dtlib.explore.memory_bar import MemoryBar
from dtlib.explore.offload_lab import OffloadLab
from dtlib.explore.one_ratio import OneRatio
from dtlib.explore.pipeline_lab import PipelineLab
from dtlib.explore.placing import PlacementBoard
from dtlib.explore.prefetcher import Prefetcher
from dtlib.explore.revolve_player import RevolvePlayer
from dtlib.explore.ring_steps import RingSteps
from dtlib.explore.router_balance import RouterBalance
from dtlib.explore.seats import SeatPlan
from dtlib.explore.sketch import Sketch
from dtlib.explore.stepper import Stepper
from dtlib.explore.walls import Walls
from dtlib.explore.worksheet import Worksheet
from dtlib.explore.zero_stages import ZeroStages

__all__ = [
    "Arrows",
    "BiasBalance",
    "BitsLab",
    "Control",
    "Cuts",
    "Explorer",
    "Fastest",
    "HandFit",
    "Headroom",
    "MemoryBar",
    "OffloadLab",
    "OneRatio",
    "PipelineLab",
    "PlacementBoard",
    "Prefetcher",
    "RevolvePlayer",
    "RingSteps",
    "RouterBalance",
    "SeatPlan",
    "Sketch",
    "Stepper",
    "Task",
    "Walls",
    "Worksheet",
    "ZeroStages",
    "answer",
    "bet",
    "between",
]
