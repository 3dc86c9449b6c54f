"""argparse with Warpsight's errors: one clear line, the nearest known word, exit code 2."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from warpsight.base.errors import UsageError, suggestion


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` and never guesses an abbreviated option."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` with argparse's complaint, the option it is about as the place."""
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
            raise UsageError(what, place=self.prog, remedy=f"`{self.prog} --help` shows what it takes")
        return arguments

    def _options(self) -> list[str]:
        """Every option string, those of subcommands included."""
        groups = [action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        inner = [option for group in groups for part in group.values() for option in part._option_string_actions]
        return [*self._option_string_actions, *inner]
