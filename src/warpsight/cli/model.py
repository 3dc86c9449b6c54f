"""`warpsight model`: a prediction from an interval profile of any origin, or from MWP-CWP's parameters."""

from __future__ import annotations

import argparse

from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.cli.output import print_result, terminal_style
from warpsight.cli.predict import show
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import predict_profile
from warpsight.pipeline.files import read_profile_file
from warpsight.pipeline.mwp_parameters import RESULTS, evaluate_parameters
from warpsight.reports.next_step import line
from warpsight.reports.prediction import parameters_text

EXAMPLES = """\
examples:
  warpsight model --profile saxpy.json --gpu mdm-pascal --model mdm,gpumech
  warpsight profile launch.yaml -o - | warpsight model --profile - --gpu my-gpu.yaml --json
  warpsight model --model mwp-cwp --params matrixmul.yaml
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--profile", metavar="FILE|-", help="interval profile JSON, as `warpsight profile -o` writes it")
    parser.add_argument("--params", metavar="FILE", help="instead of a profile: the parameters of Table 1 of the MWP-CWP paper "
                        "(YAML or JSON), for --model mwp-cwp; no GPU is needed")
    options.add_gpu(parser)
    options.add_models(parser)
    options.add_json(parser)
    parser.add_argument("--csv", action="store_true", help="print one CSV row per prediction")


def run(arguments: argparse.Namespace) -> int:
    """Read the profile, predict and print."""
    if arguments.params is not None:
        return _from_parameters(arguments)
    if arguments.profile is None:
        raise UsageError("is missing", place="--profile", remedy="give an interval profile, or --params with --model mwp-cwp")
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    profile = read_profile_file(arguments.profile)
    predictions = predict_profile(profile, gpu, options.model_names(arguments), origin=arguments.profile)
    show([prediction.to_json() for prediction in predictions], arguments)
    return 0


def _from_parameters(arguments: argparse.Namespace) -> int:
    """MWP-CWP from its paper's parameters."""
    unused = ((arguments.profile, "--profile"), (arguments.gpu, "--gpu"), (arguments.overrides, "--set"), (arguments.csv, "--csv"))
    for value, option in unused:
        if value:
            raise UsageError("cannot be combined with --params", place=option, remedy="leave it out; the file has every value")
    if options.model_names(arguments) != ("mwp-cwp",):
        raise UsageError("is for the model mwp-cwp only", place="--params", remedy="add --model mwp-cwp, and no other model")
    document = evaluate_parameters(arguments.params)
    following = line(["models", "show", "mwp-cwp"], "the model's assumptions")
    return print_result(arguments, document, lambda: parameters_text(document, RESULTS, terminal_style()), following)
