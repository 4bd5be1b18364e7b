"""Time of one prediction, against scikit-learn and torch doing the same for one row.

    make bench NAME=predictor

Each application of examples/recordings has its model; each of its recorded prompts is predicted
once a round. What is timed in turn, prompt by prompt: the served prediction; the same through the
service under its deadline (with the way to its thread and back); and the usual way, a fitted
``TfidfVectorizer`` and the same layers in torch, without the length features.
"""

import asyncio
import json
import platform
import time
from pathlib import Path

import torch

from justitia.core.quantiles import quantile
from justitia.local.predictors import read_samples
from justitia.predictor.serving import PredictorService
from justitia.predictor.settings import TrainingSettings
from justitia.predictor.training import train_all
from justitia.predictor.vectoriser import build_vectoriser

RECORDINGS = Path("examples/recordings/runs.jsonl.gz")
#: Few steps: how long a prediction takes does not depend on what was learnt.
SETTINGS = TrainingSettings(max_steps=60)
ROUNDS = 20


def usual_way(model, prompts):
    vectoriser = build_vectoriser(max_terms=SETTINGS.max_terms, min_documents=2).fit(prompts)
    num_terms = len(vectoriser.vocabulary_)
    layers = []
    for index, (weight, bias) in enumerate(
        zip(model.network.weights, model.network.biases, strict=True)
    ):
        inputs = num_terms if index == 0 else weight.shape[0]
        layers += [torch.nn.Linear(inputs, len(bias)), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers[:-1]).eval()

    def predict(prompt):
        with torch.inference_mode():
            row = vectoriser.transform([prompt]).toarray()
            return float(network(torch.from_numpy(row))[0, 0])

    return predict


async def measure(samples, models):
    service = PredictorService()
    for model in models.values():
        service.activate(model)
    times_s = {"served": [], "within": [], "usual": []}
    for name, model in models.items():
        prompts = [sample.prompt for sample in samples[name]]
        usual = usual_way(model, prompts)
        for prompt in prompts * ROUNDS:
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


def main():
    torch.set_num_threads(1)
    samples = read_samples(RECORDINGS)
    models = train_all(samples, settings=SETTINGS).models
    times_s = asyncio.run(measure(samples, models))
    p50 = {what: quantile(times, 0.5) for what, times in times_s.items()}
    figures = {
        f"{what}_{label}_ms": round(quantile(times, share) * 1e3, 3)
        for what, times in times_s.items()
        for label, share in (("p50", 0.5), ("p99", 0.99))
    }
    figures["served_over_usual"] = round(p50["served"] / p50["usual"], 3)
    print(
        json.dumps(
            {
                "name": "predictor",
                "figures": figures,
                "reference": "scikit-learn's TfidfVectorizer.transform and the same layers in "
                "torch, one row, one thread, in the same process and in turn",
                "seeds": [SETTINGS.seed],
                "conditions": f"{len(times_s['served'])} predictions of recorded prompts of "
                f"{len(models)} applications; wall time; Python {platform.python_version()}",
            }
        )
    )


if __name__ == "__main__":
    main()
