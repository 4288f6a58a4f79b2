"""The runner: jobs on any backend, and what is told of their progress."""

from dataclasses import dataclass

from coopbench.episodes.table import Cell
from coopbench.playing import bars
from coopbench.playing.bars import Bars
from coopbench.playing.jobs import Resources
from coopbench.playing.runner import Runner, by_cell


@dataclass(frozen=True)
class Square:
    """A job of no use."""

    number: int
    cost: float = 1.0
    kind: str = "square"
    resources: Resources = Resources()  # noqa: RUF009 - a tuple

    @property
    def cells(self):
        return (Cell("one", f"square {self.number}"),)

    def __call__(self, tell):
        if self.number < 0:
            raise ValueError("It is negative.")
        if tell is not None:
            tell(0.5)
        return self.number**2


def test_a_job_is_done_when_its_result_has_been_taken_over():
    events = []
    runner = Runner(progress=lambda *event: events.append(event))
    job = Square(3)
    runner.tell(Square(1), 1.0, "kept")
    with runner.run([job]) as finished:
        assert len(events) == 1  # nothing starts before a result is asked for
        for _, result in finished:
            events.append(result)
    plays = [(job, 0.0, "plays"), (job, 0.5, "plays")]
    assert events == [(Square(1), 1.0, "kept"), *plays, 9, (job, 1.0, "done")]


def test_a_job_whose_result_is_not_taken_over_is_never_done():
    events = []
    runner = Runner(progress=lambda *event: events.append(event[2]))
    with runner.run([Square(3), Square(4)]) as finished:
        next(finished)
    assert events == ["plays", "plays"]


def test_callbacks_by_cell():
    events = []
    runner = Runner(progress=by_cell(lambda *event: events.append(event)))
    with runner.run([Square(2)]) as finished:
        list(finished)
    assert events[-1] == (Cell("one", "square 2"), 1.0, "done")
    assert by_cell(None) is None


def test_work_of_before_adds_nothing_to_speeds(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(bars.time, "monotonic", lambda: clock[-1])
    with Bars(2, steps=1_000) as shown:
        for seconds, share in ((0.0, 0.0), (10.0, 0.75), (14.0, 0.85), (20.0, 1.0)):
            clock.append(seconds)
            shown.show("run", share, "done" if share == 1.0 else "plays")
    assert "done, 25 steps/s" in capsys.readouterr().err
    with Bars(10) as shown:
        shown._bars.get_time = lambda: clock[-1]
        for number in range(8):
            shown.cell(Cell("one", str(number)), 1.0, "kept")
        for seconds in (30.0, 40.0):
            clock.append(seconds)
            shown.cell(Cell("one", "new"), 1.0, "done")
        assert shown._bars.tasks[0].speed == 0.1
