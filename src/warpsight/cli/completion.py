"""`warpsight completion`: a script for bash, zsh or fish that completes commands, options, GPUs and models."""

from __future__ import annotations

import argparse
import importlib
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from warpsight.cli.parser import Parser
from warpsight.gpu.catalog import catalog_names
from warpsight.models.base import model_names

EXAMPLES = """\
examples:
  eval "$(warpsight completion bash)"                                               # in ~/.bashrc
  eval "$(warpsight completion zsh)"                                                # in ~/.zshrc
  warpsight completion fish > ~/.config/fish/completions/warpsight.fish
"""
SHELLS = ("bash", "zsh", "fish")
_GPU_OPTIONS, _MODEL_OPTIONS = ("--gpu", "--other-gpu"), ("--model",)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")
    parser.set_defaults(commands=())


@dataclass(frozen=True)
class _Option:
    """An option with its fixed values, and the first sentence of its help."""

    name: str
    values: tuple[str, ...]
    takes_value: bool
    help: str


@dataclass(frozen=True)
class _Words:
    """What may follow a command: its subcommands and options."""

    name: str
    summary: str
    parts: tuple[str, ...]
    options: tuple[_Option, ...]


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    commands = [_words(name, module, summary, parts) for name, module, summary, parts in arguments.commands]
    print(_fish(commands) if arguments.shell == "fish" else _bash(commands, zsh=arguments.shell == "zsh"), end="")
    return 0


def _words(name: str, module: str, summary: str, parts: tuple[str, ...]) -> _Words:
    parser = Parser(prog=name)
    importlib.import_module(module).configure(parser)
    options = {}
    for action in parser.every_action():
        for option in action.option_strings:
            if option.startswith("--"):
                values = tuple(map(str, action.choices)) if action.choices is not None else _values(option)
                options[option] = _Option(option, values, action.nargs != 0, (action.help or "").partition(". ")[0])
    options.setdefault("--verbose", _Option("--verbose", (), False, "say what each step does and how long it takes"))
    return _Words(name, summary, (*parts, *parser.parts()), tuple(options.values()))


def _values(option: str) -> tuple[str, ...]:
    return tuple(catalog_names()) if option in _GPU_OPTIONS else tuple(model_names()) if option in _MODEL_OPTIONS else ()


def _bash(commands: list[_Words], *, zsh: bool) -> str:
    """A function for bash's `complete`; zsh runs it through its own bashcompinit."""
    lines = ["autoload -U +X compinit && compinit", "autoload -U +X bashcompinit && bashcompinit"] if zsh else []
    valued = {option.name: option.values for each in commands for option in each.options if option.values}
    lines += [
        "_warpsight() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" options="" parts=""',
        f'  if [ "$COMP_CWORD" -eq 1 ]; then {_reply(each.name for each in commands)}; return; fi',
        '  case "$before" in',
        *(f"    {name}) {_reply(values)}; return ;;" for name, values in valued.items()),
        "  esac",
        '  case "${COMP_WORDS[1]}" in',
        *(f"    {each.name}) options={_list(o.name for o in each.options)} parts={_list(each.parts)} ;;" for each in commands),
        "  esac",
        '  COMPREPLY=()',
        '  case "$word" in -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;; esac',
        '  if [ "$COMP_CWORD" -eq 2 ] && [ -n "$parts" ]; then COMPREPLY=($(compgen -W "$parts" -- "$word")); fi',
        "}",
        "complete -o bashdefault -o default -F _warpsight warpsight",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _list(words: Iterable[str]) -> str:
    return shlex.quote(" ".join(words))


def _reply(words: Iterable[str]) -> str:
    """The command that completes one of `words`."""
    return f'COMPREPLY=($(compgen -W {_list(words)} -- "$word"))'


def _fish(commands: list[_Words]) -> str:
    """One `complete` line for each command and option."""
    lines = [f"complete -c warpsight -n __fish_use_subcommand -f -a {each.name} -d {_fish_text(each.summary)}" for each in commands]
    for each in commands:
        seen = f"-n '__fish_seen_subcommand_from {each.name}'"
        if each.parts:
            lines.append(f"complete -c warpsight {seen} -a '{' '.join(each.parts)}'")
        for option in each.options:
            values = f" -x -a '{' '.join(option.values)}'" if option.values else " -r" if option.takes_value else ""
            lines.append(f"complete -c warpsight {seen} -l {option.name[2:]}{values} -d {_fish_text(option.help)}")
    return "\n".join(lines) + "\n"


def _fish_text(text: str) -> str:
    """A text in single quotes: fish escapes a quote and a backslash within them."""
    plain = text.replace("%%", "%").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{plain}'"
