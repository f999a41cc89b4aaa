"""A writer's quick answer is about what has changed, and about nothing that has not."""

import subprocess

import pytest

from book._tools.quick import changed, who_tests


@pytest.fixture
def house(tmp_path):
    """A room of two modules, their tests, and another room."""
    for name, text in {
        "dtlib/memory/zero/parts.py": "class Parts: ...\n",
        "dtlib/memory/zero/steps.py": "def step():\n    '''>>> step()'''\n",
        "tests/memory/test_account.py": "Parts\n",
        "tests/memory/zero/test_parts.py": "from dtlib.memory import Parts\n",
        "tests/memory/zero/test_steps.py": "step()\n",
        "tests/models/test_gpt.py": "Parts, step\n",
        "tests/models/gpt_job.py": "step\n",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def named(house, *files):
    found = who_tests([house / file for file in files], house)
    return sorted(file.relative_to(house).as_posix() for file in found)


def test_a_module_is_tested_by_who_names_it_in_its_room(house):
    assert named(house, "dtlib/memory/zero/parts.py") == ["tests/memory/zero/test_parts.py"]
    assert named(house, "dtlib/memory/zero/steps.py") == [
        "dtlib/memory/zero/steps.py",  # its example
        "tests/memory/zero/test_steps.py",
    ]


def test_a_changed_test_is_run_and_what_helps_it_is_not(house):
    assert named(house, "tests/models/test_gpt.py", "tests/models/gpt_job.py") == [
        "tests/models/test_gpt.py"
    ]


def test_a_module_without_a_room_of_its_own_is_tested_in_the_one_above(house):
    (house / "dtlib/memory/offload").mkdir()
    (house / "dtlib/memory/offload/store.py").write_text("class Parts: ...\n")
    assert named(house, "dtlib/memory/offload/store.py") == [
        "tests/memory/test_account.py",
        "tests/memory/zero/test_parts.py",
    ]


def test_what_has_changed_is_what_differs_from_the_last_commit_or_what_it_changed(house):
    def git(*words):
        author = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *author, *words], cwd=house, check=True, capture_output=True)

    git("init", "-q")
    git("add", "tests/models")
    git("commit", "-qm", "one")
    git("add", ".")
    git("commit", "-qm", "two")
    assert house / "dtlib/memory/zero/parts.py" in changed(house)
    assert house / "tests/models/test_gpt.py" not in changed(house)
    (house / "tests/models/test_gpt.py").write_text("other\n")
    (house / "new.md").write_text("new\n")
    assert changed(house) == [house / "tests/models/test_gpt.py", house / "new.md"]
