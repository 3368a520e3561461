"""Command line: ``bayescore fit``, ``update``, ``predict``, ``build``, ``sample``, ``certify``, ``compare``, ``demo``.

Exit status 0 on success, 2 with one line on bad input, 130 on Ctrl-C; ``--verbose`` shows the traceback.
"""

from __future__ import annotations  # rich and NumPy are imported where Ctrl-C is heard

import argparse
import logging
import re
import shlex
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayescore.parser import parse_group_prior, parse_priors, parser

if TYPE_CHECKING:
    from rich.console import Console

ROLES = ("label", "weights", "offset", "trials", "exposure", "groups", "missing")  # as the verbs call them


def check_output(output: Path, *inputs: Path | str, option: str = "--output") -> None:
    """Raise unless `output` can be written and is not one of `inputs`, which it would replace."""
    from bayescore.files import check_output_path

    check_output_path(output, option)
    if output.exists():
        for path in inputs:
            if isinstance(path, Path) and path.exists() and output.samefile(path):
                raise ValueError(f"{option}={str(output)!r} is also an input; give another name")


def _roles(args: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(args, name) for name in ROLES}


def build(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore build``."""
    from bayescore.coresets.build import build_coreset

    check_output(args.output, args.rows)
    core = build_coreset(
        args.rows,
        **_roles(args),
        positive=args.positive,
        formula=args.formula,
        family=args.family,
        method=args.method,
        size=args.size,
        **({} if args.prior is None else {"prior": parse_priors(args.prior)}),
        **({} if args.tolerance is None else {"tolerance": args.tolerance}),
        intercept=args.intercept,
        standardize=args.standardize,
        random_state=args.seed,
        progressbar=not args.quiet,
    )
    core.to_parquet(args.output)
    console.print(repr(core))
    console.print(f"wrote {args.output}")


def sample(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore sample``."""
    from bayescore.data.coreset_file import read_coreset
    from bayescore.diagnostics.health import health
    from bayescore.samplers.files import check_whole, write_posterior
    from bayescore.samplers.inference_data import read_posterior
    from bayescore.samplers.sample import sample as draw

    check_output(args.output, args.core)
    prior, beside = parse_priors(args.prior), parse_group_prior(args.group_prior)
    core = read_coreset(args.core)
    settings = {name: getattr(args, name) for name in ("sampler", "draws", "tune", "chains")} | beside
    idata = draw(core, args.family, prior, random_seed=args.seed, progressbar=not args.quiet, **settings)
    check_whole(idata, args.chains, args.draws)
    write_posterior(idata, args.output)
    state = health(read_posterior(idata, "posterior"))
    console.print(
        f"R-hat at most {state.rhat:.3f}, effective sample size at least {state.ess_bulk:.0f}", highlight=False
    )
    if state.text:
        console.print(state.text)
    console.print(f"wrote {args.output}")


def compare(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore compare``."""
    from bayescore.diagnostics.compare import compare as against
    from bayescore.diagnostics.report import write_report
    from bayescore.samplers.files import load_posterior

    check_output(args.output, args.reference, *args.posteriors)
    names = [path.stem for path in args.posteriors]
    names = names if len(set(names)) == len(names) else [str(path) for path in args.posteriors]
    reference = load_posterior(args.reference)
    candidates = {name: load_posterior(path) for name, path in zip(names, args.posteriors, strict=True)}
    result = against(candidates, reference)
    words = ["bayescore", "compare", *map(str, args.posteriors), "--reference", str(args.reference)]
    write_report(result, args.output, command=shlex.join([*words, "-o", str(args.output)]))
    show(result, console)
    console.print(f"wrote {args.output}")


def certify(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore certify``."""
    from rich.table import Table

    from bayescore.coresets.build import all_rows
    from bayescore.data.coreset_file import read_coreset
    from bayescore.data.sources.stores import without_keys
    from bayescore.diagnostics.certificate import certify as check
    from bayescore.diagnostics.formatting import number
    from bayescore.diagnostics.report import write_certificate
    from bayescore.samplers.files import load_posterior, write_posterior

    for output, option in ((args.output, "--output"), (args.corrected, "--corrected")):
        if output:
            inputs = (args.posterior, args.core, args.rows, *([args.test] if args.test else []))
            check_output(output, *inputs, option=option)
    core = read_coreset(args.core)
    idata = load_posterior(args.posterior)
    label = core.label if args.label is None else args.label
    test = None
    if args.test:
        if not args.output:
            raise ValueError(f"--test={str(args.test)!r} is for the report; give its file by --output too")
        own = {"label": label, "design": core.design, "offset": args.offset, "exposure": args.exposure}
        test = all_rows(args.test, family=core.family, **own, progressbar=not args.quiet)
    found = check(idata, core, args.rows, **{**_roles(args), "label": label}, progressbar=not args.quiet)
    table = Table("feature", box=None)
    for heading in ("mean", "sd", "corrected mean", "corrected sd", "error of mean (sd)"):
        table.add_column(heading, justify="right")
    for feature, row in found.coordinates.iterrows():
        figures = [number(row[name]) for name in ("mean", "sd", "corrected_mean", "corrected_sd")]
        error = f"{row['mean_error_sd']:.3f} ± {row['mean_error_sd_mcse']:.3f}"
        table.add_row(_printable(str(feature)), *figures, error)
    console.print(table)
    console.print(repr(found))
    if args.output:
        words = ["bayescore", "certify", str(args.posterior), str(args.core), without_keys(str(args.rows))]
        words += ["--label", label]
        for name, column in ((name, getattr(args, name)) for name in ROLES if name not in ("label", "groups")):
            words += [f"--{name}", column] if column and column != "raise" else []
        words += [word for column in args.groups or () for word in ("--groups", column)]
        words += ["--test", str(args.test)] if args.test else []
        command = shlex.join([*words, "-o", str(args.output)])
        write_certificate(found, idata, core, args.output, test=test, command=command)
        console.print(f"wrote {args.output}")
    if args.corrected:
        if found.idata is None:
            raise ValueError(
                f"--corrected={str(args.corrected)!r} was not written: the certificate is {str(found.level)!r}, and no "
                "corrected draws can be trusted; the text above says what to change"
            )
        write_posterior(found.idata, args.corrected)
        console.print(f"wrote {args.corrected}")


def demo(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore demo``."""
    from bayescore.demo import run_demo

    found = run_demo(args.rows, args.output, args.seed, not args.quiet, console)
    console.print("\n".join(map(_printable, repr(found).splitlines())))
    console.print(f"wrote {args.output}: report.html, story.png, coefficients.png, model")


def show(result: Any, console: Console) -> None:
    """Print the verdicts of a comparison and its main figures."""
    from rich.table import Table

    from bayescore.diagnostics.formatting import number

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))  # fits a terminal of 80
    table.add_column("posterior", no_wrap=True)
    for heading, width in (("whitened MMD", 9), ("mean error (sd)", 6), ("sd error (%)", 6)):
        table.add_column(heading, justify="right", min_width=width)
    table.add_column("verdict", no_wrap=True)
    for name, row in result.metrics.iterrows():
        verdict = result.verdicts.get(name)
        figures = (row["mmd_whitened"], row["mean_error_sd"], 100.0 * row["sd_error"])
        table.add_row(str(name), *map(number, figures), verdict.level if verdict else "")
    console.print(table)


def fit(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore fit``."""
    from bayescore.fitting import fit as fitted
    from bayescore.fitting.files import check_folder

    check_folder(args.output, "--output")
    if args.formula is None and args.label is None:
        raise ValueError("the formula is missing: give label and terms, 'clicked ~ age', after the rows, or --label")
    prior = None if args.prior is None else parse_priors(args.prior)
    settings = {"prior": prior, **parse_group_prior(args.group_prior), **_roles(args)}
    settings |= {name: getattr(args, name) for name in ("positive", "max_seconds", "family", "cluster", "strata")}
    rows = [own for own in (args.formula, args.rows) if own is not None]
    _saved(fitted(*rows, random_state=args.seed, progressbar=not args.quiet, **settings), args.output, console)


def update(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore update``."""
    from bayescore.fitting import files, read_fit

    output = files.check_folder(args.output or args.model, "--output")
    if not args.rows and args.data is None:
        raise ValueError("give files of new rows, or --data with one of all rows")
    if gone := [path for path in args.rows if isinstance(path, Path) and not path.exists()]:
        raise FileNotFoundError(f"{gone[0]} does not exist; give files of new rows")
    found, settings = read_fit(args.model), {"missing": args.missing, "progressbar": not args.quiet}
    for k, path in enumerate(args.rows):
        if k:  # an error of a later file costs that one
            found.save(output)
            console.print(f"{args.rows[k - 1]}: {found.level}, {found.coreset.n_total:,} rows so far")
        try:
            found = found.update(path, data=args.data if k == len(args.rows) - 1 else None, **settings)
        except ValueError as error:
            raise ValueError(f"{path}: {error}{f'; {output} has the files before it' if k else ''}") from error
    _saved(found if args.rows else found.update(data=args.data, **settings), output, console)


def predict(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore predict``."""
    from bayescore.fitting.predicted_file import check_files, write_predictions

    check_output(args.output, args.rows)
    check_files(args.rows, args.output)
    options = {"new_groups": args.new_groups, "prob": args.prob, "random_state": args.seed}
    table = write_predictions(args.model, args.rows, args.output, **options)
    console.print(f"{len(table):,} predictions by draws that are {table.columns.name}\nwrote {args.output}")


def _saved(found: Any, folder: Path, console: Console) -> None:
    found.save(folder)
    console.print("\n".join([*map(_printable, repr(found).splitlines()), f"wrote {folder}"]))


COMMANDS = {own.__name__: own for own in (fit, update, predict, build, sample, certify, compare, demo)}


def _printable(text: str) -> str:
    """Return text with control characters, as names of columns may have them, written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _as_options(text: str, names: Iterable[str]) -> str:
    """Return a message with arguments of functions, such as ``missing='drop'``, as options of the command."""
    called = {name: name for name in names}
    if "seed" in called:
        called["random_state"] = "seed"
        text = text.replace(" or a numpy Generator", "")

    def option(found: re.Match[str]) -> str:
        value = "" if found["value"] in (None, "True") else f" {found['value']}"
        return f"--{called[found['name']].replace('_', '-')}{value}"

    value = r"True|-?\d+(?:\.\d+)?|'[^']*'|\"[^\"]*\""
    return re.sub(rf"(?<![-\w])(?P<name>{'|'.join(called)})=(?P<value>{value})?(?![\w(])", option, text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    try:
        return _main(argv)
    except KeyboardInterrupt:
        print("bayescore: interrupted; unfinished files were removed", file=sys.stderr)
        return 130


def _main(argv: Sequence[str] | None) -> int:
    from rich.console import Console

    args = parser().parse_args(argv)
    # users' names and paths are no markup, and a message is one line
    plain: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}
    console, errors = Console(**plain), Console(stderr=True, **plain)
    if args.quiet:
        logging.getLogger("pymc").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        # by sys.stderr, which a progress display shows above its bars
        warnings.showwarning = lambda message, *_, **__: print(
            f"bayescore: warning: {_printable(str(message))}", file=sys.stderr
        )
        try:
            COMMANDS[args.command](args, console)
        except Exception as error:
            if args.verbose:
                raise
            if not isinstance(error, ValueError | TypeError | OSError | ImportError | RuntimeError):
                raise
            text = _as_options(_printable(str(error) or type(error).__name__), vars(args))
            errors.print(f"bayescore: error: {text}")
            return 2
    return 0
