"""The packages of the engines: from npm's registry, each held to its sha512, kept in .cache.

Nothing of npm is needed for it: a package is a tarball at a known address. `npm_config_registry`
names another registry, as it does for npm.
"""

import base64
import hashlib
import io
import os
import tarfile
import tomllib
import urllib.request
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from book._tools.layout import ROOT

CACHE = ROOT / ".cache/npm"
NAMED_BY = "npm_config_registry"
REGISTRY = "https://registry.npmjs.org"
PINS = Path(__file__).with_name("packages.toml")
PATIENCE = 60  # seconds without a byte


class Unreachable(Exception):
    """A package is neither in the cache nor to be had."""


@dataclass(frozen=True)
class Package:
    """A package at one version, and the files of it that are kept."""

    name: str
    version: str
    integrity: str
    files: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return CACHE / f"{self.name.replace('/', '-')}-{self.version}"

    @property
    def address(self) -> str:
        registry = os.environ.get(NAMED_BY, "").rstrip("/") or REGISTRY
        return f"{registry}/{self.name}/-/{self.name.split('/')[-1]}-{self.version}.tgz"


@cache
def pinned() -> dict[str, Package]:
    """Every package by its name.

    >>> pinned()["@cowasm/kernel"].address.endswith("/@cowasm/kernel/-/kernel-0.28.0.tgz")
    True
    """
    read = tomllib.loads(PINS.read_text(encoding="utf-8"))
    return {
        name: Package(name, one["version"], one["integrity"], tuple(one["files"]))
        for name, one in read.items()
    }


def file_of(name: str, path: str) -> bytes:
    """A file of a package. Raises Unreachable, and ValueError where the tarball is another one."""
    package = pinned()[name]
    if not (package.folder / path).exists():
        keep(package, fetched(package.address))
    return (package.folder / path).read_bytes()


def fetched(address: str) -> bytes:
    """What lies at an address. Raises Unreachable, with the reason."""
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
            return answer.read()
    except OSError as error:
        raise Unreachable(f"{address}: {error}") from None


def keep(package: Package, tarball: bytes) -> None:
    """Put a package's files in the cache, if the tarball is the pinned one."""
    found = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()
    if found != package.integrity:
        raise ValueError(f"{package.name}: the tarball is {found}, not {package.integrity}")
    with tarfile.open(fileobj=io.BytesIO(tarball)) as inside:
        for path in package.files:
            target = package.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            half = target.with_name(f"{target.name}.{os.getpid()}")
            half.write_bytes(inside.extractfile(f"package/{path}").read())
            half.replace(target)
