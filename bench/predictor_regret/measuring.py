"""Mean JCT and ratios of plays, by those of the same runs with exact costs."""

import statistics

from justitia.sim.limits import played_gps_jcts_s

#: A run whose rho_ps is above this counts as harmed; it is the goal of the worst one.
HARMED = 1.3


def measures(plays, longest_s):
    """Mean JCT by that with exact costs, and ratios, by way.

    How much later than the reference harmed runs end is told in longest inferences, ``longest_s``
    on an engine to itself: an order that takes nothing away from what computes cannot promise less
    than one (rule D1).
    """
    exact = plays["exact"]
    references_s = played_gps_jcts_s(exact)
    mean_s = exact.summarize().mean_jct_s
    rows = {}
    for name, played in plays.items():
        pairs = [(run.jct_s, ref_s) for run, ref_s in zip(played.runs, references_s, strict=True)]
        ratios = [jct_s / ref_s for jct_s, ref_s in pairs]
        late_s = [jct_s - ref_s for jct_s, ref_s in pairs if jct_s > HARMED * ref_s]
        rows[name] = {
            "mean_jct_over_exact": played.summarize().mean_jct_s / mean_s,
            "worst_rho_ps": max(ratios),
            "share_harmed": statistics.fmean(ratio > HARMED for ratio in ratios),
            "worst_late_over_longest": max(late_s, default=0.0) / longest_s,
            "worst_rho": played.summarize().worst_ratio,
        }
    return rows


def over_shelves(rows):
    """One seed's rows, a shelf each: the mean of means and shares, the worst of the worst."""
    return {
        way: {
            what: (max if what.startswith("worst") else statistics.fmean)(
                row[way][what] for row in rows
            )
            for what in rows[0][way]
        }
        for way in rows[0]
    }
