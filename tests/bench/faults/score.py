"""How well the causes that were shown fit the faults that were injected."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.bench.figures import Bound, Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was shown of one fault."""

    true: str
    """Name of the right cause."""
    named: str
    """The cause that was shown when the first one had settled; "none": none was in time."""
    wrongly_certain: frozenset[str] = frozenset()
    """Wrong causes that were ever stated as certain after the fault."""
    after_s: float | None = None
    """From the fault to the first cause."""

    @property
    def right(self) -> bool:
        return self.named == self.true


def figures(outcomes: Sequence[Outcome], planned: int) -> Iterator[Figure]:
    """The share of faults named right, and the number of wrong causes stated as certain."""
    right = sum(each.right for each in outcomes)
    wrong = sum(len(each.wrongly_certain) for each in outcomes)
    share = right / len(outcomes) if outcomes else float("nan")
    at_least = Bound.AT_LEAST
    yield Figure(
        name="causes_faults", value=len(outcomes), unit="faults", target=planned, bound=at_least
    )
    yield Figure(name="causes_right", value=share, unit="share", target=0.9, bound=at_least)
    yield Figure(name="causes_wrongly_certain", value=wrong, unit="causes", target=0)


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The confusion table: a line per kind, with what it was named and how often."""
    for true in dict.fromkeys(each.true for each in outcomes):
        of_kind = [each for each in outcomes if each.true == true]
        named = Counter(each.named for each in of_kind).most_common()
        times = sorted(each.after_s for each in of_kind if each.after_s is not None)
        median = f"{times[len(times) // 2]:.0f} s" if times else "-"
        right = sum(each.right for each in of_kind)
        shown = ", ".join(f"{name} {number}" for name, number in named)
        wrong = sorted(name for each in of_kind for name in each.wrongly_certain)
        certain = f"  wrongly certain: {', '.join(wrong)}" if wrong else ""
        yield f"{true:<20} {right:>3} of {len(of_kind):<3} median {median:>6}  {shown}{certain}"
