"""Command line: ``bayescore fit`` and what else `COMMANDS` has, each with an example in its help.

Exit status 0 on success, 2 with one line on bad input, 130 on Ctrl-C; ``--verbose`` shows the traceback.

What the command line takes: commands, their options, and the text of priors.
"""

from __future__ import annotations

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
    from bayescore.priors.prior import PRIORS

    return _parsed(text, "--prior", PRIORS, "normal(0,4)")


def parse_group_prior(text: str | None) -> Any:
    """Return the prior of sds of groups' effects that `text` names, such as "half_normal(1)", as an option of verbs."""
    from bayescore.priors.groups import GROUP_PRIORS

    return {} if text is None else {"group_prior": _parsed(text, "--group-prior", GROUP_PRIORS, "half_normal(1)")}


def _parsed(text: str, option: str, known: Mapping[str, Any], example: str) -> Any:
    kinds = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): kind for name, kind in known.items()}
    match = _PRIOR.fullmatch(text.lower())
    if match is None or match[1] not in kinds:
        raise ValueError(f"{option} {text!r} is unknown; write one of {', '.join(kinds)} with numbers: {example}")
    try:
        numbers = [float(part) for part in match[2].split(",") if part.strip()]
    except ValueError as error:
        raise ValueError(f"{option} {text!r}: {error}; write {example}") from None
    try:
        return kinds[match[1]](*numbers)
    except TypeError:
        raise ValueError(f"{option} {text!r} has the wrong number of parameters") from None


def parse_priors(text: str) -> Any:
    """Return what `parse_prior` does, or by name, "Intercept=student_t(3,0,2.5); *=normal(0,1)", a dict of it."""
    if "=" not in text:
        return parse_prior(text)
    named = [part.rpartition("=") for part in text.split(";") if part.strip()]
    names = [name.strip() for name, _, _ in named]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"--prior has two priors of {twice[0]!r}; give one")
    return {name: parse_prior(prior) for name, (_, _, prior) in zip(names, named, strict=True)}


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
    from bayescore.families.family import known_names

    common = Parser(add_help=False)
    common.add_argument("--quiet", action="store_true", help="no progress bars")
    common.add_argument("--verbose", action="store_true", help="show the traceback of an error")
    seeded = Parser(add_help=False)
    seeded.add_argument("--seed", "--random-state", type=int, default=0, help="random seed (default: %(default)s)")
    main = Parser(
        prog="bayescore", description="Bayesian regression of labels, counts and numbers, on coresets of large data."
    )
    main.add_argument("--version", action="version", version=f"bayescore {version('bayescore')}")
    commands = main.add_subparsers(required=True, metavar="COMMAND", dest="command")

    families = ", ".join(known_names())
    p = commands.add_parser("demo", parents=[common, seeded], help="the main job on built-in data, with a report")
    p.add_argument("--rows", type=int, default=1_000_000, help="rows to make (default: %(default)s)")
    p.add_argument("-o", "--output", type=Path, default=Path("demo"), help="folder to write (default: %(default)s)")

    p = commands.add_parser("fit", parents=[common, seeded], help="a file of rows to certified draws")
    p.add_argument("rows", type=_rows, help="Parquet file or folder of them, local or s3://..., or a CSV file")
    p.add_argument("formula", nargs="?", help="label and terms, such as 'clicked ~ age + (1 | county)'; or --label")
    _add_roles(p)
    p.add_argument("--cluster", help="column of clusters of dependent rows, for a cluster-robust spread")
    p.add_argument("--strata", help="column of the strata that the clusters were drawn from")
    lonely = "what a stratum of one cluster adds to the spread, or raise: an error (default: %(default)s)"
    p.add_argument("--lonely", default="raise", choices=("raise", "adjust", "average"), help=lonely)
    p.add_argument("--domain", help="column of True and False: fit these rows of a survey; all clusters count")
    p.add_argument("--family", default="logistic", help=f"{families}, sratio[(link)] (default: %(default)s)")
    p.add_argument("--prior", help="prior in units of the columns, or by name (default: by their sds)")
    _add_group_prior(p)
    _add_sampling(p)
    p.add_argument("--method", default="auto", help="method of the coreset, as in build (default: %(default)s)")
    p.add_argument("--size", type=_size, default="auto", help="rows of the coreset, or auto (default: %(default)s)")
    p.add_argument("--max-seconds", type=float, default=600.0, help="limit of a further try (default: %(default)s)")
    p.add_argument("-o", "--output", type=Path, required=True, help="folder to write")

    p = commands.add_parser("update", parents=[common], help="more rows for a fit, without reading the old ones")
    p.add_argument("model", type=Path, help="folder that fit wrote")
    several = "files of new rows, with the columns of the old: each updates the fit in turn"
    p.add_argument("rows", type=_rows, nargs="*", help=several)
    p.add_argument("--data", type=_rows, help="file of all rows, old and new, to certify by them")
    _add_missing(p)
    p.add_argument("-o", "--output", type=Path, help="folder to write (default: the model's)")

    p = commands.add_parser("predict", parents=[common, seeded], help="probabilities, rates or means of new rows")
    p.add_argument("model", type=Path, help="folder that fit wrote")
    p.add_argument("rows", type=Path, help="Parquet or CSV file of new rows")
    new = "effects of new groups are drawn, or averaged over (default: %(default)s)"
    p.add_argument("--new-groups", default="sample", choices=("sample", "average"), help=new)
    p.add_argument("--exposure", metavar="COLUMN", help="column of exposures: expected counts, in place of rates")
    p.add_argument("--prob", type=float, default=0.95, help="probability of the intervals (default: %(default)s)")
    written = ".parquet or .csv file to write: columns of the rows, then predictions"
    p.add_argument("-o", "--output", type=Path, required=True, help=written)

    p = commands.add_parser("summary", parents=[common], help="means and intervals of a fit")
    p.add_argument("model", type=Path, help="folder that fit wrote")
    scales = "coef, odds, rate, ratio, or response, which reads the rows (default: %(default)s)"
    p.add_argument("--scale", default="coef", choices=("coef", "odds", "rate", "ratio", "response"), help=scales)
    p.add_argument("--prob", type=float, default=0.95, help="probability of the intervals (default: %(default)s)")
    p.add_argument("--data", type=_rows, help="file of the rows that the fit was made of, for --scale response")

    p = commands.add_parser("report", parents=[common], help="an HTML page of a fit")
    p.add_argument("model", type=Path, help="folder that fit wrote")
    p.add_argument("--data", type=_rows, help="file of the rows that the fit was made of, for the check of the model")
    p.add_argument("-o", "--output", type=Path, required=True, help="HTML file to write")

    p = commands.add_parser("build", parents=[common, seeded], help="shrink a file of rows to a coreset")
    p.add_argument("rows", type=_rows, help="Parquet file or folder of them, local or s3://..., or a CSV file")
    _add_roles(p)
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

    p = commands.add_parser("sample", parents=[common, seeded], help="sample the posterior of a coreset")
    p.add_argument("core", type=Path, help="coreset that build wrote")
    _add_sampling(p)
    p.add_argument("--family", help=f"{families} (default: the coreset's own)")
    prior = "prior, or by name 'age=normal(0,1);*=cauchy(0,2)' (default: %(default)s)"
    p.add_argument("--prior", default="normal(0,4)", help=prior)
    _add_group_prior(p)
    p.add_argument("-o", "--output", type=Path, required=True, help="netCDF file to write")

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

    p = commands.add_parser("compare", parents=[common], help="compare posteriors, write an HTML report")
    p.add_argument("posteriors", type=Path, nargs="+", help="posteriors that sample wrote")
    p.add_argument("--reference", type=Path, required=True, help="posterior to compare with")
    p.add_argument("-o", "--output", type=Path, required=True, help="HTML file to write")
    for name, command in commands.choices.items():
        command.epilog = f"example: bayescore {name} {EXAMPLES[name]}".replace("%", "%%")
    return main


EXAMPLES = {
    "demo": "--rows 100000 -o demo",
    "fit": "rows.parquet 'clicked ~ age + (1 | county)' -o model",
    "update": "model may.parquet",
    "predict": "model new.parquet -o predicted.parquet",
    "summary": "model --scale odds --prob 0.9",
    "report": "model --data rows.parquet -o page.html",
    "build": "rows.parquet --formula 'clicked ~ age' -o core.parquet",
    "sample": "core.parquet -o posterior.nc",
    "certify": "posterior.nc core.parquet rows.parquet -o certificate.html",
    "compare": "coreset.nc --reference all.nc -o comparison.html",
}


def _rows(text: str) -> Path | str:
    return text if "://" in text else Path(text)


def _add_roles(p: argparse.ArgumentParser) -> None:
    p.add_argument("--label", help="column of the labels; a formula's left side names it too")
    p.add_argument("--weights", help="column of the weights")
    p.add_argument("--offset", help="column of known parts of the linear predictor, or 'log(years)' of a column")
    p.add_argument("--groups", action="append", metavar="COLUMN", help="column of groups; again for another factor")
    _add_counts(p)
    p.add_argument("--positive", help="label that is +1 (default: the second in sorted order)")


def _add_sampling(p: argparse.ArgumentParser) -> None:
    from bayescore.samplers.sample import AUTO, SAMPLERS

    p.add_argument("--sampler", default=AUTO, help=f"{', '.join((AUTO, *SAMPLERS))} (default: %(default)s)")
    p.add_argument("--draws", type=int, default=1000, help="draws of each chain (default: %(default)s)")
    p.add_argument("--tune", type=int, default=1000, help="draws of warm-up (default: %(default)s)")
    p.add_argument("--chains", type=int, default=4, help="chains (default: %(default)s)")


def _add_group_prior(p: argparse.ArgumentParser) -> None:
    p.add_argument("--group-prior", help="prior of sds of groups' effects (default: half_student_t(3,2.5))")


def _add_counts(p: argparse.ArgumentParser) -> None:
    p.add_argument("--trials", help="column of binomial trials; the label column then has successes")
    p.add_argument("--exposure", help="column of exposures of counts (--family poisson), or of times (weibull)")
    _add_missing(p)


def _add_missing(p: argparse.ArgumentParser) -> None:
    left_out = "rows that miss something (default: %(default)s)"
    p.add_argument("--missing", default="raise", choices=("raise", "drop"), help=left_out)


def _size(text: str) -> int | str:
    try:
        return text if text == "auto" else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor auto") from None


def check_output(output: Path, *inputs: Path | str, option: str = "--output") -> None:
    """Raise unless `output` can be written and is not one of `inputs`, which it would replace."""
    from bayescore.files import check_output_path

    check_output_path(output, option)
    if output.exists():
        for path in inputs:
            if isinstance(path, Path) and path.exists() and output.samefile(path):
                raise ValueError(f"{option}={str(output)!r} is also an input; give another name")


def _roles(args: argparse.Namespace) -> dict[str, Any]:
    from bayescore.data.roles import ROLES

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
    core.save(args.output)
    console.print(repr(core))
    console.print(f"wrote {args.output}")


def sample(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore sample``."""
    from bayescore.data.coreset import read_coreset
    from bayescore.diagnostics.results import health
    from bayescore.samplers.posterior import raise_if_interrupted, read_posterior, write_posterior
    from bayescore.samplers.sample import sample as draw

    check_output(args.output, args.core)
    prior, beside = parse_priors(args.prior), parse_group_prior(args.group_prior)
    core = read_coreset(args.core)
    settings = {name: getattr(args, name) for name in ("sampler", "draws", "tune", "chains")} | beside
    idata = draw(core, args.family, prior, random_seed=args.seed, progressbar=not args.quiet, **settings)
    raise_if_interrupted(idata, args.chains, args.draws)
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
    from bayescore.report.compare import compare_posteriors
    from bayescore.report.pages import write_report
    from bayescore.samplers.posterior import load_posterior

    check_output(args.output, args.reference, *args.posteriors)
    names = [path.stem for path in args.posteriors]
    names = names if len(set(names)) == len(names) else [str(path) for path in args.posteriors]
    reference = load_posterior(args.reference)
    candidates = {name: load_posterior(path) for name, path in zip(names, args.posteriors, strict=True)}
    result = compare_posteriors(candidates, reference)
    words = ["bayescore", "compare", *map(str, args.posteriors), "--reference", str(args.reference)]
    write_report(result, args.output, command=shlex.join([*words, "-o", str(args.output)]))
    show(result, console)
    console.print(f"wrote {args.output}")


def certify(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore certify``."""
    from rich.table import Table

    from bayescore.coresets.build import all_rows
    from bayescore.data.coreset import read_coreset
    from bayescore.data.parquet import without_keys
    from bayescore.report.certify import certify as check
    from bayescore.report.pages import write_certificate
    from bayescore.samplers.posterior import load_posterior, write_posterior
    from bayescore.text import number

    if args.output and args.corrected and args.output.absolute() == args.corrected.absolute():
        raise ValueError(
            f"--output and --corrected are both {str(args.output)!r}: one would replace the other; name two"
        )
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
        design_and_roles = {"label": label, "design": core.design, "offset": args.offset, "exposure": args.exposure}
        test = all_rows(args.test, family=core.family, **design_and_roles, progressbar=not args.quiet)
    roles = {**_roles(args), "label": label}
    certificate = check(idata, core, args.rows, **roles, progressbar=not args.quiet)
    table = Table("feature", box=None)
    for heading in ("mean", "sd", "corrected mean", "corrected sd", "error of mean (sd)"):
        table.add_column(heading, justify="right")
    for feature, row in certificate.coordinates.iterrows():
        figures = [number(row[name]) for name in ("mean", "sd", "corrected_mean", "corrected_sd")]
        error = f"{row['mean_error_sd']:.3f} ± {row['mean_error_sd_mcse']:.3f}"
        table.add_row(_printable(str(feature)), *figures, error)
    console.print(table)
    console.print(repr(certificate))
    if args.output:
        words = ["bayescore", "certify", str(args.posterior), str(args.core), without_keys(str(args.rows))]
        for name, column in roles.items():
            words += [f"--{name}", column] if name != "groups" and column and column != "raise" else []
        words += [word for column in args.groups or () for word in ("--groups", column)]
        words += ["--test", str(args.test)] if args.test else []
        command = shlex.join([*words, "-o", str(args.output)])
        write_certificate(certificate, idata, core, args.output, test=test, command=command)
        console.print(f"wrote {args.output}")
    if args.corrected:
        if certificate._idata is None:
            raise ValueError(
                f"--corrected={str(args.corrected)!r} was not written: the certificate is {str(certificate.level)!r}, "
                "and no corrected draws can be trusted; the text above says what to change"
            )
        write_posterior(certificate._idata, args.corrected)
        console.print(f"wrote {args.corrected}")


def demo(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore demo``."""
    from bayescore.demo import run_demo

    made = run_demo(args.rows, args.output, args.seed, not args.quiet, console)
    console.print("\n".join(map(_printable, repr(made).splitlines())))
    console.print(f"wrote {args.output}: report.html, coefficients.png, model")


def show(result: Any, console: Console) -> None:
    """Print the verdicts of a comparison and its main figures."""
    from rich.table import Table

    from bayescore.text import number

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
    roles = ("positive", "max_seconds", "family", "cluster", "strata", "lonely", "domain")
    options = ("sampler", "draws", "tune", "chains", "method", "size")
    settings |= {name: getattr(args, name) for name in (*roles, *options)}
    rows = [given for given in (args.formula, args.rows) if given is not None]
    _saved(fitted(*rows, random_state=args.seed, progressbar=not args.quiet, **settings), args.output, console)


def update(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore update``."""
    from bayescore.fitting import files, read_fit

    output = files.check_folder(args.output or args.model, "--output")
    if not args.rows and args.data is None:
        raise ValueError("give files of new rows, or --data with one of all rows")
    if gone := [path for path in args.rows if isinstance(path, Path) and not path.exists()]:
        raise FileNotFoundError(f"{gone[0]} does not exist; give files of new rows")
    fit, settings = read_fit(args.model), {"missing": args.missing, "progressbar": not args.quiet}
    for k, path in enumerate(args.rows):
        if k:  # an error of a later file costs that one
            fit.save(output)
            n = fit._n_observations or fit.coreset.n_total
            console.print(f"{args.rows[k - 1]}: {fit.level}, {n:,} observations so far")
        try:
            fit = fit.update(path, data=args.data if k == len(args.rows) - 1 else None, **settings)
        except ValueError as error:
            raise ValueError(f"{path}: {error}{f'; {output} has the files before it' if k else ''}") from error
    _saved(fit if args.rows else fit.update(data=args.data, **settings), args.output or args.model, console)


def predict(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore predict``."""
    from bayescore.fitting import read_fit
    from bayescore.fitting.predictions import check_files, write_predictions

    check_output(args.output, args.rows)
    check_files(args.rows, args.output)
    options = {name: getattr(args, name) for name in ("new_groups", "prob", "exposure")} | {"random_state": args.seed}
    table = write_predictions(read_fit(args.model), args.rows, args.output, **options)
    spread = table.attrs.get("spread", "").partition(" of ")[0]  # as "cluster-robust by 80 clusters"
    drawn = ", ".join(filter(None, [table.attrs["level"], spread]))
    console.print(f"{len(table):,} predictions by draws that are {drawn}\nwrote {args.output}")


def summary(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore summary``."""
    import pandas as pd

    fit = _read(args)
    table = fit.summary(scale=args.scale, prob=args.prob)
    with pd.option_context("display.max_rows", None):
        lines = [repr(fit).splitlines()[0], "", *repr(table).splitlines()]
    console.print("\n".join(map(_printable, lines)))


def report(args: argparse.Namespace, console: Console) -> None:
    """Run ``bayescore report``."""
    check_output(args.output, *([] if args.data is None else [args.data]))
    _read(args).report(args.output)
    console.print(f"wrote {args.output}")


def _read(args: argparse.Namespace) -> Any:
    from bayescore.fitting import read_fit

    return read_fit(args.model, args.data, progressbar=not args.quiet)


def _saved(found: Any, folder: Path, console: Console) -> None:
    found.save(folder)
    console.print("\n".join([*map(_printable, repr(found).splitlines()), f"wrote {folder}"]))


COMMANDS = {own.__name__: own for own in (fit, update, predict, summary, report, build, sample, certify, compare, demo)}


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
