"""The words of pages: certificates without and with groups, and the report of a comparison."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.golden import certificates, fits, view
from tests.golden.case import Fields, case


def of_certificate(name: str, make: Any, *made_of: Any) -> Fields:
    """Return the text of a certificate's page."""
    return of_page(make(), fits.sampled(name, *made_of), getattr(fits, name)(*made_of))


def of_page(certificate: Any, idata: Any, core: Any) -> Fields:
    """Return the text of a page."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.html"
        certificate.to_html(path, idata, core)
        return view.of_page(path)


case("certificate", of_stack=True)(partial(of_certificate, "flat", certificates.flat, "logistic", 80, "calibrated"))
SEVERAL = "(1 + x | a) + (1 | b)"


@case(f"certificate, {SEVERAL}", of_stack=True)
def of_several() -> Fields:
    return of_page(certificates.several(SEVERAL), fits.of_terms(SEVERAL), fits.terms(SEVERAL))


case("certificate, (1 | county)", of_stack=True)(partial(of_certificate, "grouped", certificates.grouped, "logistic"))


@case("comparison", of_stack=True)
def of_report() -> Fields:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        told = {"calibrated": certificates.flat(), "uniform": certificates.flat(60, "uniform")}
        certificates.comparison().to_html(path, certificates=told)
        return view.of_page(path)
