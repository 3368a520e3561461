"""Loaders of published data sets, without any network: small stand-ins take the place of the downloads."""

import bz2
import gzip
import io
import lzma
import urllib.error
import urllib.request
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import requests

from bayescore.data import published as real
from bayescore.data.published import DownloadError
from bayescore.validation import DataError

CHEM_ROWS = np.array([[0.5, -1.0, 2.0], [0.25, 0.0, -3.5], [1.0, 1.0, 1.0], [0.1, 0.2, 0.3]])
CHEM_LABELS = np.array([0, 1, 0, 1])
CHEM_CSV = "\n".join(
    ",".join(map(str, [*row, label])) for row, label in zip(CHEM_ROWS.tolist(), CHEM_LABELS.tolist(), strict=True)
)
CHEM = bz2.compress(CHEM_CSV.encode())


class Response(io.BytesIO):
    """What requests.get returns."""

    headers = {}  # noqa: RUF012

    def raise_for_status(self):
        pass

    def iter_content(self, chunk_size):
        while part := self.read(chunk_size):
            yield part


@pytest.fixture(autouse=True)
def small_sets(monkeypatch):
    chem = replace(real.CHEMREACT, feature_names=("x1", "x2", "x3"), n_rows=4, n_positive=(2, 2))
    monkeypatch.setattr(real, "CHEMREACT", chem)
    monkeypatch.setattr(real, "WEBSPAM", replace(real.WEBSPAM, n_rows=60, n_positive=(36, 36)))
    monkeypatch.setattr(real, "COVTYPE", replace(real.COVTYPE, n_rows=3, n_positive=(1, 1)))


@pytest.fixture
def web(monkeypatch):
    """A web whose one answer can be set; it counts how often it was asked."""
    answers = SimpleNamespace(body=CHEM, asked=[])

    def get(address, **options):
        answers.asked.append(address)
        return Response(answers.body)

    monkeypatch.setattr(requests, "get", get)
    return answers


@pytest.fixture
def offline(monkeypatch):
    def get(*args, **kwargs):
        raise requests.ConnectionError("no route")

    def urlopen(*args, **kwargs):  # scikit-learn's
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(requests, "get", get)
    monkeypatch.setattr(urllib.request, "urlopen", urlopen)


def files(home):
    return sorted(file.name for file in (home / "bayescore").iterdir())


def check_chem(data):
    np.testing.assert_array_equal(data.X, CHEM_ROWS)
    np.testing.assert_array_equal(data.y, [-1, 1, -1, 1])
    assert data.y.dtype == np.int8
    assert data.X.dtype == np.float64
    assert not data.X.flags.writeable
    assert data.feature_names == ("x1", "x2", "x3")


def test_first_load_downloads_and_the_second_does_not(web, tmp_path):
    data = real.load_chemreact(data_home=tmp_path)
    check_chem(data)
    assert "4 rows, 3 features, 2 positive (50.0%)" in data.description
    assert files(tmp_path) == ["ds1.100.csv.bz2", "ds1.100.csv.bz2.sha256"]
    check_chem(real.load_chemreact(data_home=str(tmp_path)))
    assert web.asked == [real.CHEMREACT.address]


def test_a_changed_cache_is_downloaded_again(web, tmp_path):
    real.load_chemreact(data_home=tmp_path)
    cache = tmp_path / "bayescore" / "ds1.100.csv.bz2"
    cache.write_bytes(bz2.compress(CHEM_CSV.replace("0.5", "0.6").encode()))
    check_chem(real.load_chemreact(data_home=tmp_path))
    assert len(web.asked) == 2


def test_a_second_download_must_equal_the_first(web, tmp_path):
    real.load_chemreact(data_home=tmp_path)
    (tmp_path / "bayescore" / "ds1.100.csv.bz2").unlink()
    web.body = bz2.compress(CHEM_CSV.replace("0.5", "0.6").encode())
    with pytest.raises(DataError, match="is not the file of its first use"):
        real.load_chemreact(data_home=tmp_path)
    assert files(tmp_path) == ["ds1.100.csv.bz2.sha256"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (bz2.compress(b"1,2,3,0\n1,2,3,1"), "has 2 rows, ChemReact as published has 4"),
        (bz2.compress(b"1,2,3,0\n1,2,3,1\n1,2,3,1\n1,2,3,1"), "has 3 positive rows, ChemReact as published has 2"),
        (bz2.compress(b"1,2,0\n1,2,1\n1,2,0\n1,2,1"), "3 features must stand first"),
        (bz2.compress(b"1,2,3,0\n1,2,3,7\n1,2,3,0\n1,2,3,1"), "label 7 in row 1"),
        (b"<html>moved</html>", "cannot be read as ChemReact"),
        (CHEM[:-20], "cannot be read as ChemReact"),
    ],
)
def test_a_download_that_is_not_the_data_set_is_refused_and_removed(web, tmp_path, body, message):
    web.body = body
    with pytest.raises(DataError, match=message) as caught:
        real.load_chemreact(data_home=tmp_path)
    assert "\n" not in str(caught.value)
    assert files(tmp_path) == []


@pytest.mark.parametrize("load", [real.load_chemreact, real.load_webspam, real.load_covtype])
def test_offline_error_is_one_line_that_says_what_to_do(offline, tmp_path, load):
    with pytest.raises(DownloadError) as caught:
        load(data_home=tmp_path)
    message = str(caught.value)
    assert isinstance(caught.value, OSError)
    assert "\n" not in message
    assert "http" in message
    assert "path=" in message
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_offline_error_says_where_to_put_the_file_and_there_it_is_found(offline, tmp_path):
    cache = tmp_path / "bayescore" / "ds1.100.csv.bz2"
    with pytest.raises(DownloadError) as caught:
        real.load_chemreact(data_home=tmp_path)
    assert str(cache) in str(caught.value)
    cache.write_bytes(CHEM)
    check_chem(real.load_chemreact(data_home=tmp_path))
    assert files(tmp_path) == ["ds1.100.csv.bz2", "ds1.100.csv.bz2.sha256"]


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (ConnectionResetError("reset"), DownloadError),
        (requests.exceptions.ChunkedEncodingError("18 bytes missing"), DownloadError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_an_interrupted_transfer_leaves_nothing(monkeypatch, tmp_path, failure, raised):
    class Broken(Response):
        def read(self, size=-1):
            if self.tell() > 0:
                raise failure
            return super().read(8)

    monkeypatch.setattr(requests, "get", lambda *args, **kwargs: Broken(CHEM))
    with pytest.raises(raised):
        real.load_chemreact(data_home=tmp_path)
    assert files(tmp_path) == []


def write_chem(file):
    frame = pd.DataFrame(CHEM_ROWS, columns=["x1", "x2", "x3"]).assign(y=CHEM_LABELS)
    match file.name:
        case "rows.csv":
            frame.to_csv(file, index=False)
        case "rows.csv.gz":
            file.write_bytes(gzip.compress(CHEM_CSV.encode()))
        case "rows.csv.bz2":
            file.write_bytes(CHEM)
        case "rows.parquet":
            frame.to_parquet(file)
        case "rows.npz":
            np.savez(file, X=CHEM_ROWS, y=2 * CHEM_LABELS - 1)


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.csv.bz2", "rows.parquet", "rows.npz"])
def test_local_files(offline, tmp_path, name):
    write_chem(tmp_path / name)
    data = real.load_chemreact(tmp_path / name, data_home=tmp_path)
    check_chem(data)
    assert name in data.description
    assert not (tmp_path / "bayescore").exists()


def test_a_local_file_may_be_a_part(tmp_path):
    (tmp_path / "part.csv").write_text("1,2,3,0\n4,5,6,1\n")
    data = real.load_chemreact(str(tmp_path / "part.csv"))
    assert data.X.shape == (2, 3)
    assert "2 rows of 4 published" in data.description


@pytest.mark.parametrize("load", [real.load_chemreact, real.load_webspam, real.load_covtype])
def test_missing_local_file(tmp_path, load):
    with pytest.raises(FileNotFoundError, match="is not a file"):
        load(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv", b"", "cannot be read"),
        ("rows.csv", b"1,2,3,1\n4,5,6,1\n", "one class only"),
        ("rows.csv", b"y,x1,x2,x3\n1,2,3,1\n0,5,6,1\n", "3 features must stand first"),
        ("rows.csv", b"x1,x2,x3,y\n1,2,3,1\n5,6,word,1\n", "cannot be read"),
        ("rows.csv", b"1,2,3,1\n4,5,6,\n", "label nan in row 1"),
        ("rows.parquet", b"PAR1 not", "cannot be read"),
        ("rows.npz", b"PK not", "cannot be read"),
    ],
)
def test_a_bad_local_file_is_refused_in_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        real.load_chemreact(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_npz_of_another_shape_is_refused(tmp_path):
    np.savez(tmp_path / "rows.npz", X=CHEM_ROWS[:, :2], y=CHEM_LABELS)
    with pytest.raises(DataError, match="shape"):
        real.load_chemreact(tmp_path / "rows.npz")


def pages():
    """60 pages: byte 1 in all, byte 7 in exactly 25, byte 254 in 24."""
    return "".join(
        f"{'+1' if i < 36 else '-1'} 1:{1 + i}" + " 7:0.5" * (i < 25) + " 254:0.25" * (i < 24) + "\n" for i in range(60)
    ).encode()


def check_pages(data):
    assert data.feature_names == ("x1", "x7")
    np.testing.assert_array_equal(data.X[:, 0], np.arange(1, 61))
    np.testing.assert_array_equal(data.X[:, 1], 0.5 * (np.arange(60) < 25))
    np.testing.assert_array_equal(data.y, np.where(np.arange(60) < 36, 1, -1))


def test_webspam_download_keeps_features_of_25_pages(web, tmp_path):
    web.body = lzma.compress(pages())
    check_pages(real.load_webspam(data_home=tmp_path))
    check_pages(real.load_webspam(data_home=tmp_path))
    assert web.asked == [real.WEBSPAM.address]


@pytest.mark.parametrize(
    ("suffix", "compress"), [("", bytes), (".xz", lzma.compress), (".bz2", bz2.compress), (".gz", gzip.compress)]
)
def test_webspam_local_files(tmp_path, suffix, compress):
    file = tmp_path / f"pages.svm{suffix}"
    file.write_bytes(compress(pages()))
    check_pages(real.load_webspam(file))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"+1 255:1\n-1 1:1\n", "cannot be read"), (b"+1 1:1\n-1 1:1\n", "25 pages"), (pages() + b"3 1:1\n", "label 3")],
)
def test_a_bad_webspam_file_is_refused(tmp_path, content, message):
    (tmp_path / "pages.svm").write_bytes(content)
    with pytest.raises(DataError, match=message):
        real.load_webspam(tmp_path / "pages.svm")


def test_a_broken_xz_file_is_refused(tmp_path):
    (tmp_path / "pages.svm.xz").write_bytes(lzma.compress(pages())[:-30])
    with pytest.raises(DataError, match="cannot be read"):
        real.load_webspam(tmp_path / "pages.svm.xz")


def covtype_bunch(target):
    return SimpleNamespace(
        data=np.arange(54.0 * len(target)).reshape(-1, 54),
        target=np.array(target, dtype=np.int32),
        feature_names=list(real.COVTYPE.feature_names),
    )


def test_covtype_type_2_is_positive(monkeypatch):
    monkeypatch.setattr(real, "fetch_covtype", lambda **kwargs: covtype_bunch([1, 2, 7]))
    data = real.load_covtype()
    np.testing.assert_array_equal(data.y, [-1, 1, -1])
    assert data.X.shape == (3, 54)
    assert data.feature_names[0] == "Elevation"


def test_covtype_facts_are_checked(monkeypatch):
    monkeypatch.setattr(real, "fetch_covtype", lambda **kwargs: covtype_bunch([2, 2, 7]))
    with pytest.raises(DataError, match="2 positive rows, CovType as published has 1"):
        real.load_covtype()


def test_covtype_local_files(tmp_path):
    found = covtype_bunch([1, 2, 7])
    names = list(real.COVTYPE.feature_names)
    frame = pd.DataFrame(found.data, columns=names).assign(Cover_Type=found.target, y=found.target == 2)
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.drop(columns="y").to_csv(tmp_path / "covtype.data.gz", index=False, header=False)
    for name in ("rows.parquet", "covtype.data.gz"):
        data = real.load_covtype(tmp_path / name)
        np.testing.assert_array_equal(data.X, found.data)
        np.testing.assert_array_equal(data.y, [-1, 1, -1])
        assert data.feature_names == tuple(names)
