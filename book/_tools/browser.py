"""Chromium, in which the widgets and the built pages are looked at.

Only Debian's own package is tried, and only with the right to: as root, or by sudo.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "Chromium is missing"
ADVICE = "install it as root (Debian: apt-get install chromium) and run the checks again"
PATIENCE_MS = 180_000
_PACKAGE = ["install", "-y", "--no-install-recommends", "chromium"]


def find_chromium() -> str | None:
    """The program, or None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def running() -> Iterator:
    """Chromium, driven by Playwright, until the block ends; SystemExit where there is none."""
    from playwright.sync_api import sync_playwright  # the site is built without it

    program = find_chromium()
    if program is None:
        raise SystemExit(f"{MISSING}: {ADVICE}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"], timeout=PATIENCE_MS
        )
        yield browser
        browser.close()


def install() -> str:
    """Install Chromium; "" or the reason why it could not be done."""
    if shutil.which("apt-get") is None:
        return "this system has no apt-get"
    as_root = _as_root()
    if as_root is None:
        return "that takes root or sudo"
    print("installing Chromium for the page checks", flush=True)
    for command in (["update"], _PACKAGE):
        whole = [*as_root, "apt-get", "-qq", *command]
        done = subprocess.run(whole, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            return said[-1] if said else f"{' '.join(whole)} failed"
    return ""


def _as_root() -> list[str] | None:
    """How a command runs as root; sudo asks for a password only where somebody can give it."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        return None
    return ["sudo"] if sys.stdin.isatty() else ["sudo", "-n"]


def provide() -> int:
    """Install it where it is missing, and say in one line where that fails."""
    if find_chromium() is None and (reason := install()):
        print(f"{MISSING} ({reason}): the pages will not be looked at; {ADVICE}", flush=True)
    return 0
