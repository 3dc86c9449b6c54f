"""`warpsight init`: a launch file for a kernel, with every parameter's name and type and a value to begin with."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import asdict
from pathlib import Path

from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.cli.output import print_answer, print_json, write_output
from warpsight.kernels.launch_check import describe_parameters
from warpsight.kernels.launch_file import prepare as prepare_launch
from warpsight.kernels.launch_file import read_launch_file
from warpsight.kernels.launch_template import LaunchTemplate, launch_template
from warpsight.kernels.mangling import base_name, display_name
from warpsight.kernels.sources import find_kernel, kernels_like, load_source, source_texts
from warpsight.reports.next_step import command_after, line
from warpsight.reports.terminal import Column, aligned, counted

EXAMPLES = """\
examples:
  warpsight init saxpy.cu                            # writes saxpy.yaml
  warpsight init layernorm.cu --list                 # the kernels of a file with their parameters
  warpsight init layernorm.cu --kernel '*forward*5'  # the kernel whose name matches
  warpsight init scale.cu --kernel 'scale<float>'    # an instance of a template
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("path", metavar="FILE", help="a .cu, .ptx, .cubin or .fatbin file, or a program built by nvcc")
    parser.add_argument("--kernel", metavar="NAME|PATTERN", help="the kernel, by name, or by a pattern with * and ?")
    parser.add_argument("--list", action="store_true", help="list the kernels (with --kernel, those that match) and write nothing")
    parser.add_argument("-o", "--output", metavar="FILE.yaml", help="the launch file, or - for stdout (default: the source's name, "
                        "or the kernel's where the source has several, with .yaml, beside the source)")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    options.add_compiling(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """List kernels, or write the launch file of one."""
    if arguments.path == "-":
        raise UsageError("a launch file needs a source file to name", place="-", remedy="give the path of the source")
    if arguments.path.endswith((".yaml", ".yml", ".py")):
        what = "is a launch file already, and init writes one for a kernel"
        raise UsageError(what, place=arguments.path, remedy=f"`warpsight predict {arguments.path}` launches it")
    chosen = (arguments.kernel,) if arguments.kernel else ()
    defines, folders = tuple(arguments.defines or ()), tuple(arguments.include_dirs or ())
    source = load_source(
        arguments.path, arch=arguments.arch, kernel_expressions=chosen, defines=defines, include_dirs=folders, std=arguments.std
    )
    if arguments.list:
        names = kernels_like(source, arguments.kernel)
        rows = [{"kernel": display_name(name), "parameters": describe_parameters(source.module.kernels[name])} for name in names]
        if arguments.json:
            print_json([rows])
            return 0
        columns = [Column("kernel", [row["kernel"] for row in rows], left=True),
                   Column("parameters", [row["parameters"] for row in rows], left=True)]  # fmt: skip
        first = rows[0]["kernel"] if rows else "NAME"
        own, flags = ("--kernel", "-o", "--output"), ("--list", "--force")
        write = command_after("init", arguments.command_line, without=own, flags=flags, added=("--kernel", first))
        print_answer("\n".join(aligned(columns)), f"next: {write}   # write a launch file for one")
        return 0
    kernel = find_kernel(source, arguments.kernel)
    template = launch_template(source, kernel, source_texts(arguments.path, folders))
    settings = {"arch": arguments.arch, "defines": list(defines), "include_dirs": list(folders), "std": arguments.std}
    return _write(arguments, template, len(source.module.kernels) > 1, settings)


def _write(arguments: argparse.Namespace, template: LaunchTemplate, several: bool, settings: dict[str, object]) -> int:
    """Write the launch file of `template`, or print it."""
    name = re.sub(r"\W+", "-", base_name(template.kernel).rpartition("::")[2]) if several else Path(arguments.path).stem
    path = arguments.output or os.path.join(os.path.dirname(arguments.path), f"{name}.yaml")
    text = template.text(path, settings)
    if arguments.json:
        print_json([{"file": None if path == "-" else path, **asdict(template), "text": text}])
    if path == "-":
        if not arguments.json:
            print(text, end="")
        return 0
    if os.path.exists(path) and not arguments.force:
        raise UsageError("exists already", place=path, remedy="name another file with -o, or replace it with --force")
    write_output(path, text, "-o")
    prepare_launch(read_launch_file(path))  # what is written can be launched
    if not arguments.json:
        count = counted(len(template.parameters), "argument")
        print_answer(f"wrote {path}: {template.kernel} with {count}\n\n{text.rstrip()}", line(["predict", path], "how fast it is"))
    return 0
