"""The meaning of a function, derived from its source.

The source is the same under every minor version of Python; bytecode differs between them.

The source is only used if it is what runs. A file that has changed since it was imported contains
something else. The source is therefore compiled again and compared with the function's code.
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
"""Fields of a node that follow from other fields, or that only record its spelling."""


def source_of(code: types.CodeType) -> Any:
    """The parameters and the body of a function as nested lists.

    Comments, docstrings and positions are left out.

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
    nodes = [node for node in functions if _is_of(node, code)]
    return _function(nodes[0]) if len(nodes) == 1 else None


@lru_cache(maxsize=64)
def _compiled(text: str, file: str) -> tuple[frozenset[types.CodeType], tuple[_Function, ...]]:
    """All code objects in a file, and all functions."""
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
    """Whether a function in the source is the one that `code` was compiled from.

    This is decided by its first line, its name, and the positions of its instructions.
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
    # Several lambdas can begin on one line. The instructions of each come from its body.
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
    """The function without what the function object itself has: name, decorators and defaults."""
    given = node.args
    names = [[a.arg for a in of] for of in (given.posonlyargs, given.args, given.kwonlyargs)]
    rest = [a.arg if a else None for a in (given.vararg, given.kwarg)]
    return [type(node).__name__, names, rest, _tree(node.body)]


def _tree(value: Any) -> Any:
    if isinstance(value, list):
        if value and isinstance(value[0], ast.Expr) and isinstance(value[0].value, ast.Constant):
            # A docstring, or a constant without an effect.
            value = value[1:]
        return [_tree(part) for part in value]
    if not isinstance(value, ast.AST):
        return repr(value)
    # Later versions of Python have additional fields, which are empty if the source does not use
    # them.
    if isinstance(value, ast.JoinedStr):
        # Some versions of Python end a formatted string with an empty piece.
        value.values = [p for p in value.values if not isinstance(p, ast.Constant) or p.value]
    fields = [
        [name, _tree(part)]
        for name, part in ast.iter_fields(value)
        if name not in _NO_MEANING and part is not None and part != []
    ]
    return [type(value).__name__, *sorted(fields, key=lambda field: str(field[0]))]
