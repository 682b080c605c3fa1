"""Makes the facts of this example, always the same ones: `python make_facts.py`."""

from __future__ import annotations

import csv
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

FACTS = Path(__file__).resolve().parent / "facts"
START = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
COUNTRIES = ("at", "be", "ch")
SHOPS = ("bakery", "books", "cinema", "garage", "hotel", "shoes")


def main() -> None:
    chance = random.Random(20260504)
    cards = {f"c{n:03}": chance.choice(COUNTRIES) for n in range(1, 41)}
    thieves = set(chance.sample(sorted(cards), 6))
    payments: list[tuple[datetime, str, str, float, str]] = []
    for minute in range(120):
        at = START + timedelta(minutes=minute)
        for card, home in cards.items():
            if chance.random() < 0.06:
                second = at + timedelta(seconds=chance.randint(0, 59))
                amount = round(chance.lognormvariate(3, 1), 2)
                payments.append((second, card, chance.choice(SHOPS), amount, home))
        for card in sorted(thieves):
            if chance.random() < 0.03:
                payments += theft(chance, card, cards[card], at)
    payments.sort()
    FACTS.mkdir(exist_ok=True)
    with (FACTS / "Pay.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("id", "card", "shop", "amount", "country", "at"))
        for n, (at, card, shop, amount, country) in enumerate(payments, 1):
            stamp = f"{at:%Y-%m-%dT%H:%M:%SZ}"
            writer.writerow((f"p{n:04}", card, shop, amount, country, stamp))


def theft(
    chance: random.Random, card: str, home: str, at: datetime
) -> list[tuple[datetime, str, str, float, str]]:
    """What a thief does with a card: tries it first, pays abroad, or goes from shop to shop."""
    later = at + timedelta(minutes=chance.randint(1, 4))
    kind = chance.choice(("tries", "abroad", "shops"))
    if kind == "tries":
        return [(at, card, "books", 1.0, home), (later, card, "garage", 899.0, home)]
    if kind == "abroad":
        away = next(country for country in COUNTRIES if country != home)
        return [(at, card, "hotel", 120.0, home), (later, card, "shoes", 80.0, away)]
    return [
        (at + timedelta(seconds=7 * i), card, shop, 49.9, home) for i, shop in enumerate(SHOPS[:3])
    ]


if __name__ == "__main__":
    main()
