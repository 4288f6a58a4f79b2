"""Seeds of a protocol: of evaluation, of the choice of checkpoints, and of training runs."""

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from coopbench.protocol.base import Strict, as_tuple, later

_SELECTION = 10_000  # seeds; without a limit a file could ask for any time


class Evaluation(Strict):
    """Consecutive evaluation seeds: episode k of a task is the environment seeded first + k."""

    first: int = Field(ge=0, lt=1 << 63)
    count: int = Field(ge=1, le=1_000_000)

    @property
    def seeds(self) -> range:
        """All seeds, in order."""
        return range(self.first, self.first + self.count)


Seed = Annotated[int, Field(ge=0, lt=1 << 63)]


class Seeds(Strict):
    """Seeds of training runs, of evaluation episodes, and of selection episodes.

    No seed is used for two of these purposes.
    """

    training: tuple[Seed, ...] = Field(default=(), max_length=1000)
    evaluation: Evaluation
    selection: Evaluation | None = later()  # of the episodes after every interval of training

    _lists = field_validator("training", mode="before")(as_tuple)

    @model_validator(mode="after")
    def _disjoint(self) -> "Seeds":
        spans = {"evaluation": self.evaluation, "selection": self.selection}
        for name, span in spans.items():
            shared = [] if span is None else [s for s in self.training if s in span.seeds]
            if span is not None and shared:
                raise ValueError(
                    f"training seeds {shared} are also {name} seeds ({span.seeds[0]} to "
                    f"{span.seeds[-1]}); keep them apart"
                )
        if self.selection is not None and self.selection.count > _SELECTION:
            raise ValueError(
                f"there are {self.selection.count:,} selection seeds; allowed: up to {_SELECTION:,}"
            )
        if self.selection is not None:
            final, chosen = self.evaluation.seeds, self.selection.seeds
            if max(final.start, chosen.start) < min(final.stop, chosen.stop):
                raise ValueError(
                    f"selection seeds {chosen.start} to {chosen.stop - 1} overlap the evaluation "
                    f"seeds {final.start} to {final.stop - 1}; keep them apart"
                )
        if len(set(self.training)) != len(self.training):
            raise ValueError("training seeds repeat; list each once")
        return self
