"""Components: templates of declarations and clauses, unfolded where .init names them.

An instance x of a component turns its relation r into x.r and its type T into x.T. Names that
the component does not declare mean what they mean outside of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .structures import BRANCH
from .syntax import (
    Aggregate,
    Atom,
    Attribute,
    Block,
    Branch,
    Cast,
    Clause,
    Component,
    ComponentType,
    DatalogError,
    Declaration,
    Directive,
    Errors,
    Expression,
    Functor,
    Literal,
    Negation,
    Subsumption,
    TypeDeclaration,
)

MAX_DEPTH = 64
Scope = tuple[Mapping[str, Component], ...]
Binding = Mapping[str, str]


def expand(block: Block) -> None:
    """Unfold every instance of a component into the program itself; raises DatalogError."""
    if not block.components and not block.instances:
        return
    scope: Scope = (_named(block.components),)
    seen: set[str] = set()
    errors = Errors()
    for component in block.components:
        with errors.collected():
            _check_own_overrides(component)
    for instance in block.instances:
        with errors.collected():
            if instance.name in seen:
                raise DatalogError.at(instance.position, f"{instance.name} is instantiated twice")
            seen.add(instance.name)
            component, arguments, inner = _find(instance.component, scope, {})
            content = _content(component, arguments, inner, frozenset(), 0)
            _merge(block, _prefixed(content, instance.name))
    errors.check()


def _check_own_overrides(component: Component) -> None:
    """Refuse to override what a component declares itself, whether it is instantiated or not."""
    for declaration in component.block.declarations:
        if declaration.name in component.block.overrides:
            raise DatalogError.at(
                component.position,
                f"{component.type.name} overrides {declaration.name}, which it does not inherit",
            )
    for nested in component.block.components:
        _check_own_overrides(nested)


def _named(components: Sequence[Component]) -> dict[str, Component]:
    by_name: dict[str, Component] = {}
    for component in components:
        if component.type.name in by_name:
            raise DatalogError.at(
                component.position, f"component {component.type.name} is declared twice"
            )
        by_name[component.type.name] = component
    return by_name


def _find(
    use: ComponentType, scope: Scope, binding: Binding
) -> tuple[Component, dict[str, str], Scope]:
    """Find a component by name, bind its parameters, and give the scope that it stands in."""
    name = binding.get(use.name, use.name)
    for depth in range(len(scope), 0, -1):
        component = scope[depth - 1].get(name)
        if component is None:
            continue
        parameters = component.type.arguments
        arguments = [binding.get(a, a) for a in use.arguments]
        if len(parameters) != len(arguments):
            raise DatalogError.at(
                use.position,
                f"component {name} has {len(parameters)} parameters, not {len(arguments)}",
            )
        bound = {**binding, **dict(zip(parameters, arguments, strict=True))}
        return component, bound, scope[:depth]
    raise DatalogError.at(use.position, f"component {name} is not declared")


def _content(
    component: Component,
    binding: Binding,
    scope: Scope,
    overridden: frozenset[str],
    depth: int,
) -> Block:
    """Collect what an instance holds: inherited, own and nested, under its own names."""
    if depth > MAX_DEPTH:
        raise DatalogError.at(
            component.position, f"component {component.type.name} unfolds without end"
        )
    content = Block()
    block = component.block
    visible = _named(block.components)
    hidden = overridden | frozenset(block.overrides)
    for base in component.bases:
        parent, arguments, outer = _find(base, scope, binding)
        inherited = _content(parent, arguments, outer, hidden, depth + 1)
        _check_overrides(component, block.overrides, inherited)
        _merge(content, inherited)
        for nested in _nested(parent, outer, arguments, depth):
            visible.setdefault(nested.type.name, nested)
    inner: Scope = (*scope, visible)
    for instance in block.instances:
        nested_component, arguments, outer = _find(instance.component, inner, binding)
        nested_content = _content(nested_component, arguments, outer, frozenset(), depth + 1)
        _merge(content, _prefixed(nested_content, instance.name))
    _merge(content, _bound(block, binding, overridden))
    return content


def _nested(component: Component, scope: Scope, binding: Binding, depth: int) -> list[Component]:
    """List the components declared inside of one and of its bases."""
    components = list(component.block.components)
    if depth < MAX_DEPTH:
        for base in component.bases:
            parent, arguments, outer = _find(base, scope, binding)
            components.extend(_nested(parent, outer, arguments, depth + 1))
    return components


def _check_overrides(component: Component, names: Sequence[str], inherited: Block) -> None:
    for declaration in inherited.declarations:
        if declaration.name in names and "overridable" not in declaration.qualifiers:
            raise DatalogError.at(
                component.position,
                f"{component.type.name} overrides {declaration.name}, which is not overridable",
            )


def _merge(block: Block, other: Block) -> None:
    block.declarations.extend(other.declarations)
    block.types.extend(other.types)
    block.directives.extend(other.directives)
    block.clauses.extend(other.clauses)
    block.subsumptions.extend(other.subsumptions)
    block.notes.extend(other.notes)


def _bound(block: Block, binding: Binding, overridden: frozenset[str]) -> Block:
    """Copy a component's own items with its parameters replaced, less what is overridden."""
    renaming = _Renaming({}, binding)
    copy = Block(
        declarations=[renaming.declaration(d) for d in block.declarations],
        types=[renaming.type(t) for t in block.types],
        directives=[renaming.directive(d) for d in block.directives],
        clauses=[renaming.clause(c) for c in block.clauses if c.head.name not in overridden],
        notes=list(block.notes),
    )
    copy.subsumptions = [
        renaming.subsumption(s) for s in block.subsumptions if s.dominated.name not in overridden
    ]
    return copy


def _prefixed(content: Block, name: str) -> Block:
    """Copy an instance's content with its relations and types moved under its name."""
    relations = {d.name: f"{name}.{d.name}" for d in content.declarations}
    types = {t.name: f"{name}.{t.name}" for t in content.types}
    branches = {b.name: f"{name}.{b.name}" for t in content.types for b in t.branches if b.name}
    renaming = _Renaming(relations, types, branches)
    return Block(
        declarations=[renaming.declaration(d) for d in content.declarations],
        types=[renaming.type(t) for t in content.types],
        directives=[renaming.directive(d) for d in content.directives],
        clauses=[renaming.clause(c) for c in content.clauses],
        subsumptions=[renaming.subsumption(s) for s in content.subsumptions],
        notes=content.notes,
    )


class _Renaming:
    """Copies items with relation and type names replaced."""

    def __init__(
        self,
        relations: Mapping[str, str],
        types: Mapping[str, str],
        branches: Mapping[str, str] | None = None,
    ) -> None:
        self.relations = relations
        self.types = types
        self.branches = branches or {}

    def declaration(self, item: Declaration) -> Declaration:
        name = self.relations.get(item.name, item.name)
        attributes = self._attributes(item.attributes)
        return Declaration(name, attributes, item.qualifiers, item.position, item.keys)

    def type(self, item: TypeDeclaration) -> TypeDeclaration:
        parts = tuple(self.types.get(p, p) for p in item.parts)
        name = self.types.get(item.name, item.name)
        branches = tuple(
            Branch(self.branches.get(b.name, b.name), self._attributes(b.attributes), b.position)
            for b in item.branches
        )
        return TypeDeclaration(name, item.form, parts, item.position, branches)

    def _attributes(self, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        return tuple(
            Attribute(a.name, self.types.get(a.type_name, a.type_name), a.position)
            for a in attributes
        )

    def directive(self, item: Directive) -> Directive:
        name = self.relations.get(item.relation, item.relation)
        return Directive(item.action, name, item.parameters, item.position)

    def clause(self, item: Clause) -> Clause:
        body = tuple(self.literal(b) for b in item.body)
        return Clause(self.atom(item.head), body, item.position)

    def subsumption(self, item: Subsumption) -> Subsumption:
        body = tuple(self.literal(b) for b in item.body)
        dominated, dominating = self.atom(item.dominated), self.atom(item.dominating)
        return Subsumption(dominated, dominating, body, item.position)

    def atom(self, item: Atom) -> Atom:
        name = self.relations.get(item.name, item.name)
        return Atom(name, item.arguments, item.position).with_parts(self.expression)

    def literal(self, item: Literal) -> Literal:
        if isinstance(item, Atom):
            return self.atom(item)
        if isinstance(item, Negation):
            return Negation(self.atom(item.atom), item.position)
        return item.with_parts(self.expression)

    def expression(self, item: Expression) -> Expression:
        if isinstance(item, Aggregate):
            target = None if item.target is None else self.expression(item.target)
            body = tuple(self.literal(b) for b in item.body)
            return Aggregate(item.name, target, body, item.position)
        if isinstance(item, Functor):
            name = item.name
            if name.startswith(BRANCH):
                name = BRANCH + self.branches.get(name[1:], name[1:])
            functor = Functor(name, item.arguments, item.position, item.depth)
            return functor.with_parts(self.expression)
        if isinstance(item, Cast):
            type_name = self.types.get(item.type_name, item.type_name)
            return Cast(self.expression(item.value), type_name, item.position)
        return item
