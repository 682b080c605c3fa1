"""Makes the facts of this example, always the same ones: `python make_facts.py`."""

from __future__ import annotations

import csv
import random
from pathlib import Path

FACTS = Path(__file__).resolve().parent / "facts"
AUCTIONS = range(1, 13)
BIDDERS = range(101, 113)


def main() -> None:
    chance = random.Random(20260302)
    FACTS.mkdir(exist_ok=True)
    with (FACTS / "Bid.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("auction", "bidder", "price", "time"))
        for time in range(40):
            # Two auctions that everybody wants, for ten ticks; a tick may be without a bid.
            wanted = [2 * (time // 10) + 1, 2 * (time // 10) + 2]
            for bidder in sorted(chance.sample(BIDDERS, chance.randint(0, 8))):
                auction = chance.choice(wanted if chance.random() < 0.5 else AUCTIONS)
                writer.writerow((auction, bidder, chance.randint(1, 500), time))


if __name__ == "__main__":
    main()
