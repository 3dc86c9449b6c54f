"""argparse with Warpsight's errors: one clear line, the nearest known word, exit code 2."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from warpsight.base.errors import UsageError, WarpsightError, suggestion

# The common options, in the order in which the help of a command with many options begins with them.
COMMON = ("--kernel", "--grid", "--block", "--arg", "--gpu", "--model", "--set", "--level", "--caches-before", "--json")
_MANY = 20


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` and never guesses an abbreviated option."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)

    def format_help(self) -> str:
        """The help. That of a command with many options begins with the common ones; the others follow under headings."""
        if len(self._actions) < _MANY:
            return super().format_help()
        named = {option: action for action in self._actions for option in action.option_strings}
        common = [named[option] for option in COMMON if option in named]
        positionals = [action for action in self._actions if not action.option_strings]
        shown = " ".join(str(action.metavar or action.dest) for action in positionals)
        formatter = self._get_formatter()
        formatter.add_usage(f"{self.prog} {shown} [options]", [], [])
        formatter.add_text(self.description)
        groups = [("input", positionals), ("common options", common)]
        groups += [(group.title or "", [each for each in group._group_actions if each not in (*positionals, *common)])
                   for group in self._action_groups]
        for title, actions in groups:
            if actions:
                formatter.start_section("more options" if title == "options" else title)
                formatter.add_arguments(actions)
                formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` with argparse's message, its option as the place."""
        place, what = self.prog, message
        named = re.match(r"argument ([^:]+): (.*)", message, re.DOTALL)
        if named:
            place, what = named[1].split("/")[-1], named[2]
        chosen = re.match(r"invalid choice: '([^']*)' \(choose from (.*)\)", what)
        if chosen:
            known = re.findall(r"[\w.-]+", chosen[2])
            what = f'"{chosen[1]}" is not one of {", ".join(known)}{suggestion(chosen[1], known)}'
        raise UsageError(what, place=place, remedy=f"`{self.prog} --help` shows the options and an example")

    def parse_strictly(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse all of `words`. Raises `UsageError` on anything unknown, with the nearest known option."""
        arguments, unknown = self.parse_known_args(list(words))
        for word in unknown:
            if word.startswith("-") and word != "-":
                option = word.split("=")[0]
                what = f"is not an option of `{self.prog}`{suggestion(option, self._options())}"
                raise UsageError(what, place=option, remedy=f"`{self.prog} --help` shows the options and an example")
        if unknown:
            what = f'unexpected argument "{unknown[0]}"'
            before = list(words[: words.index(unknown[0])])[-2:]
            spaced = len(before) == 2 and before[0].startswith("--") and not before[1].startswith("-")
            quoted = f'quote a value that has spaces, as {before[0]} "{before[1]} {unknown[0]}"; ' if spaced else ""
            raise UsageError(what, place=self.prog, remedy=f"{quoted}`{self.prog} --help` shows what it takes")
        if getattr(arguments, "output", None) == "":  # of a variable of a shell that is not set: not the same as no -o
            raise UsageError("is empty", place="-o", remedy="name a file or folder, or leave it out")
        return arguments

    def add_everywhere(self, option: str, **settings: Any) -> None:
        """Declare an option that each subcommand has, too, and that may stand before or after the subcommand's name."""
        self.add_argument(option, **settings)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for part in dict.fromkeys(action.choices.values()):
                    part.add_argument(option, **settings | {"default": argparse.SUPPRESS})

    def parts(self) -> list[str]:
        """The names of the subcommands."""
        return [name for action in self._actions if isinstance(action, argparse._SubParsersAction) for name in action.choices]

    def _options(self) -> list[str]:
        """Every option string, those of subcommands included."""
        return [option for action in self.every_action() for option in action.option_strings]

    def option_names(self) -> dict[str, str]:
        """The longest option string by destination, those of subcommands included."""
        return {action.dest: max(action.option_strings, key=len) for action in self.every_action() if action.option_strings}

    def every_action(self) -> list[argparse.Action]:
        """Its arguments and options, those of subcommands included."""
        groups = [action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return [*self._actions, *(action for group in groups for part in group.values() for action in part._actions)]


# Parameters of the Python interface whose option stores its value under another name.
_OTHER_NAMES = {"heap_bytes": "heap", "stack_bytes": "stack", "overwrite": "force", "model": "models", "constraints": "where",
                "watch_sm": "timeline_sm", "figure": "figures"}  # fmt: skip
_QUOTED = re.compile(r"`([a-z_0-9]+)(?:=([^`]*))?`")


def name_options(error: WarpsightError, options: Mapping[str, str], typed: Sequence[str]) -> None:
    """Replace the parameters that `error` names by their options, as `max_instructions` by `--max-instructions`.

    Errors are raised in the words of the Python interface: a parameter is the first word of `place`, or stands in backquotes,
    alone or with a value. `options` maps destinations to options; a place that the user has `typed` is no parameter.
    """

    def option(name: str) -> str | None:
        return options.get(_OTHER_NAMES.get(name, name)) or options.get(name)

    def replaced(match: re.Match[str]) -> str:
        named_option, value = option(match[1]), match[2]
        if named_option is None:
            return match[0]
        return named_option if value is None else f"{named_option} {value.strip(chr(39))}"

    first, space, rest = error.place.partition(" ")
    named = None if error.place in typed else option(first)
    place = f"{named}{space}{rest}" if named else error.place
    WarpsightError.__init__(error, _QUOTED.sub(replaced, error.what), place=place, remedy=_QUOTED.sub(replaced, error.remedy))
