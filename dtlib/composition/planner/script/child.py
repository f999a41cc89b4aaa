"""The process in which a script is read: what it prints is kept, what it reached is told at once.

It is started by `read_script` and tells its parent in lines of JSON, in the file that it is given:
what the script has reached, and at the end the reading or what went wrong.
"""

import faulthandler
import json
import os
import runpy
import sys
from pathlib import Path


def main() -> None:
    """Read the script that the only argument describes, and end."""
    wanted = json.loads(sys.argv[1])
    told = open(wanted["told"], "a", encoding="utf-8")  # noqa: SIM115, open until the end

    def tell(**what) -> None:
        told.write(json.dumps(what) + "\n")
        told.flush()

    script = Path(wanted["script"])
    try:
        _run(script, wanted, tell)
    except SystemExit as ended:
        tell(error="ended", text=f"exit code {ended.code or 0}", line=None)
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
        tell(error=_kind(error), text=text, line=line_of(error, script))
    else:
        tell(error="ended", text="its end", line=None)
    _end()


def _run(script: Path, wanted: dict, tell) -> None:
    from dtlib.composition.planner.script.guess import guess_layout
    from dtlib.composition.planner.script.rank_zero import pretend
    from dtlib.composition.planner.script.reading import ScriptReading
    from dtlib.composition.planner.script.watch import Watch

    def finish(watch: Watch) -> None:
        import torch.distributed as dist

        ranks = dist.get_world_size() if dist.is_initialized() else 1
        layout, reason = guess_layout(watch, ranks)
        reading = ScriptReading(
            script.name, ranks, tuple(watch.params()), tuple(watch.start),
            tuple(watch.collectives), watch.held.by_cause(), watch.kept, watch.flops, watch.batch,
            watch.forwards, layout, reason, watch.shapes.found(),
        )  # fmt: skip
        tell(reading=reading.as_dict())
        _end()

    watch = Watch(finish, lambda words: tell(reached=words))
    sys.argv = [str(script), *wanted["argv"]]
    sys.path[0] = str(script.parent)
    with pretend(wanted["ranks"], watch):
        tell(reached="its first line")
        faulthandler.dump_traceback_later(wanted["timeout"], exit=True)
        runpy.run_path(str(script), run_name="__main__")


def line_of(error: BaseException, script: Path) -> int | None:
    """The last line of the script on the way to the error."""
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(script):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return lines[-1] if lines else getattr(error, "lineno", None)


def _kind(error: BaseException) -> str:
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"DataDependentOutputException", "DynamicOutputShapeException"}:
        return "values"
    return "input" if isinstance(error, EOFError) else "raised"


def _end() -> None:
    """Leave at once: nothing of the script's is to be tidied up, saved or waited for."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
