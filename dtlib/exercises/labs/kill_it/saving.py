"""Checkpoints with checksums on a disk of bytes, and the slips that one makes in writing them."""

import json
from zlib import crc32


def save(
    disk, step, parts, *, check=crc32, sealed=True, sync=True, fresh=True, prune="after",
    numbered="{}",
):  # fmt: skip
    """Write the files, then the manifest under its name, then let the third newest go."""
    manifest = f"manifest-{numbered.format(step)}"
    if prune == "before":
        _prune(disk, 1)
    names = [
        f"part-{number}-of-{step}" if fresh else f"part-{number}" for number in range(len(parts))
    ]
    for name, data in zip(names, parts, strict=True):
        disk.write(name, data)
        if sync:
            disk.sync(name)
    sums = [check(data) for data in parts]
    body = json.dumps({"step": step, "names": names, "sums": sums}).encode()
    seal = f"{check(body) if sealed else 0}\n".encode()
    disk.write("unfinished", seal + body)
    if sync:
        disk.sync("unfinished")
    disk.rename("unfinished", manifest)
    if prune == "after":
        _prune(disk, 2)


def _steps(disk):
    manifests = [name for name in disk.names() if name.startswith("manifest-")]
    return sorted(int(name.removeprefix("manifest-")) for name in manifests)


def _prune(disk, keep):
    """All but the newest go, each manifest before its files."""
    for step in _steps(disk)[:-keep]:
        disk.remove(f"manifest-{step}")
    kept = [f"-of-{step}" for step in _steps(disk)]
    for name in disk.names():
        if "-of-" in name and not name.endswith(tuple(kept)):
            disk.remove(name)


def newest(disk, *, check=crc32, sealed=True, steps=_steps):
    """The newest checkpoint of which every byte is as it was written."""
    for step in reversed(steps(disk)):
        try:
            return _whole(disk, step, check, sealed)
        except (ValueError, KeyError, TypeError, OSError):
            continue
    return None


def _whole(disk, step, check, sealed):
    seal, _, body = disk.read(f"manifest-{step}").partition(b"\n")
    if sealed and int(seal) != check(body):
        raise ValueError(f"the manifest of step {step} has changed")
    said = json.loads(body)
    parts = [disk.read(name) for name in said["names"]]
    if check and [check(data) for data in parts] != said["sums"]:
        raise ValueError(f"a part of step {step} has changed")
    return said["step"], parts


def kind(**changes):
    """A pair in which both functions have made the same choice."""
    reading = {name: value for name, value in changes.items() if name in ("check", "sealed")}
    return (
        lambda disk, step, parts: save(disk, step, parts, **changes),
        lambda disk: newest(disk, **reading),
    )


def pair(write=save, read=newest):
    return lambda disk, step, parts: write(disk, step, parts), lambda disk: read(disk)


def unchecked(disk):
    return newest(disk, check=None, sealed=False)


def strict(disk):
    """Raises where the newest has changed, instead of going back to the one before."""
    steps = _steps(disk)
    return _whole(disk, steps[-1], crc32, True) if steps else None


def as_texts(disk):
    """Takes the manifests in the order of their names as texts."""
    return newest(disk, steps=lambda disk: sorted(_steps(disk), key=str))


def oldest(disk):
    return newest(disk, steps=lambda disk: _steps(disk)[::-1])


def only_the_last(disk):
    found = newest(disk)
    return found and (found[0], found[1][:-1])


def one_file(disk, step, parts):
    """All of a checkpoint in one file, with its checksum: right, too, without any manifest."""
    body = json.dumps([step, [data.hex() for data in parts]]).encode()
    disk.write("unfinished", f"{crc32(body)}\n".encode() + body)
    disk.sync("unfinished")
    disk.rename("unfinished", f"whole-{step}")
    old = sorted(int(n[6:]) for n in disk.names() if n.startswith("whole-"))[:-2]
    for step in old:
        disk.remove(f"whole-{step}")


def newest_file(disk):
    names = [name for name in disk.names() if name.startswith("whole-")]
    for name in sorted(names, key=lambda name: -int(name[6:])):
        seal, _, body = disk.read(name).partition(b"\n")
        if seal == str(crc32(body)).encode():
            step, parts = json.loads(body)
            return step, [bytes.fromhex(part) for part in parts]
    return None
