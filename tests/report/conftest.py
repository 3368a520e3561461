"""A comparison of two candidates, one of them a coreset's, whose names need escaping."""

import pytest

from bayescore.report.compare import compare_posteriors
from bayescore.report.pages import write_report
from tests.diagnostics.helpers import CORESET


@pytest.fixture(scope="module")
def comparison(posterior):
    features = ("<script>", "b")
    candidates = {
        "<b>bold</b>": posterior(1, features=features, coreset=CORESET),
        "far": posterior(2, mean=1.0, features=features),
    }
    return compare_posteriors(candidates, posterior(0, features=features))


@pytest.fixture(scope="module")
def page(comparison, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(comparison, path, title="Title & more", command="bayescore compare a.nc")
    return path.read_text(encoding="utf-8")
