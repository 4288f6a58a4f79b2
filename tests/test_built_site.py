"""The built site in a browser: every page, at the width of a phone and of a desk."""

import importlib.util
import re
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

import pytest
from browsing import chromium, lacking
from builders import run_python

pytestmark = pytest.mark.slow("builds the site and drives a browser")
expect = pytest.importorskip("playwright.sync_api").expect
ROOT = Path(__file__).resolve().parent.parent
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
_LINKS = "Array.from(document.querySelectorAll('a[href]'), a => a.href)"
_IDS = "Array.from(document.querySelectorAll('[id]'), e => e.id)"
_IMAGES = "Array.from(document.images, i => i.src)"
_EXCESS = "document.documentElement.scrollWidth - window.innerWidth"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site; pictures that have not been drawn are blank."""
    if importlib.util.find_spec("mkdocs") is None:
        lacking("mkdocs", 'pip install ".[docs]"')
    folder = tmp_path_factory.mktemp("site")
    words = ("-m", "mkdocs", "build", "--strict", "--quiet", "-d", folder)
    run_python(*words, cwd=ROOT, NO_MKDOCS_2_WARNING="1")
    return folder


@pytest.fixture(scope="module")
def page():
    with chromium() as browser:
        page = browser.new_page(viewport=DESK)
        page.set_default_timeout(20_000)
        yield page


@pytest.fixture
def said(page):
    """What pages write to the console, and what they load from elsewhere."""
    notes = []
    handlers = {
        "console": lambda message: notes.append(message.text),
        "pageerror": lambda error: notes.append(str(error)),
        "request": lambda request: request.url.startswith("http") and notes.append(request.url),
    }
    for event, handler in handlers.items():
        page.on(event, handler)
    yield notes
    for event, handler in handlers.items():
        page.remove_listener(event, handler)


def test_every_page_is_quiet_and_fits_and_links_to_what_exists(page, site, said):
    files = sorted(set(site.rglob("*.html")) - {site / "404.html"})  # which a server shows
    assert len(files) > 50
    ids, links, wide = {}, set(), []
    for file in files:
        page.set_viewport_size(DESK)
        page.goto(file.as_uri())
        ids[str(file)] = set(page.evaluate(_IDS))
        links |= {(str(file), link) for link in page.evaluate(_LINKS) + page.evaluate(_IMAGES)}
        for size in (DESK, PHONE):
            page.set_viewport_size(size)
            if page.evaluate(_EXCESS) > 0:
                wide.append((file.name, size["width"]))
    assert said == []
    assert wide == []
    assert [link for link in sorted(links) if not leads_somewhere(link[1], ids)] == []


def leads_somewhere(link, ids):
    """Whether a link of the site leads to a file and, if it names one, a place in it."""
    address, fragment = urldefrag(link)
    if not address.startswith("file:"):
        return bool(re.match(r"https?://|mailto:|data:", address))
    path = unquote(urlparse(address).path)
    if path not in ids:
        return Path(path).is_file() and not fragment
    return not fragment or unquote(fragment) in ids[path]


def test_a_reader_clicks_from_the_start_to_an_environment(page, site, said):
    page.set_viewport_size(DESK)
    page.goto((site / "index.html").as_uri())
    page.locator(".gallery a", has_text="TrustDilemma-v1").click()
    expect(page.locator("h1")).to_contain_text("TrustDilemma-v1")
    expect(page.locator("img.moving")).to_be_visible()
    for tab in ("Learn", "How-to guides", "Science", "Reference"):
        page.locator(".md-tabs").get_by_text(tab, exact=True).click()
        expect(page.locator(".md-tabs__item--active")).to_contain_text(tab)
        expect(page.locator("h1")).to_be_visible()
    assert said == []


def test_search_works_from_the_files_alone(page, site, said):
    page.set_viewport_size(DESK)
    page.goto((site / "index.html").as_uri())
    page.locator("input.md-search__input").fill("autoreset")
    expect(page.locator(".md-search-result__link").first).to_be_visible()
    assert said == []
