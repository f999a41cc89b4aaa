"""Which edition of the library runs; a notebook that was taken along names the one it needs.

pip writes down, beside what it installs, from where it came and with which digest (PEP 610).
"""

import json


def edition(sha256: str) -> str:
    """In one line: which dtlib this is, and whether a notebook was made with it.

    Argument: ``sha256``, in hexadecimal, of the wheel that the notebook was published with.

    >>> edition("0" * 64).startswith("dtlib")
    True
    """
    from importlib.metadata import PackageNotFoundError, distribution  # a page has none of it

    try:
        installed = distribution("dtlib")
    except PackageNotFoundError:
        return "dtlib, from a folder that nobody installed."
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    return f"dtlib {installed.version}, {told(origin, sha256)}"


def told(origin: dict, sha256: str) -> str:
    """What is to be said of an origin that pip noted, as the end of a sentence.

    >>> told({"dir_info": {"editable": True}}, "ab"), told({}, "ab")
    ('from a checkout.', 'from the package index.')
    >>> told({"archive_info": {"hashes": {"sha256": "ab"}}}, "ab")
    'the edition of this notebook.'
    >>> told({"archive_info": {"hashes": {"sha256": "ee"}}}, "ab").partition(":")[0]
    'not the edition of this notebook'
    """
    if "dir_info" in origin:
        return "from a checkout."
    if not origin:
        return "from the package index."
    if origin.get("archive_info", {}).get("hashes", {}).get("sha256") == sha256:
        return "the edition of this notebook."
    return (
        "not the edition of this notebook: run `%pip uninstall -y dtlib`, restart the kernel and "
        "run this cell again."
    )
