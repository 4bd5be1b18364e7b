"""A small transformer encoder on words, trained from scratch: a stand-in for S³.

S³ fine-tunes DistilBERT (66 million parameters, pretrained on English). Neither those weights nor
hours of training are at hand here: this one has two layers of width 64 and only what it is shown.
Its figures say what attention over words makes of so few samples, not what S³ would.
"""

import zlib

import numpy as np
import torch
from torch import nn

from justitia.predictor.features import excerpt_of, words_of

NUM_WORDS = 2048
MAX_WORDS = 128
WIDTH = 64
NUM_STEPS = 150
BATCH = 16


class _Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(NUM_WORDS, WIDTH, padding_idx=0)
        self.places = nn.Embedding(MAX_WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 2 * WIDTH, dropout=0.1, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, rows):
        is_padding = rows == 0
        is_padding[:, 0] = False  # an empty text attends to one padding rather than to nothing
        hidden = self.words(rows) + self.places.weight[: rows.shape[1]]
        hidden = self.layers(hidden, src_key_padding_mask=is_padding)
        kept = (~is_padding).unsqueeze(2)
        return self.out((hidden * kept).sum(1) / kept.sum(1)).squeeze(1)


class Encoder:
    def fit(self, prompts, log_costs):
        torch.manual_seed(0)
        rng = np.random.default_rng(0)
        self.mean, self.std = float(np.mean(log_costs)), max(float(np.std(log_costs)), 1e-6)
        targets = torch.tensor((log_costs - self.mean) / self.std, dtype=torch.float32)
        rows = _rows(prompts)
        self.network = _Network().train()
        optimiser = torch.optim.AdamW(self.network.parameters(), lr=1e-3, weight_decay=0.05)
        for _ in range(NUM_STEPS):
            batch = torch.from_numpy(rng.choice(len(prompts), min(BATCH, len(prompts)), False))
            loss = nn.functional.smooth_l1_loss(self.network(_cut(rows[batch])), targets[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        self.network.eval()
        return self

    def predict(self, prompts):
        with torch.inference_mode():
            return self.network(_cut(_rows(prompts))).numpy() * self.std + self.mean


def _rows(prompts):
    """Words as hashes from 1 up, padded with 0: head and tail of what is too long."""
    rows = torch.zeros(len(prompts), MAX_WORDS, dtype=torch.long)
    for index, prompt in enumerate(prompts):
        words = words_of(excerpt_of(prompt))
        if len(words) > MAX_WORDS:
            words = words[: MAX_WORDS // 2] + words[-MAX_WORDS // 2 :]
        numbers = [1 + zlib.crc32(w.encode("utf-8", "replace")) % (NUM_WORDS - 1) for w in words]
        rows[index, : len(numbers)] = torch.tensor(numbers, dtype=torch.long)
    return rows


def _cut(rows):
    return rows[:, : max(1, int((rows != 0).sum(1).max()))]
