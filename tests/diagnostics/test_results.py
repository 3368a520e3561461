import dataclasses
import json

import pandas as pd
import pytest

from bayescore.diagnostics.results import CertificateData, Level
from tests.diagnostics.helpers import certificate


@pytest.mark.parametrize("level", Level)
def test_a_level_is_its_word_wherever_it_is_written(level):
    assert level == level.value
    assert f"{level}" == level.value
    assert json.loads(json.dumps({"level": level})) == {"level": level.value}
    assert pd.DataFrame({"level": [level]}).to_csv(index=False).split() == ["level", *level.value.split()]
    assert {level: 1}[level.value] == 1


def test_words_that_are_no_level_are_refused():
    with pytest.raises(ValueError, match="'trusted' is not a valid Level"):
        Level("trusted")


@pytest.mark.parametrize(
    ("level", "trusted"), [(Level.CERTIFIED, True), (Level.CORRECTED, True), (Level.NOT_CERTIFIED, False)]
)
def test_what_is_not_certified_is_not_trusted(level, trusted):
    assert certificate(level=level).trusted is trusted


def test_certificates_are_plain_data_that_print_their_verdict():
    own = certificate(elpd_loo=-1234.5, elpd_loo_se=12.0, elpd_loo_mcse=0.3, elpd_loo_rows=1000, elpd_loo_bad_k=4)
    assert isinstance(own, CertificateData)
    assert repr(own).splitlines() == [
        "CERTIFIED AFTER CORRECTION: use Certificate.idata",
        "  Because <so>.",
        "  elpd_loo −1,234 ± 12 (numerical error 0.30; k-hat above 0.7 in 4 of 1,000 rows)",
    ]
    assert dataclasses.replace(own, level=Level.CERTIFIED).level == "certified"
