"""What the command line takes: commands, their options, and the text of priors."""

import argparse
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

_PRIOR = re.compile(r"\s*([a-z_]+)\s*\(([^()]*)\)\s*")


def parse_prior(text: str) -> Any:
    """Return the prior that `text` names, such as "normal(0, 4)" or "cauchy(0, 2.5)"."""
    from bayescore.models.priors import PRIORS

    return _parsed(text, "--prior", PRIORS, "normal(0,4)")


def parse_group_prior(text: str | None) -> Any:
    """Return the prior of sds of groups' effects that `text` names, such as "half_normal(1)", as an option of verbs."""
    from bayescore.models.group_priors import GROUP_PRIORS

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
    return {name.strip(): parse_prior(prior) for name, _, prior in named}


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
    from bayescore.models.families import known_names
    from bayescore.samplers.registry import AUTO, SAMPLERS

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
    p.add_argument("--family", default="logistic", help=f"{families} (default: %(default)s)")
    p.add_argument("--prior", help="prior in units of the columns, or by name (default: normal(0, 2.5 / sd of each))")
    _add_group_prior(p)
    p.add_argument("--max-seconds", type=float, default=600.0, help="limit of a further try (default: %(default)s)")
    p.add_argument("-o", "--output", type=Path, required=True, help="folder to write")

    p = commands.add_parser("update", parents=[common], help="more rows for a fit, without reading the old ones")
    p.add_argument("model", type=Path, help="folder that fit wrote")
    several = "files of new rows, with the columns of the old: each updates the fit in turn"
    p.add_argument("rows", type=_rows, nargs="*", help=several)
    p.add_argument("--data", type=_rows, help="file of all rows, old and new, to certify by them")
    p.add_argument(
        "--missing", default="raise", choices=("raise", "drop"), help="rows that miss something (default: %(default)s)"
    )
    p.add_argument("-o", "--output", type=Path, help="folder to write (default: the model's)")

    p = commands.add_parser("predict", parents=[common, seeded], help="probabilities, rates or means of new rows")
    p.add_argument("model", type=Path, help="folder that fit wrote")
    p.add_argument("rows", type=Path, help="Parquet or CSV file of new rows")
    new = "effects of new groups are drawn, or averaged over (default: %(default)s)"
    p.add_argument("--new-groups", default="sample", choices=("sample", "average"), help=new)
    p.add_argument("--prob", type=float, default=0.95, help="probability of the intervals (default: %(default)s)")
    p.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        help=".parquet or .csv file to write: columns of the rows, then predictions",
    )

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
    p.add_argument("--sampler", default=AUTO, help=f"{', '.join((AUTO, *SAMPLERS))} (default: %(default)s)")
    p.add_argument("--family", help=f"{families} (default: the coreset's own)")
    p.add_argument(
        "--prior",
        default="normal(0,4)",
        help="prior, or by name 'age=normal(0,1);*=cauchy(0,2)' (default: %(default)s)",
    )
    _add_group_prior(p)
    p.add_argument("--draws", type=int, default=1000, help="draws of each chain (default: %(default)s)")
    p.add_argument("--tune", type=int, default=1000, help="draws of warm-up (default: %(default)s)")
    p.add_argument("--chains", type=int, default=4, help="chains (default: %(default)s)")
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
    return main


def _rows(text: str) -> Path | str:
    return text if "://" in text else Path(text)


def _add_roles(p: argparse.ArgumentParser) -> None:
    p.add_argument("--label", help="column of the labels; a formula's left side names it too")
    p.add_argument("--weights", help="column of the weights")
    p.add_argument("--offset", help="column of known parts of the linear predictor, or 'log(years)' of a column")
    p.add_argument("--groups", action="append", metavar="COLUMN", help="column of groups; again for another factor")
    _add_counts(p)
    p.add_argument("--positive", help="label that is +1 (default: the second in sorted order)")


def _add_group_prior(p: argparse.ArgumentParser) -> None:
    p.add_argument("--group-prior", help="prior of sds of groups' effects (default: half_student_t(3,2.5))")


def _add_counts(p: argparse.ArgumentParser) -> None:
    p.add_argument("--trials", help="column of binomial trials; the label column then has successes")
    p.add_argument("--exposure", help="column of exposures, where the label column has counts (--family poisson)")
    p.add_argument(
        "--missing", default="raise", choices=("raise", "drop"), help="rows that miss something (default: %(default)s)"
    )


def _size(text: str) -> int | str:
    try:
        return text if text == "auto" else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor auto") from None
