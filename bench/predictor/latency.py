"""How long one prediction takes: alone, within the service, and the usual way."""

import itertools
import time

import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from justitia.core.quantiles import quantile
from justitia.predictor.serving import PredictorService

USUAL_WIDTHS = (64, 32, 16, 1)


def usual_way(prompts):
    """A fitted TfidfVectorizer and four layers in torch, one row at a time."""
    vectoriser = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), max_features=2048)
    vectoriser.fit(prompts)
    widths = (len(vectoriser.vocabulary_), *USUAL_WIDTHS)
    layers = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers[:-1]).eval()

    def predict(prompt):
        with torch.inference_mode():
            row = vectoriser.transform([prompt]).toarray().astype("float32")
            return float(network(torch.from_numpy(row))[0, 0])

    return predict


async def measure(models, prompts_by_application, rounds):
    """Time each prompt in turn in all ways; return seconds by way."""
    service = PredictorService()
    times_s = {"served": [], "within": [], "usual": []}
    for name, model in models.items():
        service.activate(model)
        prompts = prompts_by_application[name]
        usual = usual_way(prompts)
        for prompt in prompts * rounds:
            started_s = time.perf_counter()
            model.predict(prompt)
            served_s = time.perf_counter()
            answer = await service.predict_within(name, prompt, deadline_s=1.0)
            within_s = time.perf_counter()
            assert answer is not None
            usual(prompt)
            times_s["served"].append(served_s - started_s)
            times_s["within"].append(within_s - served_s)
            times_s["usual"].append(time.perf_counter() - within_s)
    service.close()
    return times_s


def figures_of(times_s):
    within = times_s["within"]
    p50 = {what: quantile(times, 0.5) for what, times in times_s.items()}
    return {
        "p50_ms": round(quantile(within, 0.5) * 1e3, 3),
        "p99_ms": round(quantile(within, 0.99) * 1e3, 3),
        "served_p50_ms": round(p50["served"] * 1e3, 3),
        "served_p99_ms": round(quantile(times_s["served"], 0.99) * 1e3, 3),
        "usual_p50_ms": round(p50["usual"] * 1e3, 3),
        "usual_p99_ms": round(quantile(times_s["usual"], 0.99) * 1e3, 3),
        "served_over_usual": round(p50["served"] / p50["usual"], 3),
    }
