"""The code of functions whose syntax has changed."""

from __future__ import annotations
import __future__

import ast
import types
from typing import Any

from opbridge.capture.loops.nodes import RUNTIME_NAME, parameters, stored_name
from opbridge.capture.loops.uses import parameters_of

# The names of the functions that are made of steps and ways. Their code has that of the function that they are in.
STEP = "opbridge_step"
WAYS = ("opbridge_yes", "opbridge_no")


def compiled(function: ast.FunctionDef, original: types.CodeType) -> types.CodeType:
    """The code of the function. Its free variables are variables of a function around it."""
    function.decorator_list, function.returns = [], None
    function.args.defaults, function.args.kw_defaults = [], [None] * len(function.args.kwonlyargs)
    for given in parameters_of(function):
        given.annotation = None
    variables = [ast.Assign([stored_name(name)], ast.Constant(None)) for name in original.co_freevars]
    around = ast.FunctionDef("around", parameters(), [*variables, function], [])
    module = ast.fix_missing_locations(ast.copy_location(ast.Module([around], []), function))
    flags = original.co_flags & __future__.annotations.compiler_flag
    code: types.CodeType = compile(module, original.co_filename, "exec", flags, dont_inherit=True)
    for name in ("around", function.name):
        code = next(each for each in code.co_consts if isinstance(each, types.CodeType) and each.co_name == name)
    return code


def with_runtime(code: types.CodeType, name: str, runtime: Any) -> types.CodeType:
    """The code of the function ``name`` with ``runtime`` in place of its name."""

    def changed(constant: Any) -> Any:
        if isinstance(constant, types.CodeType):
            return with_runtime(constant, name, runtime)
        return runtime if type(constant) is str and constant == RUNTIME_NAME else constant

    own = name if code.co_name in (STEP, *WAYS) else code.co_name
    name = own if own.isidentifier() else name  # that of a function, not of a lambda or a comprehension
    return code.replace(co_consts=tuple(map(changed, code.co_consts)), co_name=own)
