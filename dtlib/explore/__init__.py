"""Figures that the reader moves: they compute in the page and need no kernel.

`kit`, what all are made of; `controls`, values and tasks; then one folder for each.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

# fmt: off
if TYPE_CHECKING:
    from dtlib.explore.controls import Control, Task, between
    from dtlib.explore.bets.betting import bet
    from dtlib.explore.bets.answering import answer
    from dtlib.explore.explorer.explorer import Explorer
    from dtlib.explore.worksheet.worksheet import Worksheet
    from dtlib.explore.one_run.one_run import OneRun
    from dtlib.explore.walls.walls import Walls
    from dtlib.explore.headroom.headroom import Headroom
    from dtlib.explore.prefetcher.prefetcher import Prefetcher
    from dtlib.explore.one_ratio.one_ratio import OneRatio
    from dtlib.explore.hand_fit.hand_fit import HandFit
    from dtlib.explore.placing.placing import PlacementBoard
    from dtlib.explore.all_reduce_builder.all_reduce_builder import AllReduceBuilder
    from dtlib.explore.stepper.stepper import Stepper
    from dtlib.explore.arrows.arrows import Arrows
    from dtlib.explore.fastest.fastest import Fastest
    from dtlib.explore.bits_lab.bits_lab import BitsLab
    from dtlib.explore.cuts.cuts import Cuts
    from dtlib.explore.pipeline_builder.pipeline_builder import PipelineBuilder
    from dtlib.explore.pipeline_lab.pipeline_lab import PipelineLab
    from dtlib.explore.ring_steps.ring_steps import RingSteps
    from dtlib.explore.seats.seats import SeatPlan
    from dtlib.explore.router_balance.router_balance import RouterBalance
    from dtlib.explore.bias_balance.bias_balance import BiasBalance
    from dtlib.explore.memory_bar.memory_bar import MemoryBar
    from dtlib.explore.zero_stages.zero_stages import ZeroStages
    from dtlib.explore.revolve_player.revolve_player import RevolvePlayer
    from dtlib.explore.offload_lab.offload_lab import OffloadLab
    from dtlib.explore.mesh_painter.mesh_painter import MeshPainter
    from dtlib.explore.gradient_sums.gradient_sums import GradientSums
    from dtlib.explore.placement_puzzle.placement_puzzle import PlacementPuzzle
    from dtlib.explore.layout_cloud.layout_cloud import LayoutCloud, LayoutRow
    from dtlib.explore.loss_valley.loss_valley import LossValley
    from dtlib.explore.isoflop_sorter.isoflop_sorter import IsoflopSorter
    from dtlib.explore.rulers.rulers import Rulers
    from dtlib.explore.batch_dial.batch_dial import BatchDial
    from dtlib.explore.bucket_lab.bucket_lab import BucketLab
    from dtlib.explore.cache_lab.cache_lab import CacheLab
    from dtlib.explore.format_window.format_window import FormatWindow
    from dtlib.explore.outlier_blocks.outlier_blocks import OutlierBlocks
# fmt: on

__getattr__, __dir__, __all__ = face(__name__)
