"""The paper's nine types of applications as tables: stages, fan-out and lengths.

The paper (arXiv 2510.17015) names the types, says "a few to a few tens" of parallel inferences and
an optional reduce, and gives few lengths. What it gives is cited; everything else is synthetic,
chosen so that the rivals fare on it as they do in the paper: with 300 runs in 6 minutes on its A100
(459 blocks of 16 tokens, LLaMA-7B), five times what that engine can do in the time, Parrot's and
VTC's mean JCT are near those of the paper's Fig. 8. ``docs/workloads.md`` tells how they were
chosen, what does not fit, and which seeds were used up by it.

The page also shows these tables; ``reference`` renders them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from justitia.sim.scenario import EnginePlan
from justitia.sim.workloads.kind import Kind, SizeClass, Stage, Waits
from justitia.sim.workloads.spread import Spread, fixed

PAPER: Final = "arXiv 2510.17015 (digest)"
_OUTPUTS: Final = f"{PAPER}: of the order of 1,000; median, spread and bounds synthetic"
_PARTS: Final = f"{PAPER}: inputs 0 to 600 and more; median, spread and bounds synthetic"
_QUERIES: Final = f"{PAPER}: 360 to 380 with instructions; how it is divided, synthetic"
GRAPH_OF_THOUGHTS: Final = "after Graph of Thoughts, arXiv 2308.09687"
FACTOOL: Final = "after FacTool, arXiv 2307.13528"
REACT: Final = "after ReAct, arXiv 2210.03629"
SELF_CONSISTENCY: Final = "after arXiv 2203.11171"

MAX_CONTEXT_TOKENS: Final = 4096
"""Prompt and output of one inference together: the context of LLaMA-2-7B."""

PAPER_ENGINE: Final = EnginePlan(
    blocks=459,
    block_size_tokens=16,
    max_model_len_tokens=MAX_CONTEXT_TOKENS,
    has_prefix_cache=False,
)
"""The paper's first testbed. Its cost model knows no prefix cache, so there is none here."""

FULL_STEP_S: Final = 0.0122
"""A decode step of ``PAPER_ENGINE`` with a full cache and a dozen sequences, by the model
``a100-llama2-7b``: 9.76 ms for weights, 7,344 x 0.32 us for keys and values, 12 x 5 us."""


MAP_REDUCE = Kind(
    name="map-reduce-summarization",
    abbreviation="MRS",
    about="summarize the parts of a long document in parallel, then the summaries",
    size_class=SizeClass.LARGE,
    text=fixed(0),
    shape_source=PAPER,
    stages=(
        Stage(
            name="map",
            count=Spread(14, 0.5, 4, 45, own=0.0),
            instructions=fixed(60),
            own=Spread(300, 0.5, 20, 640, source=_PARTS),
            output=Spread(700, 0.25, 200, 1400, source=_OUTPUTS),
        ),
        Stage(
            name="reduce",
            count=fixed(1),
            instructions=fixed(80),
            reads_output_tokens=2400,
            output=Spread(900, 0.2, 300, 1400, source=_OUTPUTS),
        ),
    ),
)

PLAN_AND_EXECUTE = Kind(
    name="plan-and-execute",
    abbreviation="PE",
    about="plan, carry out the steps in parallel, put the results together",
    size_class=SizeClass.MEDIUM,
    text=Spread(250, 0.4, 60, 800),
    stages=(
        Stage(
            name="plan",
            count=fixed(1),
            instructions=fixed(400),
            reads_text=True,
            output=Spread(250, 0.3, 80, 600),
        ),
        Stage(
            name="execute",
            count=Spread(4, 0.3, 2, 9, own=0.0),
            instructions=fixed(350),
            reads_text=True,
            own=Spread(120, 0.4, 30, 400),
            reads_output_tokens=300,
            output=Spread(230, 0.4, 60, 700),
        ),
        Stage(
            name="answer",
            count=fixed(1),
            instructions=fixed(350),
            reads_text=True,
            reads_output_tokens=2000,
            output=Spread(210, 0.3, 80, 600),
        ),
    ),
)

CODE_CHECKING = Kind(
    name="code-checking",
    abbreviation="CC",
    about="check a piece of code in several ways in parallel, then judge it",
    size_class=SizeClass.SMALL,
    text=Spread(500, 0.4, 100, 1400),
    shape_source=FACTOOL,
    stages=(
        Stage(
            name="check",
            count=Spread(4, 0.3, 2, 10, own=0.0),
            instructions=fixed(200),
            reads_text=True,
            own=Spread(60, 0.3, 20, 150),
            output=Spread(180, 0.4, 40, 800),
        ),
        Stage(
            name="verdict",
            count=fixed(1),
            instructions=fixed(200),
            reads_text=True,
            reads_output_tokens=1600,
            output=Spread(40, 0.3, 15, 150),
        ),
    ),
)

KBQA_VERIFICATION = Kind(
    name="kbqa-verification",
    abbreviation="KBQAV",
    about="take an answer apart into claims, verify each against a knowledge base",
    size_class=SizeClass.SMALL,
    text=Spread(300, 0.4, 80, 900),
    shape_source=FACTOOL,
    stages=(
        Stage(
            name="claims",
            count=fixed(1),
            instructions=fixed(220),
            reads_text=True,
            output=Spread(130, 0.3, 40, 400),
        ),
        Stage(
            name="verify",
            count=Spread(5, 0.35, 2, 14, own=0.0),
            instructions=fixed(260),
            own=Spread(450, 0.3, 100, 1000),
            output=Spread(100, 0.35, 30, 400),
            pause_s=(0.05, 0.3),
        ),
    ),
)

EQUATION_VERIFICATION = Kind(
    name="equation-verification",
    abbreviation="EV",
    about="take the equations out of a text, verify each step by step",
    size_class=SizeClass.SMALL,
    text=Spread(300, 0.4, 80, 900),
    shape_source=FACTOOL,
    stages=(
        Stage(
            name="equations",
            count=fixed(1),
            instructions=fixed(250),
            reads_text=True,
            output=Spread(140, 0.3, 40, 500),
        ),
        Stage(
            name="verify",
            count=Spread(5, 0.35, 2, 14, own=0.0),
            instructions=fixed(240),
            own=Spread(120, 0.3, 40, 300),
            output=Spread(180, 0.4, 40, 800),
        ),
    ),
)

FACT_VERIFICATION = Kind(
    name="fact-verification",
    abbreviation="FV",
    about="take a text apart into claims; for each a search query, a search and a verdict",
    size_class=SizeClass.SMALL,
    text=Spread(350, 0.4, 100, 1000),
    shape_source=FACTOOL,
    stages=(
        Stage(
            name="claims",
            count=fixed(1),
            instructions=fixed(300),
            reads_text=True,
            output=Spread(150, 0.3, 40, 500),
        ),
        Stage(
            name="generate-queries",
            count=Spread(4, 0.35, 2, 12, own=0.0),
            instructions=fixed(340, _QUERIES),
            own=Spread(30, 0.2, 20, 40, own=1.0, source=_QUERIES),
            output=Spread(40, 0.3, 15, 150),
        ),
        Stage(
            name="verify",
            count=None,
            instructions=fixed(350),
            own=Spread(900, 0.25, 300, 1800),
            output=Spread(110, 0.35, 30, 400),
            waits=Waits.EACH,
            pause_s=(0.5, 2.0),
        ),
    ),
)

ALFWORLD = Kind(
    name="alfworld-interaction",
    abbreviation="ALFWI",
    about="act in a text world: one short inference after another, each with the history",
    size_class=SizeClass.SMALL,
    text=Spread(60, 0.2, 30, 120),
    shape_source=REACT,
    stages=(
        Stage(
            name="act",
            count=Spread(11, 0.35, 5, 28, own=0.0),
            instructions=fixed(600),
            reads_text=True,
            # What the world answers to each action.
            own=Spread(60, 0.3, 20, 75),
            output=Spread(35, 0.2, 20, 45),
            waits=Waits.CHAIN,
            pause_s=(0.05, 0.3),
        ),
    ),
)

DOCUMENT_MERGING = Kind(
    name="document-merging",
    abbreviation="DM",
    about="merge documents several times in parallel, score the drafts, merge the best",
    size_class=SizeClass.LARGE,
    text=Spread(900, 0.25, 400, 1500),
    shape_source=GRAPH_OF_THOUGHTS,
    stages=(
        Stage(
            name="generate",
            count=Spread(6, 0.2, 3, 10, own=0.0),
            instructions=fixed(150),
            reads_text=True,
            output=Spread(780, 0.25, 250, 1100, own=0.3, source=_OUTPUTS),
        ),
        Stage(
            name="score",
            count=None,
            instructions=fixed(150),
            reads_text=True,
            reads_output_tokens=1100,
            output=Spread(40, 0.3, 10, 100),
            waits=Waits.EACH,
        ),
        Stage(
            name="merge",
            count=fixed(1),
            instructions=fixed(150),
            reads_text=True,
            # The scores, and two of the drafts that they name.
            own=Spread(1300, 0.2, 500, 1300),
            output=Spread(780, 0.25, 250, 1100, own=0.3, source=_OUTPUTS),
        ),
    ),
)

SELF_CONSISTENT = Kind(
    name="self-consistency",
    abbreviation="SC",
    about="reason about one question many times in parallel; the majority wins",
    size_class=SizeClass.MEDIUM,
    text=Spread(120, 0.4, 40, 400),
    shape_source=SELF_CONSISTENCY,
    stages=(
        Stage(
            name="sample",
            count=Spread(8, 0.3, 4, 24, own=0.0),
            instructions=fixed(600),
            reads_text=True,
            output=Spread(280, 0.35, 70, 900),
        ),
    ),
)

KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            MAP_REDUCE,
            PLAN_AND_EXECUTE,
            CODE_CHECKING,
            KBQA_VERIFICATION,
            EQUATION_VERIFICATION,
            FACT_VERIFICATION,
            ALFWORLD,
            DOCUMENT_MERGING,
            SELF_CONSISTENT,
        )
    }
)
"""The nine types by name."""

MICE: Final = (KBQA_VERIFICATION, CODE_CHECKING, ALFWORLD)
"""The small ones of the paper's Fig. 11; its elephant is of map-reduce summarization."""
