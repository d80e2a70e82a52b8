"""What a function says, by its source.

Source is the same under every minor version of Python; bytecode differs from one to the next.

The source counts only if it is what runs. A file that has changed since it was imported says
something else; therefore its code is compiled again and held against the function's own.
"""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_NO_MEANING = ("ctx", "kind", "type_comment")
"""Fields of a node that follow from the others, or say how it was spelled."""


def source_of(code: types.CodeType) -> Any:
    """The parameters and the body of a function as nested lists.

    Without comments, docstrings and places.

    Args:
        code: The function's code.

    Returns:
        The lists; None if there is no source, or none that compiles to this code.
    """
    text = "".join(linecache.getlines(code.co_filename))
    if not text:
        return None
    try:
        compiled, functions = _compiled(text, code.co_filename)
    except (SyntaxError, ValueError):
        return None
    if code not in compiled:
        return None
    found = [node for node in functions if _is_of(node, code)]
    return _function(found[0]) if len(found) == 1 else None


@lru_cache(maxsize=64)
def _compiled(text: str, file: str) -> tuple[frozenset[types.CodeType], tuple[_Function, ...]]:
    """Every code in a file, and every function."""
    tree = ast.parse(text)
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    return frozenset(_codes(compile(text, file, "exec", dont_inherit=True))), tuple(functions)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _codes(const)


def _is_of(node: _Function, code: types.CodeType) -> bool:
    """Whether the function is where the code says that it comes from.

    By its first line, its name, and the lines that its instructions come from.
    """
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    first = (
        node
        if isinstance(node, ast.Lambda)
        else min([node, *node.decorator_list], key=lambda n: n.lineno)
    )
    if (name, first.lineno) != (code.co_name, code.co_firstlineno):
        return False
    if not isinstance(node, ast.Lambda):
        return True
    # Several lambdas may begin on one line; the instructions of one come from its body.
    body = node.body
    places = [
        ((line, column), (end, end_column))
        for line, end, column, end_column in code.co_positions()
        if None not in (line, end, column, end_column) and (column, end_column) != (0, 0)
    ]
    return bool(places) and (
        min(start for start, _ in places) == (body.lineno, body.col_offset)
        and max(end for _, end in places) == (body.end_lineno, body.end_col_offset)
    )


def _function(node: _Function) -> list[Any]:
    """Without what the function object itself has: its name, its decorators, its defaults."""
    given = node.args
    names = [[a.arg for a in of] for of in (given.posonlyargs, given.args, given.kwonlyargs)]
    rest = [a.arg if a else None for a in (given.vararg, given.kwarg)]
    return [type(node).__name__, names, rest, _tree(node.body)]


def _tree(value: Any) -> Any:
    if isinstance(value, list):
        if value and isinstance(value[0], ast.Expr) and isinstance(value[0].value, ast.Constant):
            # A docstring; or a constant by itself, which does nothing.
            value = value[1:]
        return [_tree(part) for part in value]
    if not isinstance(value, ast.AST):
        return repr(value)
    # Later versions have more fields, empty where the source says nothing of them.
    if isinstance(value, ast.JoinedStr):
        # Some versions end a formatted string with an empty piece.
        value.values = [p for p in value.values if not isinstance(p, ast.Constant) or p.value]
    fields = [
        [name, _tree(part)]
        for name, part in ast.iter_fields(value)
        if name not in _NO_MEANING and part is not None and part != []
    ]
    return [type(value).__name__, *sorted(fields, key=lambda field: str(field[0]))]
