import numpy as np

from coopbench.statistics import moments, t_interval


def test_moments_of_samples_together_are_those_of_each_alone():
    rng = np.random.default_rng(0)
    samples = [rng.normal(size=size) for size in (1000, 3, 1000, 1, 37, 3)]
    samples += [np.full(10, 0.1), np.empty(0)]
    together = moments(samples, 0.9)
    for sample, found in zip(samples[:-1], together, strict=False):
        interval = t_interval(sample, 0.9)
        assert found.mean == interval.estimate == sample.mean()
        ends = found.mean - found.half, found.mean + found.half
        np.testing.assert_array_equal(ends, (interval.low, interval.high))
        if np.ptp(sample):
            assert found.std == sample.std(ddof=1)
    assert together[-2].std == together[-2].half == 0.0
    assert np.isnan(together[3].std)
    assert np.isnan(together[-1]).all()
