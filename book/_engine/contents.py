"""What each pack holds: of CPython, of its standard library, of numpy, of dtlib."""

import io
import re
import tarfile
import zipfile
from pathlib import Path

from book._engine.carried import carried
from book._engine.packages import file_of
from book._engine.packs import Files
from book._tools.layout import ROOT

LIBRARY = "/usr/lib/python3.11/"

CUT_OF_PYTHON = re.compile(
    r"^lib-dynload/(_ssl|_sqlite3|_curses|_curses_panel|_codecs_\w+|_testimportmultiple"
    r"|_testmultiphase|xxlimited|xxlimited_35|readline|termios|pyexpat|_lzma|_bz2|_ctypes"
    r"|unicodedata|mmap)\."
    r"|^encodings/(?!__init__|aliases|ascii|charmap|cp1252|cp437|idna|latin_1|raw_unicode_escape"
    r"|unicode_escape|utf_8|utf_8_sig|utf_16|utf_32)"
    r"|^(unittest/test|asyncio|ctypes|curses|dbm|email|http|sqlite3|termcap|wsgiref|xml|xmlrpc"
    r"|zoneinfo|concurrent|distutils|ensurepip|idlelib|lib2to3|multiprocessing|pydoc_data"
    r"|tkinter|turtledemo|unittest|venv)/"
    r"|^(cowasm_\w+|sitecustomize|__hello__|__phello__|aifc|argparse|bdb|cProfile|cgi|cgitb|chunk"
    r"|compileall|crypt|fileinput|ftplib|getpass|imaplib|imghdr|lzma|mailbox|mailcap|mimetypes|modulefinder"
    r"|netrc|nntplib|nturl2path|optparse|pdb|pickletools|pipes|plistlib|poplib|profile|pstats|pty"
    r"|pyclbr|pydoc|rlcompleter|sched|shelve|smtpd|smtplib|sndhdr|socketserver|ssl|stringprep"
    r"|sunau|symtable|tabnanny|tarfile|telnetlib|this|trace|tty|wave|webbrowser|xdrlib|zipapp"
    r"|doctest|ipaddress|configparser|turtle|asyncore|asynchat|uu|quopri|binhex|pickletools|code"
    r"|codeop|cmd|filecmp|gzip|bz2)\.pyc$"
    r"|^logging/(handlers|config)|^urllib/(request|robotparser|response)"
)
CUT_OF_NUMPY = re.compile(
    r"/(tests|include|lib/pkgconfig|_examples|distutils|f2py|doc|array_api|_pyinstaller|typing"
    r"|testing)/"
    r"|_(multiarray|umath|rational|struct_ufunc|operand_flag)_tests\.|core/_simd\."
    r"|core/_add_newdocs|lib/recfunctions|linalg/lapack_lite\."
    r"|\.(pyi|pxd|pyx|h|c|a|ini|txt|py|toml|md)$"
    r"|(^|/)(setup|setup_common|generate_numpy_api|cversions|conftest|umath_tests)\.pyc$"
)
# These hold docstrings alone.
EMPTY_OF_NUMPY = ("numpy/core/_add_newdocs.py", "numpy/core/_add_newdocs_scalars.py")
# Rooms of numpy that nothing here needs, and what says so to who asks for one. Medians ask whether
# an array is masked, which none is.
ABSENT = """def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise ModuleNotFoundError(f"No module named '{__name__}'", name=__name__)
"""
UNMASKED = """def isMaskedArray(x):
    return False
"""
NOT_OF_NUMPY = {"fft": ABSENT, "ma": UNMASKED + ABSENT, "polynomial": ABSENT}


def python() -> Files:
    """CPython, its kernel with the script that starts it, and the standard library."""
    with zipfile.ZipFile(io.BytesIO(file_of("python-wasm", "dist/python-stdlib.zip"))) as inside:
        modules = {
            LIBRARY + name: inside.read(name)
            for name in inside.namelist()
            if not name.endswith("/") and not CUT_OF_PYTHON.search(name)
        }
    return {
        "/usr/lib/kernel.js": (ROOT / "book/_engine/vendor/cowasm.js").read_bytes(),
        "/usr/lib/kernel.wasm": file_of("@cowasm/kernel", "dist/kernel/kernel.wasm"),
        "/usr/lib/python.wasm": file_of("python-wasm", "dist/python.wasm"),
        **modules,
    }


def numpy() -> Files:
    with tarfile.open(fileobj=io.BytesIO(file_of("python-wasm", "dist/numpy.tar.xz"))) as inside:
        kept = {
            LIBRARY + one.name.removeprefix("./"): inside.extractfile(one).read()
            for one in inside
            if one.isfile() and not CUT_OF_NUMPY.search(one.name)
        }
    rooms = {f"{LIBRARY}numpy/{room}/": says for room, says in NOT_OF_NUMPY.items()}
    kept = {path: held for path, held in kept.items() if not path.startswith(tuple(rooms))}
    kept |= {f"{room}__init__.py": says.encode() for room, says in rooms.items()}
    return kept | {LIBRARY + name: b"" for name in EMPTY_OF_NUMPY}


def dtlib() -> Files:
    """The book's library, its tables, its recordings, and the page's own modules."""
    return {path: file.read_bytes() for file, path in library().items()}


def library() -> dict[Path, str]:
    """The files of the library that a page carries, each with its path there."""
    package, mine = ROOT / "dtlib", ROOT / "book/_engine"
    files = {file: f"dtlib/{file.relative_to(package).as_posix()}" for file in carried(package)}
    tables = (package / "contents.toml", *sorted(package.glob("*/*/*.csv")))
    files |= {file: f"dtlib/{file.relative_to(package).as_posix()}" for file in tables}
    measured = (ROOT / "book/measurements").glob("*.json")
    files |= {file: f"dtlib/measurements/{file.name}" for file in measured}
    files |= {mine / name: name for name in ("integers.py", "runner.py")}
    return {file: f"/book/{path}" for file, path in files.items()}
