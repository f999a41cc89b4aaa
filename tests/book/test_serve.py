"""The book is served, or one sentence says why not."""

import subprocess
import sys

import pytest

from book._tools.serve import port_of


@pytest.mark.parametrize("text", ["abc", "99999", "-1", "", "80.5", "²"])
def test_a_port_that_is_none_is_named_with_what_is_allowed(text):
    with pytest.raises(ValueError, match=f"PORT={text}: a port is a number from 0 .* to 65535"):
        port_of(text)


def test_a_port_is_a_number():
    assert [port_of(text) for text in ("0", "8000", "65535")] == [0, 8000, 65535]


@pytest.mark.parametrize(
    ("folder", "port", "said"),
    [(True, "abc", "PORT=abc: a port is a number"), (False, "0", "there is no built site")],
)
def test_what_cannot_be_served_is_one_sentence(tmp_path, folder, port, said):
    place = tmp_path / "site"
    if folder:
        place.mkdir()
        (place / "index.html").write_text("<p>A book.</p>")
    command = [sys.executable, "-m", "book", "serve", str(place), port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1 and said in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""
