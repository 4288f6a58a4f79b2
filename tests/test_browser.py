"""Pages in a browser: quiet, self-contained, of the width of a phone or a desk, and alive."""

import io
import re
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from browsing import chromium
from builders import make_task, make_training, small_protocol
from PIL import Image

import coopbench
import coopbench_envs

pytestmark = pytest.mark.slow("drives a browser")
expect = pytest.importorskip("playwright.sync_api").expect
WIDTHS = {"phone": (390, 844), "desktop": (1280, 900)}


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


class Watch:
    """Notes what a page complains of, and what it asks for beside itself."""

    def __init__(self, page):
        self.page, self.complaints, self.requests = page, [], []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def open(self, file):
        self.page.goto(file.as_uri())
        return self

    def outside(self):
        return [url for url in self.requests if url != self.page.url and url[:5] != "data:"]

    def widths(self):
        return self.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")


@contextmanager
def watched(browser, size):
    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
    page.set_default_timeout(10_000)
    yield Watch(page)
    page.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report with a policy that is missing, runs, and one of them failed."""
    folder = tmp_path_factory.mktemp("browser")
    protocol = small_protocol(
        folder,
        tasks=[make_task(horizon=5, low=30, high=31)],
        count=4,
        selection=(500, 2),
        training=make_training(),
        baselines=["random", "constant:0.02", "tit_for_tat"],
    )
    runs = {50: "constant:0.4", 51: coopbench.Failed("no memory")}
    models = coopbench.TrainedRuns("learner", {"dilemma": runs})
    report = coopbench.evaluate(protocol, ["random", "constant:0.02", models], only=True)
    return report.save(folder / "report")["html"]


@pytest.fixture(params=WIDTHS)
def opened(request, browser, report):
    with watched(browser, WIDTHS[request.param]) as watch:
        yield watch.open(report)
        assert watch.complaints == []
        assert watch.outside() == []


def test_the_watch_sees_what_is_wrong(browser, tmp_path):
    """If these passed, no other test here would mean anything."""
    file = tmp_path / "bad.html"
    file.write_text(
        "<body><div style='width: 3000px'>wide</div><img src='http://127.0.0.1:9/x.png'>"
        "<script>console.error('said'); undefined.thrown;</script></body>"
    )
    with watched(browser, WIDTHS["phone"]) as watch:
        watch.open(file)
        assert any("said" in text for text in watch.complaints)
        assert any("thrown" in text for text in watch.complaints)
        assert watch.outside() == ["http://127.0.0.1:9/x.png"]
        assert watch.widths()[0] > 390


def test_a_page_fits_its_window_even_unfolded(opened):
    assert opened.widths()[0] <= opened.widths()[1]
    page = opened.page
    folded = page.locator("details")
    assert folded.count() >= 6
    while (closed := page.locator("details:not([open])")).count():
        closed.first.locator("> summary").click()
    assert page.locator("details[open]").count() == folded.count()
    page.locator("iframe").nth(1).wait_for()
    for place in ("#checklist table", "#policies dd", "#protocol pre", "iframe"):
        assert page.locator(place).first.is_visible()
    assert opened.widths()[0] <= opened.widths()[1]
    page.emulate_media(media="print")
    assert not page.locator("iframe").first.is_visible()


def test_tables_sort_by_value_and_what_is_missing_stays_last(opened):
    table = opened.page.locator("#task-1 table").first
    body, head = table.locator("tbody").first, table.locator("thead th").nth(1)

    def column():
        cells = body.locator("td:nth-child(2)").all()
        return [(c.get_attribute("data-value"), c.inner_text()) for c in cells]

    before = column()
    assert before[-1] == (None, "missing")
    values = [float(value) for value, _ in before[:-1]]
    assert len(values) == 3
    assert sorted(values) != sorted(values, key=str)  # as texts, 10 is before 9
    for state, descending in (("ascending", False), ("descending", True)):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == state
        order = sorted(values, reverse=descending)
        assert [float(value) for value, _ in column()[:-1]] == order
        assert column()[-1] == (None, "missing")
    head.locator("button").click()
    assert column() == before


def test_a_replay_plays_while_it_is_open(opened):
    page, replay = opened.page, opened.page.locator("details.replay").first
    assert page.locator("iframe").count() == 0
    replay.locator("> summary").click()
    frame = replay.frame_locator("iframe")
    frame.get_by_role("button", name="To the start (Home)").click()
    page.wait_for_timeout(600)  # of a step every quarter of a second, if it played
    assert _steps(frame).inner_text() == "0 / 5"
    frame.get_by_role("button", name="Play", exact=True).click()
    expect(_steps(frame)).not_to_have_text(re.compile("^0 /"))
    inside = replay.locator("iframe").bounding_box()["height"]
    assert inside >= frame.locator("body").bounding_box()["height"] - 1  # no scrolling in it
    replay.locator("> summary").click()
    expect(page.locator("iframe")).to_have_count(0)  # the page hears of it a moment later


def _steps(player):
    return player.locator("#now dd").first


ROOT = Path(__file__).resolve().parent.parent
SHOWN = [name for name in coopbench_envs.ids() if coopbench_envs.spec(name).scene is not None]


# A world of cells, and a scene with a script of its own.
FILES = [
    f"{ROOT / 'tests' / 'toy_meeting.py'}:SPEC",
    f"{ROOT / 'examples' / 'scenes' / 'fireflies.py'}:SPEC",
]


@pytest.fixture(scope="module", params=[*SHOWN, "coopbench/TrustDilemma-v1", *FILES])
def page(request, tmp_path_factory):
    """The page of an episode in one game of every kind of scene, and in one without a scene."""
    made = coopbench.play_episode(request.param, "random", seed=3, horizon=40)
    return made.to_html(tmp_path_factory.mktemp("pages") / "episode.html")


@pytest.mark.parametrize("size", WIDTHS.values(), ids=WIDTHS)
def test_the_page_of_an_episode_plays(browser, page, size):
    with watched(browser, size) as watch:
        watch.open(page)
        expect(_steps(watch.page)).not_to_have_text(re.compile("^0 /"))
        assert watch.page.locator("h1").is_visible()
        assert watch.widths()[0] <= watch.widths()[1]
        for box in watch.page.locator("input[type=checkbox]").all():
            box.click()
        watch.page.get_by_role("button", name="To the end (End)").click()
        assert watch.widths()[0] <= watch.widths()[1]
        assert watch.complaints == []
        assert watch.outside() == []


def _fact(page, name):
    """What the list beside the stage says of ``name`` now."""
    row = page.locator("#now > div", has=page.get_by_text(name, exact=True))
    return row.locator("dd").inner_text()


def _shade(page, x, y):
    """The colour of a point of the stage, in shares of its sides."""
    image = Image.open(io.BytesIO(page.locator("#stage").screenshot())).convert("RGB")
    return image.getpixel((int(x * image.width), int(y * image.height)))


def _first_unit(made):
    """Where the first agent begins, in shares of a stage that shows all ground and a margin."""
    engine = next(made.play())
    ground, state = engine.constants.army.terrain, engine.lane_state()
    across, up = (np.flatnonzero(ground.any(axis=axis)) for axis in (0, 1))
    left, right = max(0, across[0] - 1), min(ground.shape[1], across[-1] + 2)
    bottom, top = max(0, up[0] - 1), min(ground.shape[0], up[-1] + 2)
    x, y = float(state["x"][0]), float(state["y"][0])
    return (x - left) / (right - left), (top - y) / (top - bottom)


def test_a_battle_is_followed_and_shows_sight(browser, tmp_path):
    made = coopbench.play_episode("Skirmish-v1", "attack_nearest", seed=3, map="3m", start="fixed")
    with watched(browser, WIDTHS["desktop"]) as watch:
        page = watch.open(made.to_html(tmp_path / "battle.html")).page
        page.get_by_role("button", name="To the start (Home)").click()
        assert _fact(page, "agents left") == "3 / 3"
        narrow = page.locator("#stage").bounding_box()
        page.locator("#sight").check()  # all ground is shown, and what nobody sees is darker
        assert page.locator("#stage").bounding_box() != narrow
        assert _shade(page, 0.4, 0.7) == (248, 248, 248)
        assert max(_shade(page, 0.98, 0.7)) < 200
        box, (x, y) = page.locator("#stage").bounding_box(), _first_unit(made)
        page.locator("#stage").click(position={"x": x * box["width"], "y": y * box["height"]})
        assert _fact(page, "marine_0 (attack_nearest)") == "alive"
        assert _fact(page, "its health") == "100 %"
        page.locator("#sight").uncheck()
        assert page.locator("#stage").bounding_box() == narrow
        *_, engine = made.play()
        page.get_by_role("button", name="To the end (End)").click()
        fallen = int(engine.control.measures[0][1])
        assert _fact(page, "agents left") == f"{3 - fallen} / 3"
        words = "alive" if engine.lane_state()["living"][0] else "fallen"
        assert _fact(page, "marine_0 (attack_nearest)") == words
        assert watch.complaints == []


def test_a_train_is_followed_by_its_row(browser, tmp_path):
    made = coopbench.play_episode(
        "Rail-v0", "shortest_path", seed=4, num_agents=4, malfunction_rate=0.03
    )
    *_, engine = made.play()
    arrival, due = engine.state.arrival[0], engine.state.due[0]
    with watched(browser, WIDTHS["phone"]) as watch:
        page = watch.open(made.to_html(tmp_path / "rail.html")).page
        page.get_by_role("button", name="To the end (End)").click()
        assert _fact(page, "trains arrived") == f"{(arrival >= 0).sum()} / 4"
        for train in range(4):
            page.locator("#rows").click(position={"x": 80, "y": 14 * train + 7})
            late = max(0, int(arrival[train] - due[train]))
            words = "not arrived" if arrival[train] < 0 else f"{late} late" if late else "on time"
            assert _fact(page, f"train_{train} (shortest_path)") == words
        assert watch.complaints == []
