"""Checkpoints whose hash fits and whose content does not are refused as damaged ones are."""

import numpy as np
import pytest

import bayescore as bc
from bayescore.files import read_checkpoint, write_checkpoint
from bayescore.validation import DataError

HEADERS = {
    "no options": lambda h: h.pop("options"),
    "no method": lambda h: h.pop("method"),
    "a method of another kind": lambda h: h["method"].update(name=7),
    "a method that takes no stream": lambda h: h.update(method={"name": "uniform", "options": {}}),
    "unknown option of the method": lambda h: h["method"]["options"].update(depth=3),
    "options of another kind": lambda h: h.update(options=[1, 2]),
    "unknown option": lambda h: h["options"].update(depth=3),
    "bad size": lambda h: h["options"].update(size=-1),
    "no names": lambda h: h["intake"].update(names=None),
    "unknown intake": lambda h: h["intake"].update(more=1),
    "other names": lambda h: h["design"].update(raw_names=["z"]),
    "no design": lambda h: h.update(design=3),
    "blocks of no rows": lambda h: h.update(block_rows=0),
    "blocks of text": lambda h: h.update(block_rows="many"),
    "no version": lambda h: h.update(version=None),
}
ARRAYS = {
    "rest of other columns": lambda a: a.update(rest_X=a["rest_X"][:, :1]),
    "fewer weights": lambda a: a.update(rest_weights=a["rest_weights"][1:]),
    "no labels": lambda a: a.pop("rest_y"),
}


@pytest.mark.parametrize("forge", [*HEADERS, *ARRAYS])
@pytest.mark.parametrize("method", ["online", "merge_reduce"])
def test_forged_content_is_refused(method, forge, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    stream = bc.stream(method, size=20, family="probit", random_state=0).partial_fit(
        X, X[:, 0] + rng.normal(size=500) > 0
    )
    stream.save(tmp_path / "stream.ckpt")
    header, arrays = read_checkpoint(tmp_path / "stream.ckpt", "StreamingCoreset")
    assert "rest_X" in arrays
    (HEADERS[forge](header) if forge in HEADERS else ARRAYS[forge](arrays))
    write_checkpoint(tmp_path / "forged.ckpt", "StreamingCoreset", header, arrays)
    read_checkpoint(tmp_path / "forged.ckpt", "StreamingCoreset")  # its hash fits
    with pytest.raises(DataError, match=r"forged.ckpt' has a hash that fits and content that does not"):
        bc.read_stream(tmp_path / "forged.ckpt")
