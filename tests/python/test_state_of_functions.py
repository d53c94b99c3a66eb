"""What a model keeps in variables of its functions is refused, or no later call depends on it; captures restore it."""

from __future__ import annotations

import contextvars
import functools
import itertools
import os
import pathlib
import random
import re
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import opbridge
from opbridge.runtime import run, session

CAPTURES = pytest.mark.parametrize("capture", ["export", "trace"])
SIZES = pytest.mark.parametrize("dynamic", [None, ({0: "n"},)], ids=["fixed", "dynamic"])

COUNT = 0
CACHE: Any = None
TABLES: dict[Any, torch.Tensor] = {}
CALLS: list[Any] = []
MEMORY = torch.zeros(4)


class Shared:
    step = 0
    table: Any = None


class Holder:
    def __init__(self) -> None:
        self.last: Any = None


HOLDER = Holder()
OF_THREAD = threading.local()
OTHER = types.ModuleType("state_of_functions_elsewhere")


def table_by_default(size: int, tables: dict[int, torch.Tensor] = {}) -> torch.Tensor:  # noqa: B006 - a cache
    if size not in tables:
        tables[size] = torch.arange(size).float()
    return tables[size]


@functools.lru_cache
def table(size: int) -> torch.Tensor:
    return torch.arange(size).float()


@pytest.fixture(autouse=True)
def _as_at_first() -> Iterator[None]:
    yield
    globals().update(COUNT=0, CACHE=None)
    for each in (TABLES, CALLS, table_by_default.__defaults__[0]):  # type: ignore[index]
        each.clear()
    table.cache_clear()
    vars(table_of_attribute).clear()
    vars(OF_THREAD).clear()
    MEMORY.zero_()
    Shared.step, Shared.table, HOLDER.last = 0, None, None
    vars(OTHER).update(count=0, table=None)


def numbers() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


class Model(nn.Module):
    """A model whose ``forward`` is ``function(x)``."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def table_of_global(x: torch.Tensor) -> torch.Tensor:
    global CACHE
    if CACHE is None:
        CACHE = torch.arange(4).float()
    return x * CACHE


def table_of_global_dict(x: torch.Tensor) -> torch.Tensor:
    key = (x.shape[0], x.dtype)
    if key not in TABLES:
        TABLES[key] = torch.arange(x.shape[0]).float()
    return x * TABLES[key][:, None]


def table_of_default(x: torch.Tensor) -> torch.Tensor:
    return x * table_by_default(x.shape[0])[:, None]


def table_of_attribute(x: torch.Tensor) -> torch.Tensor:
    if not hasattr(table_of_attribute, "table"):
        table_of_attribute.table = torch.arange(4).float()  # type: ignore[attr-defined]
    return x * table_of_attribute.table  # type: ignore[attr-defined, no-any-return]


def table_of_cache(x: torch.Tensor) -> torch.Tensor:
    return x * table(4)


def table_of_thread(x: torch.Tensor) -> torch.Tensor:
    if not hasattr(OF_THREAD, "table"):
        OF_THREAD.table = torch.arange(4).float()
    return x * OF_THREAD.table  # type: ignore[no-any-return]


def table_of_class(x: torch.Tensor) -> torch.Tensor:
    if Shared.table is None:
        Shared.table = torch.arange(4).float()
    return x * Shared.table


def table_of_module(x: torch.Tensor) -> torch.Tensor:
    if OTHER.table is None:
        OTHER.table = torch.arange(4).float()  # type: ignore[attr-defined]
    return x * OTHER.table


def kept_for_a_look(x: torch.Tensor) -> torch.Tensor:
    CALLS.append(x.mean())
    HOLDER.last = x
    return x * 2


def table_of_closure() -> Callable[[torch.Tensor], torch.Tensor]:
    values: Any = None

    def function(x: torch.Tensor) -> torch.Tensor:
        nonlocal values
        if values is None:
            values = torch.arange(4).float()
        return x * values

    return function


def table_of_method() -> Callable[[torch.Tensor], torch.Tensor]:
    class Tables:
        @functools.lru_cache  # noqa: B019 - the tests end before memory matters
        def table(self, size: int) -> torch.Tensor:
            return torch.arange(size).float()

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.table(4)

    return Tables()


CACHING = {
    "a global variable": lambda: table_of_global,
    "a global dict": lambda: table_of_global_dict,
    "a default": lambda: table_of_default,
    "an attribute of a function": lambda: table_of_attribute,
    "lru_cache": lambda: table_of_cache,
    "lru_cache of a method": table_of_method,
    "an attribute of a class": lambda: table_of_class,
    "a variable of another module": lambda: table_of_module,
    "a variable of a thread": lambda: table_of_thread,
    "a closure": table_of_closure,
    "what nothing reads": lambda: kept_for_a_look,
}


@CAPTURES
@SIZES
def test_variables_around_an_exported_function_are_restored(capture: str, dynamic: Any, tmp_path: pathlib.Path) -> None:
    calls: list[torch.Tensor] = []
    counts = {"calls": 0}

    def model(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        counts["calls"] += 1
        return x * 2

    opbridge.export(model, (torch.rand(2, 3),), tmp_path / "m.onnx", capture=capture, dynamic_shapes=dynamic)
    assert calls == []
    assert counts == {"calls": 0}


@CAPTURES
@SIZES
@pytest.mark.parametrize("name", CACHING)
def test_caches_hold_nothing_of_a_capture(name: str, capture: Any, dynamic: Any, tmp_path: pathlib.Path) -> None:
    model = Model(CACHING[name]())
    opbridge.export(model, (torch.rand(3, 4),), tmp_path / "model.onnx", dynamic_shapes=dynamic, capture=capture)
    x = torch.rand(3 if dynamic is None else 5, 4)
    expected = model(x)
    assert type(expected) is torch.Tensor
    assert all(type(each) is torch.Tensor for each in (*CALLS, *TABLES.values()))
    np.testing.assert_allclose(run(session(tmp_path / "model.onnx"), {"x": x})[0], expected, rtol=1e-6)


def count_in_global(x: torch.Tensor) -> torch.Tensor:
    global COUNT
    COUNT += 1
    return x * COUNT


def count_in_list(x: torch.Tensor) -> torch.Tensor:
    CALLS.append(x.sum())
    return x * len(CALLS)


def count_in_class(x: torch.Tensor) -> torch.Tensor:
    Shared.step += 1
    return x * Shared.step


def count_in_module(x: torch.Tensor) -> torch.Tensor:
    OTHER.count += 1
    return x * OTHER.count


def memory_in_object(x: torch.Tensor) -> torch.Tensor:
    before, HOLDER.last = HOLDER.last, x.mean(0)
    return x if before is None else x + before


def count_in_closure() -> Callable[[torch.Tensor], torch.Tensor]:
    count = 0

    def function(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        return x * count

    return function


COUNTING = {
    "COUNT": lambda: count_in_global,
    "CALLS": lambda: count_in_list,
    "Shared.step": lambda: count_in_class,
    "count": count_in_closure,
    "HOLDER.last": lambda: memory_in_object,
}


@CAPTURES
@SIZES
@pytest.mark.parametrize("name", COUNTING)
def test_what_the_next_call_depends_on_is_refused(
    name: str, capture: Any, dynamic: Any, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(opbridge.UnsupportedError, match=f"the model keeps '{name}'"):
        opbridge.export(
            Model(COUNTING[name]()), (torch.rand(3, 4),), tmp_path / "m.onnx", dynamic_shapes=dynamic, capture=capture
        )
    assert (COUNT, CALLS, Shared.step, HOLDER.last) == (0, [], 0, None)


@CAPTURES
def test_a_count_in_another_module_is_refused(capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="the model keeps 'count'"):
        opbridge.export(Model(count_in_module), (torch.rand(3, 4),), tmp_path / "model.onnx", capture=capture)
    assert OTHER.count == 0


@CAPTURES
def test_a_global_tensor_that_is_written(capture: Any, tmp_path: pathlib.Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + MEMORY.add_(1)

    with pytest.raises(opbridge.UnsupportedError, match="writes to"):
        opbridge.export(Model(function), (torch.rand(3, 4),), tmp_path / "model.onnx", capture=capture)
    assert MEMORY.sum() == 0


@CAPTURES
def test_code_that_no_call_reaches_is_let_alone(capture: Any, tmp_path: pathlib.Path) -> None:
    """Packages load their parts when somebody looks at them."""

    class Lazy(dict[str, Any]):
        def items(self) -> Any:
            raise AssertionError

        keys = values = __iter__ = items

    registry = Lazy(a=1)

    class Unused(Model):
        def load(self) -> Any:
            return registry

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + len(registry)

    opbridge.export(Unused(table_of_cache), (torch.rand(3, 4),), tmp_path / "model.onnx", capture=capture)


COUNTER = itertools.count(1)
NEXT = itertools.count(1).__next__
VARIABLE = contextvars.ContextVar("VARIABLE", default=0)
UNSET: contextvars.ContextVar[int] = contextvars.ContextVar("UNSET")
LEVEL = "OPBRIDGE_TEST_LEVEL"


class Drawing(nn.Module):
    """A model that draws from objects of Python's own classes."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        self.source = source

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * next(self.source)


class Rolling(Drawing):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(self.source.random())


def count_in_iterator(x: torch.Tensor) -> torch.Tensor:
    return x * next(COUNTER)


def count_in_method(x: torch.Tensor) -> torch.Tensor:
    return x * NEXT()


def count_in_variable(x: torch.Tensor) -> torch.Tensor:
    VARIABLE.set(VARIABLE.get() + 1)
    return x * VARIABLE.get()


def count_in_environment(x: torch.Tensor) -> torch.Tensor:
    os.environ[LEVEL] = str(int(os.environ.get(LEVEL, "0")) + 1)
    return x * int(os.environ[LEVEL])


def count_in_iterator_of_closure() -> Callable[[torch.Tensor], torch.Tensor]:
    count = numbers()
    return lambda x: x * next(count)


DRAWING: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "a counter": ("source", lambda: Drawing(itertools.count(1))),
    "a cycle": ("source", lambda: Drawing(itertools.cycle([1, 2, 3, 4, 5]))),
    "a generator": ("source", lambda: Drawing(numbers())),
    "an iterator of a list": ("source", lambda: Drawing(iter([*range(1, 50)]))),
    "a map of an iterator": ("source", lambda: Drawing(map(abs, range(1, 50)))),
    "numbers of Python": ("source", lambda: Rolling(random.Random(0))),
    "numbers of NumPy": ("source", lambda: Rolling(np.random.default_rng(0))),
    "old numbers of NumPy": ("source", lambda: Rolling(np.random.RandomState(0))),
    "a global counter": ("COUNTER", lambda: Model(count_in_iterator)),
    "its method": ("NEXT", lambda: Model(count_in_method)),
    "a closure": ("count", lambda: Model(count_in_iterator_of_closure())),
    "a context variable": ("VARIABLE", lambda: Model(count_in_variable)),
    "the environment": (f"os.environ['{LEVEL}']", lambda: Model(count_in_environment)),
}


@pytest.fixture
def _own_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(LEVEL, raising=False)
    monkeypatch.setitem(globals(), "COUNTER", itertools.count(1))
    monkeypatch.setitem(globals(), "NEXT", itertools.count(1).__next__)
    token = VARIABLE.set(0)
    yield
    VARIABLE.reset(token)
    os.environ.pop(LEVEL, None)


@CAPTURES
@pytest.mark.usefixtures("_own_state")
@pytest.mark.parametrize("name", DRAWING)
def test_what_is_drawn_from_is_refused_and_put_back(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    path, make = DRAWING[name]
    model, x = make(), torch.rand(3, 4)
    with pytest.raises(opbridge.UnsupportedError, match=re.escape(f"the model keeps '{path}'")):
        opbridge.export(model, (x,), tmp_path / "model.onnx", capture=capture)
    first = [model(x) for _ in range(3)]
    if path != "source":  # the others are shared by all models
        assert [each.sum() for each in first] == [(x * number).sum() for number in (1, 2, 3)]
    else:
        other = make()
        assert all(torch.equal(one, other(x)) for one in first)


@CAPTURES
@pytest.mark.usefixtures("_own_state")
def test_what_is_drawn_without_effect_is_put_back(capture: Any, tmp_path: pathlib.Path) -> None:
    count, shared = itertools.count(), numbers()
    places = {"one": shared, "two": shared}

    def function(x: torch.Tensor) -> torch.Tensor:
        next(count), next(places["one"]), VARIABLE.set(7)
        os.environ[LEVEL] = "7"
        return x * 2

    opbridge.export(Model(function), (torch.rand(3, 4),), tmp_path / "model.onnx", capture=capture)
    assert (VARIABLE.get(), os.environ.get(LEVEL)) == (0, None)
    assert places["one"] is places["two"]
    assert (next(count), next(places["one"])) == (0, 1)


@CAPTURES
def test_what_is_not_drawn_from_stays(capture: Any, tmp_path: pathlib.Path) -> None:
    source = itertools.count()
    held = [source]
    opbridge.export(Model(lambda x: x * len(held)), (torch.rand(3, 4),), tmp_path / "model.onnx", capture=capture)
    assert held[0] is source


@CAPTURES
def test_numbers_of_the_system_have_no_state(capture: Any, tmp_path: pathlib.Path) -> None:
    opbridge.export(Rolling(random.SystemRandom()), (torch.rand(3, 4),), tmp_path / "model.onnx", capture=capture)


@CAPTURES
def test_a_context_variable_without_value_stays_so(capture: Any, tmp_path: pathlib.Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        UNSET.set(3)
        return x * UNSET.get()

    opbridge.export(Model(function), (torch.rand(3, 4),), tmp_path / "model.onnx", capture=capture)
    assert UNSET.get(None) is None

    def counting(x: torch.Tensor) -> torch.Tensor:
        UNSET.set(UNSET.get(0) + 1)
        return x * UNSET.get()

    with pytest.raises(opbridge.UnsupportedError, match="the model keeps 'UNSET'"):
        opbridge.export(Model(counting), (torch.rand(3, 4),), tmp_path / "model.onnx", capture=capture)
    assert UNSET.get(None) is None


@CAPTURES
def test_tensors_that_an_iterator_makes(capture: Any, tmp_path: pathlib.Path) -> None:
    def tensors() -> Iterator[torch.Tensor]:
        while True:
            yield torch.ones(4)

    model = Drawing(tensors())
    with pytest.raises(opbridge.UnsupportedError, match="'source'"):
        opbridge.export(
            model, (torch.rand(3, 4),), tmp_path / "model.onnx", capture=capture, dynamic_shapes=({0: "n"},)
        )
    assert type(model(torch.rand(3, 4))) is torch.Tensor
