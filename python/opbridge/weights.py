"""Weights in ``.safetensors`` files, which take the place of a model's parameters while it is exported."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import torch

from opbridge import _core
from opbridge.capture.patching import patch
from opbridge.dtypes import DTYPES
from opbridge.errors import FileError, InvalidArgumentError, UnsupportedError
from opbridge.paths import checked_path
from opbridge.torch_compat.patch_points import REGISTRATION

_INDEX = ".safetensors.index.json"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_SUGGESTED_NAMES = 3


@contextlib.contextmanager
def meta_parameters() -> Iterator[None]:
    """Modules that are built in this block have their parameters on the meta device, where they take no memory.

    Buffers have values, unlike with ``torch.device("meta")``: a model computes some of them when it is built, and no
    file has them. ``opbridge.export(…, weights=…)`` gives the parameters their values.
    """
    register = REGISTRATION.original

    def on_meta(module: torch.nn.Module, name: str, parameter: Any) -> None:
        if parameter is not None and not parameter.is_meta:
            twin = getattr(parameter, "meta_twin", None)  # a parameter may have several modules
            if twin is None:
                data = torch.empty_like(parameter, device="meta")
                twin = torch.nn.Parameter(data, requires_grad=parameter.requires_grad)
                parameter.meta_twin = twin
            parameter = twin
        register(module, name, parameter)

    with patch(REGISTRATION, on_meta):
        yield


class WeightFiles:
    """The tensors of one or more ``.safetensors`` files by name. Their bytes are mapped, not read."""

    def __init__(self, weights: Any, *, refers: bool) -> None:
        """``weights`` is a file, the index of several, or a folder with either.

        ``refers`` says that the model will point into the files.
        """
        if not isinstance(weights, (str, os.PathLike)):
            raise InvalidArgumentError(
                f"weights must be the path of a file or a folder, not a {type(weights).__name__}"
            )
        self.path = checked_path(weights)
        self._refers = refers
        self.files: list[_core.WeightFile] = []
        self._tensors: dict[str, _Stored] = {}
        file = _in_folder(Path(self.path)) if os.path.isdir(self.path) else Path(self.path)
        _refuse_pickle(file)
        if file.name.endswith(".json"):
            self._add_index(file)
        else:
            self._add(file, None)

    def _add_index(self, index: Path) -> None:
        names_of: dict[str, list[str]] = {}
        for name, file in _weight_map(index).items():
            if not isinstance(file, str) or Path(file).name != file:
                raise FileError(f"{index}: {file!r} is not the name of a file in the folder of the index")
            names_of.setdefault(file, []).append(name)
        for file, names in names_of.items():
            _refuse_pickle(index.parent / file)
            self._add(index.parent / file, names)

    def _add(self, path: Path, names: list[str] | None) -> None:
        file = _core.WeightFile(str(path))
        self.files.append(file)
        tensors = file.tensors
        for name in tensors if names is None else names:
            if name not in tensors:
                raise FileError(f"{path} has no tensor '{name}', which the index says it has")
            self._tensors[name] = _Stored(file, *tensors[name])

    def find(self, names: list[str], like: torch.Tensor) -> torch.Tensor | None:
        """The tensor with one of the names, which has the type and shape of ``like``; None if there is none."""
        found = [self._find(name, like) for name in names if name in self._tensors]
        for other in found[1:]:
            if not _are_equal(found[0], other):
                raise InvalidArgumentError(
                    f"{', '.join(map(repr, names))} are one tensor in the model, and have different values in "
                    f"{self.path}"
                )
        return found[0] if found else None

    def _find(self, name: str, like: torch.Tensor) -> torch.Tensor:
        stored = self._tensors[name]
        if DTYPES.get(stored.element_type) != like.dtype:
            raise UnsupportedError(
                f"the weight '{name}' is {str(like.dtype).removeprefix('torch.')} in the model and {stored.dtype} in "
                f"{stored.file.path}; convert the model (model.to(dtype)) or the file"
            )
        if stored.dims != list(like.shape):
            raise UnsupportedError(
                f"the weight '{name}' has the shape {list(like.shape)} in the model and {stored.dims} in "
                f"{stored.file.path}"
            )
        return stored.tensor(name, like.dtype, self._refers)

    def like(self, name: str) -> list[str]:
        """Names that resemble ``name``."""
        return difflib.get_close_matches(name, self._tensors, _SUGGESTED_NAMES)


@dataclasses.dataclass(frozen=True)
class _Stored:
    file: _core.WeightFile
    dtype: str
    element_type: int
    dims: list[int]
    offset: int
    size: int

    def tensor(self, name: str, dtype: torch.dtype, refers: bool) -> torch.Tensor:
        if self.size == 0:
            return torch.empty(self.dims, dtype=dtype)
        content = self.file.bytes[self.offset : self.offset + self.size]
        if self.offset % dtype.itemsize != 0:
            if refers:
                raise UnsupportedError(
                    f"the weight '{name}' is not aligned for its elements in {self.file.path} (offset {self.offset}), "
                    "so the model cannot point to it; save the file anew with safetensors, or leave out "
                    "external_data='reference'"
                )
            content = content.clone()
        return content.view(dtype).view(self.dims)


def _in_folder(folder: Path) -> Path:
    """The index of the folder, or its only file of weights."""
    names = sorted(entry.name for entry in folder.iterdir())
    indices = [name for name in names if name.endswith(_INDEX)]
    files = indices or [name for name in names if name.endswith(".safetensors")]
    if len(files) > 1:
        raise InvalidArgumentError(f"{folder} has several models ({', '.join(files)}): pass the path of one of them")
    if not files:
        pickled = [name for name in names if name.endswith(_PICKLED)]
        _refuse_pickle(folder / (pickled[0] if pickled else ""))
        raise FileError(f"{folder} has no .safetensors file")
    return folder / files[0]


def _refuse_pickle(path: Path) -> None:
    if path.name.removesuffix(".index.json").endswith(_PICKLED):
        raise UnsupportedError(
            f"{path} is a pickle, which is not opened, since it can execute code; load it with "
            "torch.load(path, weights_only=True), and save it with safetensors.torch.save_file"
        )


def _weight_map(index: Path) -> dict[str, Any]:
    try:
        weight_map = json.loads(index.read_bytes())["weight_map"]
    except OSError as error:
        raise FileError(f"{index}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileError(f"{index} is not an index of .safetensors files: {error}") from error
    if not isinstance(weight_map, dict) or not weight_map:
        raise FileError(f"{index} is not an index of .safetensors files: it has no weight_map")
    return weight_map


@dataclasses.dataclass
class _Slots:
    """A tensor of a model, its names, and how to put another one into all its places."""

    tensor: torch.Tensor
    names: list[str] = dataclasses.field(default_factory=list)
    setters: list[Callable[[torch.Tensor], None]] = dataclasses.field(default_factory=list)

    @property
    def is_buffer(self) -> bool:
        return not isinstance(self.tensor, torch.nn.Parameter)

    def put(self, tensor: torch.Tensor) -> None:
        for put in self.setters:
            put(tensor)


def _are_equal(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether all bits of two tensors of the same type and shape are equal."""
    bits = [each.detach().contiguous().view(-1).view(torch.uint8) for each in (tensor, other)]
    return torch.equal(*bits)


@contextlib.contextmanager
def place_weights(model: Any, weights: WeightFiles | None) -> Iterator[None]:
    """Replaces the model's parameters and buffers by the tensors of the files that have their names.

    If none of them is on the meta device, their values must equal those of the files. Otherwise the model takes the
    values of the files, as after load_state_dict; then only parameters that have values must equal them.
    """
    if weights is None:
        yield
        return
    slots = _slots_of(model)
    is_built_only = any(slot.tensor.is_meta for slot in slots)
    stored = set(model.state_dict if isinstance(model, torch.export.ExportedProgram) else model.state_dict())
    placed: list[_Slots] = []
    try:
        for slot in slots:
            found = weights.find(slot.names, slot.tensor)
            if found is None:
                if slot.tensor.is_meta:
                    _refuse_meta(slot, weights)
                if is_built_only and slot.is_buffer and not stored.isdisjoint(slot.names):
                    _refuse_initial_value(slot, weights)
                continue
            if not slot.tensor.is_meta and not (is_built_only and slot.is_buffer):
                _check_equal(slot, found, weights)
            placed.append(slot)
            if not slot.is_buffer:
                found = torch.nn.Parameter(found, requires_grad=slot.tensor.requires_grad)
            slot.put(found)
        yield
    finally:
        for slot in placed:
            slot.put(slot.tensor)


def _slots_of(model: Any) -> list[_Slots]:
    slots: dict[int, _Slots] = {}

    def add(tensor: torch.Tensor, name: str, put: Callable[[torch.Tensor], None]) -> None:
        slot = slots.setdefault(id(tensor), _Slots(tensor))
        slot.names.append(name)
        slot.setters.append(put)

    if isinstance(model, torch.export.ExportedProgram):
        for table in (model.state_dict, model.constants):
            for name, value in table.items():
                if isinstance(value, torch.Tensor):
                    add(value, name, lambda tensor, table=table, name=name: table.__setitem__(name, tensor))  # type: ignore[misc]
    elif isinstance(model, torch.nn.Module):
        for path, module in model.named_modules(remove_duplicate=False):
            of_module = (
                *module.named_parameters(recurse=False, remove_duplicate=False),
                *module.named_buffers(recurse=False, remove_duplicate=False),
            )
            for name, value in of_module:
                full = f"{path}.{name}" if path else name
                add(value, full, lambda tensor, module=module, name=name: setattr(module, name, tensor))  # type: ignore[misc]
    else:
        raise InvalidArgumentError(
            f"weights needs an nn.Module or an ExportedProgram, which names its weights, not a {type(model).__name__}"
        )
    return list(slots.values())


def _refuse_meta(slot: _Slots, weights: WeightFiles) -> NoReturn:
    name = slot.names[0]
    if not slot.is_buffer:
        close = weights.like(name)
        hint = f" (it has {', '.join(close)})" if close else ""
        raise InvalidArgumentError(
            f"the parameter '{name}' is on the meta device, and {weights.path} lacks it{hint}; the file must have the "
            "names of the model's state_dict, which save_pretrained of transformers changes for some models: write it "
            "with safetensors.torch.save_file(model.state_dict(), …)"
        )
    raise InvalidArgumentError(
        f"the buffer '{name}' is on the meta device, and {weights.path} lacks it: models compute such buffers when "
        "they are built; build the model within `with opbridge.meta_parameters():`, which leaves buffers their values"
    )


def _refuse_initial_value(slot: _Slots, weights: WeightFiles) -> NoReturn:
    raise InvalidArgumentError(
        f"{weights.path} lacks the buffer '{slot.names[0]}', which the model's state_dict has; if the model computes "
        "it when it is built, register it with persistent=False"
    )


def _check_equal(slot: _Slots, found: torch.Tensor, weights: WeightFiles) -> None:
    if slot.tensor.device.type != "cpu":
        raise InvalidArgumentError(
            f"the weight '{slot.names[0]}' is on {slot.tensor.device}, and those of {weights.path} are on the CPU: "
            "move the model and its inputs there"
        )
    if not _are_equal(slot.tensor, found):
        raise InvalidArgumentError(
            f"the weight '{slot.names[0]}' has other values in {weights.path} than in the model; leave out weights "
            "to export the model's values, or save them in a new file"
        )
