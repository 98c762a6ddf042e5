"""Reads an exposition from standard input with the parsers of prometheus-client, and reckons quantiles of its histograms as Prometheus does."""

import math
import sys
from collections import defaultdict

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus


def quantile(share, buckets):
    """histogram_quantile, of (bound, count so far)."""
    buckets.sort()
    all_of_it = buckets[-1][1]
    if not all_of_it or not math.isinf(buckets[-1][0]):
        return math.nan
    below = (0.0, 0.0)
    for bound, count in buckets:
        if count >= share * all_of_it:
            if math.isinf(bound):
                return below[0]
            return below[0] + (bound - below[0]) * (share * all_of_it - below[1]) / (count - below[1])
        below = (bound, count)
    return math.nan


def main():
    text = sys.stdin.read()
    wrong = []
    for name, parse in (("openmetrics", openmetrics), ("prometheus", prometheus)):
        try:
            families = list(parse(text))
        except ValueError as error:
            wrong.append(f"{name}: {error}")
            continue
        histograms = [family for family in families if family.type == "histogram"]
        quantiles = 0
        for family in histograms:
            series = defaultdict(list)
            for sample in family.samples:
                if sample.name.endswith("_bucket"):
                    others = tuple(sorted((key, value) for key, value in sample.labels.items() if key != "le"))
                    series[others].append((float(sample.labels["le"]), sample.value))
            for labels, buckets in series.items():
                if max(count for _, count in buckets) and math.isnan(quantile(0.99, buckets)):
                    wrong.append(f"{name}: {family.name} {dict(labels)} has no quantile")
                quantiles += 1
        print(f"{name}: {len(families)} families, {len(histograms)} of them histograms, with {quantiles} series")
    for sentence in wrong:
        print(sentence)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
