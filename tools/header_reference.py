"""Markdown of a C++ header: its declarations with the comments above them, without private members and bodies.

The headers are formatted by clang-format: one blank line separates declarations, and a class ends in `};`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

_NAMESPACE = re.compile(r"^(inline )?namespace (?P<name>[\w:]*) *\{")
_HEAD = re.compile(
    r"^(?:template <.*?>\s*(?:requires[^{;]*?\)\s*)?)?(?P<kind>class|struct|enum class|enum)\s+(?P<name>\w+)", re.S
)
_CALLED = re.compile(r"(?P<name>operator\s*[^\s\w(]+|operator \w+|~?\w+)\s*\(")
_CONSTANT = re.compile(r"(?P<name>\w+)\s*(?:=|\{|;)")
_USING = re.compile(r"^using (?P<name>\w+)")
_FORWARD = re.compile(r"((class|struct) \w+;\n?)*")
_MEMBER = re.compile(
    r"(template <[^\n]*>\n)?[^\n(]*\w::(?:~?\w+|operator \w+)\([^;]*\{"
)  # a member that is defined outside of its class
_LINT = re.compile(r"  // NOLINT[^\n]*")


def reference(text: str, level: int) -> str:
    """The declarations of a header, each below a heading of this level."""
    parts = []
    for group in _groups(text):
        comment, code = _split(group)
        if not _FORWARD.fullmatch(code) and not _MEMBER.match(code):
            parts.append(_rendered(comment, _without_bodies(code), level))
    return "\n\n".join(parts)


def introduction(text: str) -> str:
    """The comment at the top of a header as Markdown."""
    return _prose(list(itertools.takewhile(lambda line: line.startswith("//"), text.splitlines())))


def _groups(text: str) -> Iterator[list[str]]:
    """The lines of each declaration in the namespaces that are for users."""
    spaces: list[str] = []
    group: list[str] = []
    for line in _undirected(text).splitlines():
        namespace = _NAMESPACE.match(line)
        if namespace and line.rstrip().endswith("{"):
            spaces.append(namespace["name"])
        elif line.startswith("}  // namespace"):
            spaces.pop()
        elif not spaces or any("detail" in space for space in spaces):
            continue
        elif line.strip() or _depth(group):
            group.append(line)
            continue
        if group:
            yield group
        group = []


def _undirected(text: str) -> str:
    """Without preprocessor directives, with their continued lines."""
    return re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.MULTILINE)


def _depth(lines: list[str]) -> int:
    code = re.sub(r'//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', "", "\n".join(lines))
    return code.count("{") - code.count("}")


def _split(group: list[str]) -> tuple[list[str], str]:
    count = next((i for i, line in enumerate(group) if not line.startswith("//")), len(group))
    return group[:count], "\n".join(group[count:])


def _rendered(comment: list[str], code: str, level: int) -> str:
    name, kind = _name_of(code)
    heading = f"{'#' * level} {f'{kind} ' if kind else ''}{_escaped(name)}"
    code = re.sub(r" +$", "", _LINT.sub("", code), flags=re.MULTILINE).strip()
    return "\n\n".join(filter(None, [heading, _prose(comment), f"```cpp\n{code}\n```"]))


def _name_of(code: str) -> tuple[str, str]:
    if head := _HEAD.match(code):
        return head["name"], head["kind"]
    if using := _USING.match(code):
        return using["name"], ""
    plain = re.sub(r"template <[^\n]*>\n", "", code)
    declaration = plain.partition(";")[0]
    found = _CALLED.search(declaration) if "(" in declaration else None
    found = found or _CONSTANT.search(plain)
    return (found["name"] if found else declaration), ""


def _without_bodies(code: str) -> str:
    """Only the declarations: functions without bodies and initializers, classes without private members."""
    result = []
    start = at = 0  # the start of the current statement, and the position of reading
    while at < len(code):
        if code.startswith("//", at):
            at = code.find("\n", at) if "\n" in code[at:] else len(code)
            if not re.sub(r"//[^\n]*", "", code[start:at]).strip():
                continue
        elif code[at] == "{":
            end = _closing(code, at)
            statement = code[start:at]
            head = re.sub(r"//[^\n]*", "", statement).strip()
            container = _HEAD.match(head) and not re.search(r"\)\s*(const|noexcept)?$", head)
            if container:
                body = code[at + 1 : end]
                kind = _HEAD.match(head)["kind"]  # type: ignore[index]
                if not kind.startswith("enum"):
                    body = _without_bodies(_public(body, kind))
                result.append(statement + "{" + body + "}")
            elif re.search(r"\)\s*(const|noexcept|override|&&|&|requires\b.*|->[^;]*)*\s*$", _uninitialized(head)):
                result.append(_uninitialized(statement).rstrip() + ";")
                if code[end + 1 : end + 2] == ";":
                    end += 1
            else:
                result.append(code[start : end + 1])
            start = at = end + 1
            continue
        elif code[at] == ";":
            result.append(code[start : at + 1])
            start = at + 1
        at += 1
    result.append(code[start:])
    return "".join(result)


def _uninitialized(declaration: str) -> str:
    """A constructor without ` : member_(value)`."""
    return re.sub(r"\)\s*:\s(?!:)[^\n;]*(\n[^\n;]*)*$", ")", declaration)


def _public(body: str, kind: str) -> str:
    sections = re.split(r"^( *(?:public|private|protected):)\n", body, flags=re.MULTILINE)
    kept = sections[0] if kind == "struct" else "\n"
    for access, content in zip(sections[1::2], sections[2::2], strict=True):
        if access.strip() == "public:":
            kept += f"{access}\n{content}"
    return kept.rstrip() + "\n"


def _closing(code: str, at: int) -> int:
    depth = 0
    skipped = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|[{}]')
    for token in skipped.finditer(code, at):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.start()
    raise ValueError(f"a brace is not closed: {code[at : at + 80]}")


def _prose(comment: list[str]) -> str:
    """The comment as Markdown. Indented lines are code."""
    lines = [line.strip().removeprefix("//").removeprefix(" ") for line in comment]
    result: list[str] = []
    in_code = False
    for i, line in enumerate(lines):
        is_code = line.startswith("  ") or (
            in_code and not line and any(x.startswith("  ") for x in lines[i + 1 : i + 2])
        )
        if is_code != in_code:
            result += ["", "```cpp"] if is_code else ["```", ""]
            in_code = is_code
        result.append(line.removeprefix("  ") if is_code else _escaped(line))
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*result, "```"] if in_code else result)).strip()


def _escaped(line: str) -> str:
    parts = line.split("`")  # every other one is code
    return "`".join(part if i % 2 else re.sub(r"([<\[*_])", r"\\\1", part) for i, part in enumerate(parts))
