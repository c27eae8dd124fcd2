"""Templates: components with parameters, and the components that are made from them.

    templates:
      csv_folder:
        params: {folder: , refresh: 1m}      # a parameter without a value has to be given
        read: {connector: files, path: "data/${folder}/*.csv", format: csv, refresh: "${refresh}"}
    components:
      orders: {template: csv_folder, params: {folder: orders}}

A scalar that is one reference takes the parameter's value with its type; inside of a text stands
the value's text. `$${` is `${`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from controlplane.core.blueprint import text_forms
from controlplane.core.blueprint.problems import BlueprintRefused, Problems, shown
from controlplane.core.blueprint.trees import key_of, merged, without
from controlplane.core.blueprint.value_kinds import as_text, described
from controlplane.core.blueprint.yaml_nodes import BrokenNode, Entries, Items, Node, Scalar

TEMPLATE = "template"
PARAMS = "params"
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A component with parameters. One whose default is None has no default."""

    name: str
    params: Mapping[str, Scalar]
    body: Entries


def declared(section: Node | None, problems: Problems) -> dict[str, Template]:
    """The templates of a blueprint that can be used. Problems of the others are added."""
    if section is None or not _is_mapping(section, "a mapping of names to templates", problems):
        return {}
    assert isinstance(section, Entries)
    templates = (_template(key, node, problems) for key, node in section.entries)
    return {template.name: template for template in templates if template is not None}


def _template(key: Scalar, node: Node, problems: Problems) -> Template | None:
    if fault := text_forms.name(key.text):
        problems.add(key.place, *fault)
    if not _is_mapping(node, "a mapping: params, and the keys of a component", problems):
        return None
    assert isinstance(node, Entries)
    if nested := key_of(node, TEMPLATE):
        problems.add(
            nested.place,
            "not-supported",
            "a template cannot be made from a template",
            "write it out",
        )
        return None
    params = _params(node.get(PARAMS), problems)
    template = Template(key.text, params, without(node, (PARAMS,)))
    _report_unknown(template, problems)
    return template


def _params(node: Node | None, problems: Problems) -> dict[str, Scalar]:
    """Parameters by name. A node that is no scalar is reported and left out."""
    if node is None or not _is_mapping(node, "a mapping of parameter names to values", problems):
        return {}
    assert isinstance(node, Entries)
    params: dict[str, Scalar] = {}
    for key, value in node.entries:
        if fault := text_forms.matching(text_forms.PARAMETER, "a parameter's name")(key.text):
            problems.add(key.place, *fault)
        elif isinstance(value, Scalar):
            params[key.text] = value
        elif not isinstance(value, BrokenNode):
            message = f"expected a text, a number, true or false, found {described(value)}"
            problems.add(value.place, "wrong-type", message, "parameters are single values")
    return params


def _report_unknown(template: Template, problems: Problems) -> None:
    for scalar in _scalars(template.body):
        for name in _references(scalar.text):
            if name not in template.params:
                message = f"the template {template.name} has no parameter {shown(name)}"
                hint = (
                    problems.guess(name, template.params)
                    or "declare it in params, or write $${ for ${"
                )
                problems.add(scalar.place, "unknown-reference", message, hint)


def _references(text: str) -> Iterator[str]:
    for match in _REFERENCE.finditer(text):
        if match[1] is not None:
            yield match[1]


def _scalars(root: Node) -> Iterator[Scalar]:
    """All keys and values below a node."""
    open_nodes: list[Node] = [root]
    while open_nodes:
        match open_nodes.pop():
            case Scalar() as scalar:
                yield scalar
            case Items(items=items):
                open_nodes += items
            case Entries(entries=entries):
                open_nodes += (node for pair in entries for node in pair)
            case _:
                pass


def component(
    name: str, use: Entries, templates: Mapping[str, Template], problems: Problems
) -> Entries:
    """The component that a use of a template stands for: the keys beside `template` and `params`
    win.

    Raises BlueprintRefused where there is no such template, or its parameters are not those that
    are given.
    """
    template = _named(use.get(TEMPLATE), templates, problems)
    values = _values(name, template, use, problems)
    body = _substituted(template.body, values, problems)
    assert isinstance(body, Entries)
    return merged(without(use, (TEMPLATE, PARAMS)), body)


def _named(node: Node | None, templates: Mapping[str, Template], problems: Problems) -> Template:
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        if node is None or isinstance(node, BrokenNode):
            raise BlueprintRefused
        message = f"expected the name of a template, found {described(node)}"
        raise problems.refuse(node.place, "wrong-type", message)
    if node.text in templates:
        return templates[node.text]
    hint = problems.guess(node.text, templates) or "declare it below templates"
    raise problems.refuse(
        node.place, "unknown-reference", f"there is no template {shown(node.text)}", hint
    )


def _values(name: str, template: Template, use: Entries, problems: Problems) -> dict[str, Scalar]:
    own = _params(use.get(PARAMS), problems)
    params = use.get(PARAMS)
    for key, _ in params.entries if isinstance(params, Entries) else ():
        if key.text not in template.params:
            message = f"the template {template.name} has no parameter {shown(key.text)}"
            hint = (
                problems.guess(key.text, template.params)
                or f"known here: {', '.join(template.params) or 'none'}"
            )
            problems.add(key.place, "unknown-key", message, hint)
    values = {**template.params, **own}
    missing = [param for param, value in values.items() if value.value is None]
    for param in missing:
        message = f"{name} gives no value to {param!r}, a parameter of the template {template.name}"
        problems.add(use.place, "missing-key", message, f"params: {{{param}: ...}}")
    if missing:
        raise BlueprintRefused
    return values


def _substituted(node: Node, values: Mapping[str, Scalar], problems: Problems) -> Node:
    match node:
        case Scalar():
            return _scalar(node, values)
        case Items(place, items):
            return Items(place, tuple(_substituted(item, values, problems) for item in items))
        case Entries():
            return _entries(node, values, problems)
        case _:
            return node


def _entries(node: Entries, values: Mapping[str, Scalar], problems: Problems) -> Entries:
    entries: dict[str, tuple[Scalar, Node]] = {}
    for key, value in node.entries:
        name = as_text(_scalar(key, values))
        if name.text in entries:
            message = f"the key {shown(name.text)} comes twice once the parameters are put in"
            problems.add(key.place, "duplicate-key", message, "give other parameters")
            continue
        entries[name.text] = (name, _substituted(value, values, problems))
    return Entries(node.place, tuple(entries.values()))


def _scalar(scalar: Scalar, values: Mapping[str, Scalar]) -> Scalar:
    """With the values of the parameters that it names. Lines of a block stay lines of the file if
    none is added."""
    if "${" not in scalar.text:
        return scalar
    reference = _REFERENCE.fullmatch(scalar.text)
    if reference and reference[1] in values:
        param = values[reference[1]]
        return replace(scalar, text=param.text, value=param.value, style=param.style and '"')
    text = _REFERENCE.sub(lambda match: _text(match, values), scalar.text)
    is_moved = text.count("\n") != scalar.text.count("\n")
    style = ">" if is_moved and scalar.style == "|" else scalar.style or '"'
    return replace(scalar, text=text, value=text, style=style)


def _text(match: re.Match[str], values: Mapping[str, Scalar]) -> str:
    if match[1] is None:
        return "${"
    return values[match[1]].text if match[1] in values else match[0]


def _is_mapping(node: Node, expected: str, problems: Problems) -> bool:
    if isinstance(node, Entries):
        return True
    if not isinstance(node, BrokenNode):
        problems.add(node.place, "wrong-type", f"expected {expected}, found {described(node)}")
    return False
