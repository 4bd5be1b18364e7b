import math

import pytest

from justitia.predictor.samples import Sample


@pytest.mark.parametrize(
    "changes",
    [{"application": ""}, {"application": "a" * 513}, {"prompt": b"bytes"}, {"cost_kvtt": "7"}],
)
def test_a_sample_of_wrong_types_is_refused_by_field(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        Sample(**{"application": "a", "prompt": "p", "cost_kvtt": 1.0} | changes)


def test_a_sample_may_hold_a_broken_cost():
    assert math.isnan(Sample(application="a", prompt="p", cost_kvtt=math.nan).cost_kvtt)
