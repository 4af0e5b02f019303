"""Where the files of a job are: each namespace has a separate folder."""

from __future__ import annotations

from pathlib import Path

from broker.upkeep.pipeline.worker import folder_of

BASE = Path("/files")


def test_namespaces_have_folders_of_their_own() -> None:
    assert folder_of(BASE, "persistent://shop/eu/orders") == BASE / "shop/eu"
    assert folder_of(BASE, "persistent://shop/us/orders") == BASE / "shop/us"
    assert folder_of(BASE, "persistent://a:b/c=d/orders") == BASE / "a%3Ab/c%3Dd"
