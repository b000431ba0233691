"""How often `adjourn reflect` finds a pattern that was planted in 60 chains, and how often it finds one where there is none.

python tests/bench/reflecting.py [HISTORIES]      HISTORIES (200): of each kind
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from adjourn.checkpoints.reflection import statistics
from support.chains import MISSIONS, PLANTS, history


def main(histories: int) -> None:
    wrong: Counter[str] = Counter()
    false = 0
    for seed in range(histories):
        found = {statistic.name for statistic in statistics(history(seed)) if statistic.heuristic}
        wrong.update(found)
        false += bool(found)
    print(
        f"no pattern: {false} of {histories} histories have a heuristic ({false / histories:.1%}) {dict(wrong) or ''}"
    )
    print("pattern    in 85 % of 60 chains    in one of three missions, 95 % of its 20 chains    others found")
    for name, plant in PLANTS.items():
        everywhere, of_mission, others = 0, 0, 0
        for seed in range(histories):
            found = {statistic.name for statistic in statistics(history(seed, plant=plant)) if statistic.heuristic}
            everywhere += name in found
            others += bool(found - {name})
            plain = history(seed)
            planted = history(seed + 1, plant=plant, share=0.95)
            mixed = [planted[at] if chain[-1].mission == MISSIONS[0] else chain for at, chain in enumerate(plain)]
            told = [one for one in statistics(mixed) if one.name == name and one.heuristic]
            of_mission += bool(told)
        print(f"{name:10} {everywhere / histories:>18.1%} {of_mission / histories:>48.1%} {others / histories:>22.1%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
