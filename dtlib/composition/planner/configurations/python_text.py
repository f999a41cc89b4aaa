"""A configuration that is a Python function: written as text, and read without running it."""

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

_CALLS = ("FullAC", "SelectiveAC")


def write_function(about: str, module: str, base: str, options: Mapping[str, Any]) -> str:
    """A module with one function, which sets these options on what `base` returns.

    A string that is a call, or 'None', is written as it stands.
    """
    used = [name for name in _CALLS if f"{name}.Config()" in options.values()]
    imports = [f"from torchtitan.distributed.activation_checkpoint import {n}" for n in used]
    imports += [f"from {module} import {base}", "from torchtitan.trainer import Trainer"]
    lines = [f"    config.{name} = {_written(value)}" for name, value in options.items()]
    return "\n".join(
        [
            f'"""{about}"""',
            "",
            *imports,
            "",
            "",
            "def planned() -> Trainer.Config:",
            f"    config = {base}()",
            *lines,
            "    return config",
            "",
        ]
    )


def read_function(owner: str, text: str) -> tuple[str, dict[str, Any]]:
    """The name of what the function begins with, and the options that it sets, by dotted names.

    Calls with keywords stand for sections: `config.parallelism = ParallelismConfig(a=1)` sets
    'parallelism.a'. Raises ValueError for what is no Python, or not one function.
    """
    try:
        functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    except SyntaxError as error:
        raise ValueError(f"{owner}: line {error.lineno} is no Python: {error.msg}") from None
    if len(functions) != 1:
        names = ", ".join(function.name for function in functions) or "none"
        raise ValueError(f"{owner}: a file of one function is read, but there is {names}")
    return _settings(owner, functions[0])


def _settings(owner: str, function: ast.FunctionDef) -> tuple[str, dict[str, Any]]:
    """What the value that a function returns begins with, and what is set on it."""
    returned = [node.value for node in function.body if isinstance(node, ast.Return)]
    if len(returned) != 1 or not isinstance(returned[0], ast.Name | ast.Call):
        raise ValueError(f"{owner}: {function.name} must return a configuration, once")
    if isinstance(returned[0], ast.Call):
        return ast.unparse(returned[0].func), dict(_sections(returned[0]))
    base, found, own = None, {}, returned[0].id
    for node in function.body:
        if not isinstance(node, ast.Assign):
            continue
        name, _, option = ast.unparse(node.targets[0]).partition(".")
        if name == own and option:
            found |= dict(_options(option, node.value))
        elif name == own and isinstance(node.value, ast.Call):
            base, found = ast.unparse(node.value.func), dict(_sections(node.value))
    if base is None:
        raise ValueError(f"{owner}: {own} is not made by a call in {function.name}")
    return base, found


def _options(name: str, value: ast.expr) -> Iterator[tuple[str, Any]]:
    if isinstance(value, ast.Call) and value.keywords and name != "activation_checkpoint":
        for keyword in value.keywords:
            yield from _options(f"{name}.{keyword.arg}", keyword.value)
    else:
        yield name, _plain(name, value)


def _sections(call: ast.Call) -> Iterator[tuple[str, Any]]:
    for keyword in call.keywords:
        yield from _options(keyword.arg, keyword.value)


def _plain(name: str, value: ast.expr) -> Any:
    """A literal, a product of them, or else the expression as text."""
    if name == "activation_checkpoint":
        return ast.unparse(value)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        factors = _plain(name, value.left), _plain(name, value.right)
        if all(isinstance(factor, int) for factor in factors):
            return factors[0] * factors[1]
    try:
        return ast.literal_eval(value)
    except ValueError:
        return ast.unparse(value)


def _written(value: Any) -> str:
    if isinstance(value, list):
        return "[\n" + "".join(f"        {json.dumps(part)},\n" for part in value) + "    ]"
    is_text = isinstance(value, str) and value != "None" and not value.endswith(")")
    return json.dumps(value) if is_text else str(value)


def flat(sections: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The options of sections within one another, by dotted names.

    >>> dict(flat({"a": {"b": 1, "c": {}}, "d": [2]}))
    {'a.b': 1, 'a.c': {}, 'd': [2]}
    """
    for key, value in sections.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
