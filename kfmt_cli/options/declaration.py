"""The parameters of a command as a dataclass: each field declares how the command line takes it.

`command_options` makes a class of options; `option` and `argument` make its fields. The command
line, the Python API and other commands create objects of this class, and the command reads them.
A field without a default is required. The class's docstring is the command's help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar, overload

import click

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:  # for mypy only

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        return lambda function: function


T = TypeVar("T")
PARAMETERS_KEY = "parameters"
REPLACEMENT_KEY = "replacement"
CreateParameter = Callable[[str, Any], click.Parameter]
"""Creates a parameter for a field with a name and a default."""


@overload
def option(*names: str, default: T, **settings: Any) -> T: ...
@overload
def option(*names: str, **settings: Any) -> Any: ...
def option(*names: str, default: Any = MISSING, **settings: Any) -> Any:
    """Declare a field as an option.

    names: by default, the field's name. settings: those of `click.option`. An option whose default
    is a bool is a flag, one whose default is a tuple may be repeated; other defaults are shown.
    """

    def create_option(name: str, default: Any) -> click.Parameter:
        option_names = names or (f"--{name.replace('_', '-')}",)
        implied: dict[str, Any] = {"required": default is MISSING}
        if isinstance(default, bool):
            implied["is_flag"] = True
        elif isinstance(default, tuple):
            implied["multiple"] = True
        elif default is not MISSING and default is not None:
            implied |= {"default": default, "show_default": default != ""}
        return click.Option([*option_names, name], **(implied | settings))

    return declare_field([create_option], default)


@overload
def argument(metavar: str, *, default: T, **settings: Any) -> T: ...
@overload
def argument(metavar: str, **settings: Any) -> Any: ...
def argument(metavar: str, *, default: Any = MISSING, **settings: Any) -> Any:
    """Declare a field as an argument. settings: those of `click.argument`."""

    def create_argument(name: str, default: Any) -> click.Parameter:
        return click.Argument(
            [name], metavar=metavar, **({"required": default is MISSING} | settings)
        )

    return declare_field([create_argument], default)


def deprecated(name: str, *, use: str, default: T, **settings: Any) -> T:
    """Declare a former spelling of an option, which works with a warning for one release.

    use: the option that replaces it. settings: as for `option`.
    """
    settings = {"hidden": True, "help": f"The former spelling of {use}."} | settings
    former_option: Any = option(name, default=default, **settings)
    metadata = {**former_option.metadata, REPLACEMENT_KEY: (name, use)}
    former_field: T = field(default=default, metadata=metadata)
    return former_field


def deprecation_messages(options: Any) -> list[str]:
    """A message for each former spelling among the parameters that were given."""
    replacements = [
        field_.metadata[REPLACEMENT_KEY]
        for field_ in fields(options)
        if REPLACEMENT_KEY in field_.metadata and getattr(options, field_.name) != field_.default
    ]
    return [deprecation_message(name, use) for name, use in replacements]


def deprecation_message(name: str, use: str) -> str:
    """The warning about a former spelling."""
    return f"{name} is now {use}; the former spelling works in this release only"


def declare_field(creators: list[CreateParameter], default: Any = MISSING) -> Any:
    """Declare a field that several parameters set."""
    return field(default=default, metadata={PARAMETERS_KEY: creators})


@dataclass(frozen=True)
class CommandSpec:
    """A command of the command line; the docstring of its options is its help."""

    name: str
    short_help: str
    common: tuple[str, ...]
    """Names of the fields of `CommonOptions` that it takes."""
    writes_files: bool = False
    """Whether it writes files, even if its output is closed."""
    shows_findings: bool = False
    """Whether findings are its main result."""
    write_epilog: Callable[[click.HelpFormatter], None] | None = None
    """Writes further sections of its help."""
    context_settings: dict[str, Any] | None = None


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(option, argument, field)
)
def options_class(class_: type[T]) -> type[T]:
    """Make a class of options, which several commands share.

    mypy rejects assignments to its fields; methods that do so would cost time at each start.
    """
    return dataclass(kw_only=True, eq=False, repr=False)(class_)


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(option, argument, field)
)
def command_options(
    name: str, short_help: str, *, common: tuple[str, ...] = (), **settings: Any
) -> Callable[[type[T]], type[T]]:
    """Make a class of options of a command; see `CommandSpec`."""

    def decorate(class_: type[T]) -> type[T]:
        class_.command_spec = CommandSpec(name, short_help, common, **settings)  # type: ignore[attr-defined]
        return options_class(class_)

    return decorate


def iter_parameters(
    class_: type[Any], is_included: Callable[[Field[Any]], bool] = lambda _: True
) -> Iterator[click.Parameter]:
    """Parameters of the command line for the fields of a class of options."""
    for field_ in filter(is_included, fields(class_)):
        for create_parameter in field_.metadata.get(PARAMETERS_KEY, ()):
            yield create_parameter(field_.name, field_.default)
