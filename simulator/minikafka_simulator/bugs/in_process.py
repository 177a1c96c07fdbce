"""Puts a bug into the running interpreter, and takes it out again.

The changed source is compiled, and each function that differs gets the new code. The function object stays, so whoever has
imported it, or holds a method of it, runs the mistake too. What the change adds to a module or a class is set there.

A change may alter functions and methods, and add functions, methods, imports and names. It cannot alter what has been computed
by now (constants, decorators, base classes, fields, slots), take anything away but an import, have a function refer to other
variables of the function around it, or touch what is no Python source (a C extension). A function that runs already goes on as
it was: begin the run afterwards.
"""

from __future__ import annotations
import __future__

import ast
import functools
import importlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeGuard

from minikafka_simulator.bugs.bug import Bug, planted_texts

FLAGS = __future__.annotations.compiler_flag
"""For statements that are compiled apart from their file."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
ACCESSORS = {"property": "fget", "setter": "fset", "deleter": "fdel", "cached_property": "func"}
"""By decorator: where the object in the class keeps the function."""
WRAPPERS = {"staticmethod": staticmethod, "classmethod": classmethod, "property": property}


class CannotPatch(Exception):
    """The change of the source cannot be carried out in a running process."""


class _Definition(NamedTuple):
    """A function of the changed source."""

    owner: tuple[str, ...]
    """The classes that it is in, the outermost first."""
    node: Function
    before: Function | None
    """As it stands in the file; None: it is new."""

    @property
    def name(self) -> str:
        return ".".join((*self.owner, self.node.name))


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Run the block with the bug in this process. Raises Drifted, SyntaxError, CannotPatch."""
    modules = {patch.path: importlib.import_module(patch.module) for patch in bug.patches}
    with ExitStack() as undo:
        for patch in _patches(bug, tuple(modules.items())):
            patch.apply(undo)
        yield


@functools.lru_cache(maxsize=8)
def _patches(bug: Bug, modules: tuple[tuple[str, ModuleType], ...]) -> list[_Patch]:
    """The changes of the modules. A search plants the same bug anew in each schedule."""
    sources = {path: _source_of(bug, module) for path, module in modules}
    texts = planted_texts(bug, sources)
    return [_Patch(bug, module, sources[path], texts[path]) for path, module in modules]


def check_source(bug: Bug, sources: Mapping[str, str]) -> None:
    """See that a bug can be planted in a process, by the texts of its files alone. Raises as :func:`planted` does."""
    for path, text in planted_texts(bug, sources).items():
        _Difference(bug, _parsed(sources[path]), ast.parse(text, path))


@functools.lru_cache(maxsize=32)
def _parsed(source: str) -> ast.Module:
    """The tree of a sound file, which most bugs share with others."""
    return ast.parse(source)


def _source_of(bug: Bug, module: ModuleType) -> str:
    loader = None if module.__spec__ is None else module.__spec__.loader
    get_source = getattr(loader, "get_source", None)
    source = None if get_source is None else get_source(module.__name__)
    if source is None:
        raise CannotPatch(f"{bug.name}: {module.__name__} has no Python source")
    return str(source)


# -- what differs ------------------------------------------------------------------------------------------------------------


class _Difference:
    """What a change does to the definitions of a module. Raises CannotPatch."""

    def __init__(self, bug: Bug, before: ast.Module, after: ast.Module) -> None:
        self._bug = bug
        self.functions: list[_Definition] = []
        self.statements: list[ast.stmt] = []
        """New ones of the module, to be carried out."""
        self._compare((), before.body, after.body)

    def _compare(self, owner: tuple[str, ...], before: list[ast.stmt], after: list[ast.stmt]) -> None:
        old, new = _by_key(before), _by_key(after)
        for key, node in old.items():
            if key not in new and not isinstance(node, ast.Import | ast.ImportFrom):
                self._refuse(f"takes {_shown(owner, node)} away, or alters it")
        for key, node in new.items():
            known = old.get(key)
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    assert known is None or isinstance(known, ast.FunctionDef | ast.AsyncFunctionDef)
                    self._function(_Definition(owner, node, known))
                case ast.ClassDef() if isinstance(known, ast.ClassDef):
                    if _head(known) != _head(node):
                        self._refuse(f"alters the bases or decorators of {_shown(owner, node)}")
                    self._compare((*owner, node.name), known.body, node.body)
                case _ if known is None and owner:
                    self._refuse(f"alters what {'.'.join(owner)} has been made of: {_shown(owner, node)}")
                case _ if known is None:
                    self.statements.append(node)

    def _function(self, found: _Definition) -> None:
        before, node = found.before, found.node
        if before is None:
            self.functions.append(found)
        elif ast.dump(before) != ast.dump(node):
            if type(before) is not type(node) or _dumps(before.decorator_list) != _dumps(node.decorator_list):
                self._refuse(f"alters the decorators or the kind of {found.name}")
            self.functions.append(found)

    def _refuse(self, problem: str) -> None:
        raise CannotPatch(f"{self._bug.name}: {problem}; a running process only takes changed and added functions")


def _by_key(body: list[ast.stmt]) -> dict[tuple[str, int], ast.stmt]:
    """Statements by what they are: definitions by their name, others by their text; equal ones are numbered."""
    found: dict[tuple[str, int], ast.stmt] = {}
    for node in body:
        number = 0
        text = node.name if isinstance(node, Function | ast.ClassDef) else ast.dump(node)
        while (text, number) in found:
            number += 1
        found[text, number] = node
    return found


def _dumps(nodes: list[ast.expr]) -> list[str]:
    return [ast.dump(node) for node in nodes]


def _head(node: ast.ClassDef) -> tuple[list[str], list[str], list[str]]:
    keywords = [ast.dump(keyword) for keyword in node.keywords]
    return _dumps(node.bases), keywords, _dumps(node.decorator_list)


def _shown(owner: tuple[str, ...], node: ast.stmt) -> str:
    if isinstance(node, Function | ast.ClassDef):
        return ".".join((*owner, node.name))
    return repr(ast.unparse(node).partition("\n")[0][:60])


# -- carrying it out ---------------------------------------------------------------------------------------------------------


class _Patch:
    """The change of one module."""

    def __init__(self, bug: Bug, module: ModuleType, before: str, after: str) -> None:
        self._bug = bug
        self._module = module
        file = module.__file__ or module.__name__
        tree = ast.parse(after, file)
        self._difference = _Difference(bug, _parsed(before), tree)
        compiled = compile(tree, file, "exec", dont_inherit=True)
        self._codes = dict(_codes(compiled))

    def apply(self, undo: ExitStack) -> None:
        for statement in self._difference.statements:
            self._carry_out(statement, undo)
        for found in self._difference.functions:
            if found.before is None:
                self._add(found, undo)
            else:
                self._alter(found, undo)

    def _carry_out(self, statement: ast.stmt, undo: ExitStack) -> None:
        """A new statement of the module, in the module. What it binds must be new, or be the same."""
        names = vars(self._module)
        bound: dict[str, Any] = {}
        code = compile(ast.Module([statement], []), self._module.__name__, "exec", FLAGS, dont_inherit=True)
        exec(code, names, bound)
        for name, value in bound.items():
            if name in names and names[name] is not value:
                raise CannotPatch(
                    f"{self._bug.name}: {name} of {self._module.__name__} may be imported elsewhere by now"
                )
            if name not in names:
                names[name] = value
                undo.callback(names.pop, name)

    def _add(self, found: _Definition, undo: ExitStack) -> None:
        holder = self._holder(found)
        if found.node.name in vars(holder):
            raise self._cannot(found, "is there already")
        decorators = [_name_of(decorator) for decorator in found.node.decorator_list]
        if len(decorators) > 1 or not set(decorators) <= set(WRAPPERS):
            raise self._cannot(found, f"is new and decorated with {', '.join(decorators)}")
        code = self._code(found)
        closure = tuple(CellType(holder) for _ in code.co_freevars)
        if code.co_freevars not in ((), ("__class__",)):
            raise self._cannot(found, f"refers to {', '.join(code.co_freevars)} around it")
        function = FunctionType(code, vars(self._module), found.node.name, self._defaults(found), closure)
        function.__kwdefaults__ = self._keyword_defaults(found)
        function.__qualname__ = found.name
        setattr(holder, found.node.name, WRAPPERS[decorators[0]](function) if decorators else function)
        undo.callback(delattr, holder, found.node.name)

    def _alter(self, found: _Definition, undo: ExitStack) -> None:
        function, code = self._function(found), self._code(found)
        if code.co_freevars != function.__code__.co_freevars:
            raise self._cannot(found, f"would refer to {', '.join(code.co_freevars) or 'nothing'} around it")
        changes: dict[str, Any] = {"__code__": code}
        assert found.before is not None
        if ast.dump(found.before.args) != ast.dump(found.node.args):
            changes["__defaults__"] = self._defaults(found)
            changes["__kwdefaults__"] = self._keyword_defaults(found)
        for name, value in changes.items():
            undo.callback(setattr, function, name, getattr(function, name))
            setattr(function, name, value)

    def _function(self, found: _Definition) -> FunctionType:
        """The one that the process has of it."""
        value: Any = vars(self._holder(found)).get(found.node.name)
        for decorator in found.node.decorator_list:
            value = getattr(value, ACCESSORS.get(_name_of(decorator), ""), value)
        value = _innermost(getattr(value, "__func__", value))
        if not _is_function(value) or value.__qualname__ != found.name:
            raise self._cannot(found, "is no plain function in the process")
        return value

    def _holder(self, found: _Definition) -> Any:
        """The class that it is in, or the module."""
        return functools.reduce(lambda holder, name: vars(holder)[name], found.owner, self._module)

    def _code(self, found: _Definition) -> CodeType:
        first = min(node.lineno for node in (found.node, *found.node.decorator_list))
        return self._codes[found.name, first]

    def _defaults(self, found: _Definition) -> tuple[Any, ...] | None:
        return tuple(self._value(default) for default in found.node.args.defaults) or None

    def _keyword_defaults(self, found: _Definition) -> dict[str, Any] | None:
        arguments = found.node.args
        pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return {each.arg: self._value(default) for each, default in pairs if default is not None} or None

    def _value(self, default: ast.expr) -> Any:
        return eval(compile(ast.Expression(default), self._module.__name__, "eval"), vars(self._module))

    def _cannot(self, found: _Definition, problem: str) -> CannotPatch:
        return CannotPatch(f"{self._bug.name}: {self._module.__name__}: {found.name} {problem}")


def _is_function(value: Any) -> TypeGuard[FunctionType]:
    return isinstance(value, FunctionType)


def _innermost(value: Any) -> Any:
    """The function below the wrappers of decorators (``functools.wraps``). A cache would go on answering with what it has."""
    while hasattr(value, "__wrapped__") and not hasattr(value, "cache_clear"):
        value = value.__wrapped__
    return value


def _name_of(decorator: ast.expr) -> str:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """All code below, by qualified name and first line."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield (constant.co_qualname, constant.co_firstlineno), constant
            yield from _codes(constant)
