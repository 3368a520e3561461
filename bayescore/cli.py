"""Command line: ``bayescore build``, ``sample``, ``certify``, ``compare`` and ``demo``.

Exit status 0 on success, 2 with one line on bad input, 130 on Ctrl-C; ``--verbose`` shows the traceback.
"""

from __future__ import annotations  # rich and NumPy are imported where Ctrl-C is heard

import argparse
import logging
import re
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from rich.console import Console

_PRIOR = re.compile(r"\s*([a-z_]+)\s*\(([^()]*)\)\s*")


def parse_prior(text: str) -> Any:
    """Return the prior that `text` names, such as "normal(0, 4)" or "cauchy(0, 2.5)"."""
    from bayescore.models.priors import PRIORS

    kinds = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): kind for name, kind in PRIORS.items()}
    match = _PRIOR.fullmatch(text.lower())
    if match is None or match[1] not in kinds:
        raise ValueError(f"--prior {text!r} is unknown; write one of {', '.join(kinds)} with numbers: normal(0,4)")
    try:
        numbers = [float(part) for part in match[2].split(",") if part.strip()]
    except ValueError as error:
        raise ValueError(f"--prior {text!r}: {error}; write normal(0,4)") from None
    try:
        return kinds[match[1]](*numbers)
    except TypeError:
        raise ValueError(f"--prior {text!r} has the wrong number of parameters") from None


def parse_priors(text: str) -> Any:
    """Return what `parse_prior` does, or by name, "Intercept=student_t(3,0,2.5); *=normal(0,1)", a dict of it."""
    if "=" not in text:
        return parse_prior(text)
    named = [part.rpartition("=") for part in text.split(";") if part.strip()]
    return {name.strip(): parse_prior(prior) for name, _, prior in named}


def check_output(output: Path, *inputs: Path | str, option: str = "--output") -> None:
    """Raise unless `output` can be written and is none of `inputs`, which it would replace."""
    from bayescore.files import check_output_path

    check_output_path(output, option)
    if output.exists():
        for path in inputs:
            if isinstance(path, Path) and path.exists() and output.samefile(path):
                raise ValueError(f"{option}={str(output)!r} is also an input; give another name")


def build(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore build``."""
    from bayescore.coresets.build import build_coreset

    check_output(args.output, args.rows)
    core = build_coreset(
        args.rows,
        label=args.label,
        weights=args.weights,
        offset=args.offset,
        trials=args.trials,
        positive=args.positive,
        missing=args.missing,
        groups=args.groups,
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
    prior = parse_priors(args.prior)
    core = read_coreset(args.core)
    idata = draw(
        core,
        args.family,
        prior,
        sampler=args.sampler,
        draws=args.draws,
        tune=args.tune,
        chains=args.chains,
        random_seed=args.seed,
        progressbar=not args.quiet,
    )
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
    from bayescore.diagnostics import compare as against
    from bayescore.diagnostics.report import write_report
    from bayescore.samplers.files import load_posterior

    check_output(args.output, args.reference, *args.posteriors)
    stems = [path.stem for path in args.posteriors]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in args.posteriors]
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
        test = all_rows(args.test, label=label, design=core.design, offset=args.offset, progressbar=not args.quiet)
    beside = {"weights": args.weights, "offset": args.offset, "trials": args.trials, "missing": args.missing}
    found = check(idata, core, args.rows, label=label, groups=args.groups, **beside, progressbar=not args.quiet)
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
        for name, column in beside.items():
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
                "corrected draws can be trusted; draw more, or take a larger coreset"
            )
        write_posterior(found.idata, args.corrected)
        console.print(f"wrote {args.corrected}")


def demo(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore demo``."""
    from bayescore.demo import run_demo

    result, certificates = run_demo(args.rows, args.output, args.seed, not args.quiet, console)
    show(result, console, certificates)
    console.print(f"wrote {args.output / 'report.html'}")


def show(result: Any, console: Console, certificates: Mapping[str, Any] | None = None) -> None:
    """Print the verdicts of a comparison, the certificates' beside them, and its main figures."""
    from rich.table import Table

    from bayescore.diagnostics.agreement import beside_reference
    from bayescore.diagnostics.formatting import number

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))  # fits a terminal of 80
    table.add_column("posterior", no_wrap=True)
    for heading, width in (("whitened MMD", 9), ("mean error (sd)", 6), ("sd error (%)", 6)):
        table.add_column(heading, justify="right", min_width=width)
    table.add_column("verdict", no_wrap=True)
    if certificates:
        table.add_column("certificate", no_wrap=True)
    for name, row in result.metrics.iterrows():
        verdict = result.verdicts.get(name)
        figures = (row["mmd_whitened"], row["mean_error_sd"], 100.0 * row["sd_error"])
        levels = [verdict.level if verdict else ""]
        if certificates:
            levels.append(beside_reference(certificates[name], verdict).level if name in certificates else "")
        table.add_row(str(name), *map(number, figures), *levels)
    console.print(table)


class _Methods:
    """The methods' names; a class, because to know them takes a second, which most commands do without."""

    def __iter__(self) -> Iterator[str]:
        from bayescore.coresets.methods import METHODS

        return iter(METHODS)

    def __contains__(self, name: object) -> bool:
        return name in list(self)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as all others of the command line."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 and the message."""
        self.exit(2, f"bayescore: error: {message}; see {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    from bayescore.models.families import FAMILIES
    from bayescore.samplers.registry import AUTO, SAMPLERS

    common = Parser(add_help=False)
    common.add_argument("--quiet", action="store_true", help="no progress bars")
    common.add_argument("--verbose", action="store_true", help="show the traceback of an error")
    seeded = Parser(add_help=False)
    seeded.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    main = Parser(prog="bayescore", description="Bayesian logistic and probit regression on coresets of large data.")
    main.add_argument("--version", action="version", version=f"bayescore {version('bayescore')}")
    commands = main.add_subparsers(required=True, metavar="COMMAND")

    families = ", ".join(FAMILIES)
    p = commands.add_parser("demo", parents=[common, seeded], help="the main job on built-in data, with a report")
    p.add_argument("--rows", type=int, default=1_000_000, help="rows of Binary10 (default: %(default)s)")
    p.add_argument("-o", "--output", type=Path, default=Path("demo"), help="folder to write (default: %(default)s)")
    p.set_defaults(run=demo)

    p = commands.add_parser("build", parents=[common, seeded], help="shrink a file of rows to a coreset")
    p.add_argument("rows", type=_rows, help="Parquet file or folder of them, local or s3://..., or a CSV file")
    p.add_argument("--label", help="column of the labels; a formula's left side names it too")
    p.add_argument("--weights", help="column of the weights")
    p.add_argument("--offset", help="column of known parts of the linear predictor, such as log exposures")
    p.add_argument("--groups", action="append", metavar="COLUMN", help="column of groups; again for another factor")
    _add_counts(p)
    p.add_argument("--positive", help="label that is +1 (default: the second in sorted order)")
    p.add_argument("--formula", help="label and terms, such as 'clicked ~ age * device + log(price)'")
    p.add_argument("--family", default="logistic", help=f"{families} (default: %(default)s)")
    p.add_argument(
        "--method", default="auto", choices=_Methods(), metavar="METHOD", help="%(choices)s (default: %(default)s)"
    )
    p.add_argument("--size", type=_size, default="auto", help="rows to draw, or auto (default: %(default)s)")
    p.add_argument("--tolerance", type=float, help="error that calibrated --size auto aims at, in sds (default: 0.05)")
    p.add_argument("--prior", help="prior, or by name, whose mode calibrated seeks (default: normal(0,4))")
    p.add_argument("--intercept", action="store_true", help="add a column of ones")
    p.add_argument("--standardize", action="store_true", help="center and scale the columns")
    p.add_argument("-o", "--output", type=Path, required=True, help="Parquet file to write")
    p.set_defaults(run=build)

    p = commands.add_parser("sample", parents=[common, seeded], help="sample the posterior of a coreset")
    p.add_argument("core", type=Path, help="coreset that build wrote")
    p.add_argument("--sampler", default=AUTO, help=f"{', '.join((AUTO, *SAMPLERS))} (default: %(default)s)")
    p.add_argument("--family", help=f"{families} (default: the coreset's own)")
    p.add_argument(
        "--prior",
        default="normal(0,4)",
        help="prior, or by name 'age=normal(0,1);*=cauchy(0,2)' (default: %(default)s)",
    )
    p.add_argument("--draws", type=int, default=1000, help="draws of each chain (default: %(default)s)")
    p.add_argument("--tune", type=int, default=1000, help="draws of warm-up (default: %(default)s)")
    p.add_argument("--chains", type=int, default=4, help="chains (default: %(default)s)")
    p.add_argument("-o", "--output", type=Path, required=True, help="netCDF file to write")
    p.set_defaults(run=sample)

    p = commands.add_parser("certify", parents=[common], help="check a coreset's posterior against the full data")
    p.add_argument("posterior", type=Path, help="posterior that sample wrote")
    p.add_argument("core", type=Path, help="coreset that it was sampled from")
    p.add_argument("rows", type=_rows, help="file or folder that the coreset was built from")
    p.add_argument("--label", help="column of the labels (default: the coreset's)")
    p.add_argument("--weights", help="column of the weights")
    p.add_argument("--offset", help="column of the offsets (default: the coreset's)")
    p.add_argument(
        "--groups", action="append", metavar="COLUMN", help="columns of groups, in the coreset's order (default: its)"
    )
    _add_counts(p)
    p.add_argument("-o", "--output", type=Path, help="HTML file to write")
    p.add_argument("--test", type=Path, help="test rows on which the report shows whether the model fits")
    p.add_argument("--corrected", type=Path, help="netCDF file for the corrected draws")
    p.set_defaults(run=certify)

    p = commands.add_parser("compare", parents=[common], help="compare posteriors, write an HTML report")
    p.add_argument("posteriors", type=Path, nargs="+", help="posteriors that sample wrote")
    p.add_argument("--reference", type=Path, required=True, help="posterior to compare with")
    p.add_argument("-o", "--output", type=Path, required=True, help="HTML file to write")
    p.set_defaults(run=compare)
    return main


def _rows(text: str) -> Path | str:
    return text if "://" in text else Path(text)


def _add_counts(p: argparse.ArgumentParser) -> None:
    p.add_argument("--trials", help="column of binomial trials; the label column then has successes")
    p.add_argument(
        "--missing", default="raise", choices=("raise", "drop"), help="rows that miss something (default: %(default)s)"
    )


def _size(text: str) -> int | str:
    try:
        return text if text == "auto" else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor auto") from None


def _printable(text: str) -> str:
    """Return text with control characters, as names of columns may have them, written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _as_options(text: str, names: Iterable[str]) -> str:
    """Return a message with arguments of functions, such as ``missing='drop'``, as options of the command."""

    def option(found: re.Match[str]) -> str:
        value = "" if found["value"] in (None, "True") else f" {found['value']}"
        return f"--{found['name'].replace('_', '-')}{value}"

    known = "|".join(names)
    return re.sub(rf"(?<![-\w])(?P<name>{known})=(?P<value>True|\d+|'[^']*'|\"[^\"]*\")?(?![\w(])", option, text)


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
    console = Console(markup=False, highlight=False, soft_wrap=True)
    errors = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
    if args.quiet:
        logging.getLogger("pymc").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: errors.print(f"bayescore: warning: {_printable(str(message))}")
        try:
            args.run(args, console)
        except Exception as error:
            if args.verbose:
                raise
            if not isinstance(error, ValueError | TypeError | OSError | ImportError | RuntimeError):
                raise
            text = _as_options(_printable(str(error) or type(error).__name__), vars(args))
            errors.print(f"bayescore: error: {text}")
            return 2
    return 0
