"""Numbers of the paper (arXiv 2510.17015) that ours stand beside, each with where it is from.

They are taken from a digest of the paper, which was not checked against its text. Bars and curves
were read off figures, so those numbers are good to about 5 %. Where the digest has no number there
is none here: of the second testbed (LLaMA-13B) it has none at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class PaperNumber:
    """A number of the paper; ``is_read_off`` a figure, so about right only."""

    value: float
    source: str
    is_read_off: bool = False

    def __str__(self) -> str:
        """Write it as it stands there."""
        return f"{'about ' if self.is_read_off else ''}{self.value:g}"


def _read_off(value: float, source: str) -> PaperNumber:
    return PaperNumber(value, source, is_read_off=True)


def _by_policy(source: str, **values: float) -> Mapping[str, PaperNumber]:
    return MappingProxyType({name: _read_off(value, source) for name, value in values.items()})


MEAN_JCT_S: Final = _by_policy(
    "Fig. 8, LLaMA-7B at 3x", parrot=770.0, vtc=700.0, srjf=290.0, justitia=300.0
)
"""Mean JCT at 3x on the first testbed."""

MEAN_JCT_OVER_VTC: Final = PaperNumber(1 - 0.575, "abstract: 57.5 % less than VTC")
LIGHT_GAIN: Final = 0.3
LIGHT_MEAN_JCT_OVER_VTC: Final = _read_off(1 - LIGHT_GAIN, "Fig. 8 at 1x")
MEAN_JCT_OVER_PARROT: Final = PaperNumber(1 - 0.611, "evaluation: 61.1 % less than Parrot")
FCFS_OVER_VTC: Final = _read_off(1.5, "Fig. 8, LLaMA-7B at 3x")

SHARE_NOT_LATER: Final = PaperNumber(0.92, "Fig. 10: JCT at most that under VTC")
WORST_OVER_VTC: Final = PaperNumber(1.26, "Fig. 10: the largest JCT over that under VTC")

MERGERS_SHARED_S: Final = PaperNumber(210.0, "Fig. 3, at once")
MERGERS_IN_TURN_S: Final = PaperNumber(166.0, "Fig. 3, one after the other")

SEVEN_FLUID_ORDER: Final = ("app-1", "app-3", "app-2")
"""Fig. 7: order of completion in the fluid system."""

ELEPHANT_SRJF_S: Final[Mapping[int, PaperNumber]] = MappingProxyType(
    {100: _read_off(400.0, "Fig. 11"), 500: _read_off(800.0, "Fig. 11")}
)
"""The elephant's JCT under SRJF by the number of mice."""
ELEPHANT_JUSTITIA_S: Final = (200.0, 300.0)
"""Fig. 11, read off: bounds of the elephant's JCT under Justitia, almost flat."""

TOKENS_OVER_KVTT: Final = PaperNumber(1.423, "Fig. 12: 42.3 % worse with p + 2d, at 2x")

PREDICTOR_ERROR: Final = PaperNumber(0.53, "Table II, the paper's MLP")
DISTILBERT_ERROR: Final = PaperNumber(4.52, "Table II, DistilBERT (S3)")
PREDICTOR_JCT_S: Final = PaperNumber(151.1, "Table II, the paper's MLP")
DISTILBERT_JCT_S: Final = PaperNumber(366.7, "Table II, DistilBERT (S3)")

OVERHEAD_MS: Final[Mapping[int, PaperNumber]] = MappingProxyType(
    {
        15: PaperNumber(0.778, "Table III"),
        20: PaperNumber(1.827, "Table III"),
        30: PaperNumber(3.076, "Table III"),
        50: PaperNumber(5.190, "Table III"),
        100: PaperNumber(8.093, "Table III"),
    }
)
"""Time of a scheduling decision by runs that arrive in a minute."""
