"""Chromium for the tests of pages: where it is missing they are skipped, but in CI they fail."""

import os
import shutil
from contextlib import contextmanager

import pytest

sync_playwright = pytest.importorskip("playwright.sync_api").sync_playwright


def lacking(what, advice):
    """Skip, or fail in CI, where everything that tests need must be installed."""
    if "CI" in os.environ:
        pytest.fail(f"There is no {what}: {advice}.")
    pytest.skip(f"no {what} here")


@contextmanager
def chromium():
    """Start a browser, and close it after the context."""
    path = shutil.which("chromium")
    if path is None:
        lacking("chromium", "apt install chromium")
    with sync_playwright() as playwright:
        # Root, as in most containers, has no sandbox; only pages made here are opened.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()
