"""`warpsight model`: a prediction from an interval profile, wherever that was made."""

from __future__ import annotations

import argparse

from warpsight.cli import options
from warpsight.cli.predict import show

_EXAMPLES = """\
examples:
  warpsight model --profile saxpy.json --gpu mdm-pascal --model mdm,gpumech
  warpsight profile launch.yaml -o - | warpsight model --profile - --gpu my-gpu.yaml --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EXAMPLES
    parser.add_argument("--profile", metavar="FILE|-", required=True,
                        help="interval profile JSON, as `warpsight profile -o` writes it")
    options.add_gpu(parser)
    options.add_models(parser)
    options.add_json(parser)
    parser.add_argument("--csv", action="store_true", help="print one CSV row per prediction")


def run(arguments: argparse.Namespace) -> int:
    """Read the profile, predict and print."""
    from warpsight.explore.pipeline import predict_profile
    from warpsight.explore.profile_file import read
    from warpsight.gpu.loader import load_gpu

    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    predictions = predict_profile(read(arguments.profile), gpu, options.model_names(arguments), origin=arguments.profile)
    show([prediction.to_json() for prediction in predictions], arguments)
    return 0
