# SPDX-License-Identifier: PostgreSQL
"""The queries' parameters: validation values, and values drawn for streams.

Each query has named parameters.  The specification's answers at scale factor 1 hold for the
validation values, and every single stream runs with them.  Several streams at once must use
different values, so all but the first draw theirs from the domains of TPC-H 3.0.1, clause 2.4, with
a seed.
"""

from collections.abc import Mapping
from datetime import date
from random import Random

#: A parameter's value; a tuple represents a list of values.
Value = str | int | float | date | tuple[int, ...] | tuple[str, ...]
Values = Mapping[str, Value]

QUERIES = tuple(range(1, 23))

NATIONS = (
    ("ALGERIA", "AFRICA"), ("ARGENTINA", "AMERICA"), ("BRAZIL", "AMERICA"),
    ("CANADA", "AMERICA"), ("EGYPT", "MIDDLE EAST"), ("ETHIOPIA", "AFRICA"),
    ("FRANCE", "EUROPE"), ("GERMANY", "EUROPE"), ("INDIA", "ASIA"), ("INDONESIA", "ASIA"),
    ("IRAN", "MIDDLE EAST"), ("IRAQ", "MIDDLE EAST"), ("JAPAN", "ASIA"),
    ("JORDAN", "MIDDLE EAST"), ("KENYA", "AFRICA"), ("MOROCCO", "AFRICA"),
    ("MOZAMBIQUE", "AFRICA"), ("PERU", "AMERICA"), ("CHINA", "ASIA"), ("ROMANIA", "EUROPE"),
    ("SAUDI ARABIA", "MIDDLE EAST"), ("VIETNAM", "ASIA"), ("RUSSIA", "EUROPE"),
    ("UNITED KINGDOM", "EUROPE"), ("UNITED STATES", "AMERICA"),
)  # fmt: skip
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
SHIPMODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
#: A type is one word of each.
TYPE_SIZES = ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO")
TYPE_FINISHES = ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED")
TYPE_METALS = ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER")
CONTAINER_SIZES = ("SM", "LG", "MED", "JUMBO", "WRAP")
CONTAINER_KINDS = ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")
COMMENT_ADJECTIVES = ("special", "pending", "unusual", "express")
COMMENT_NOUNS = ("packages", "requests", "accounts", "deposits")
_COLOR_WORDS = """
almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished
chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab
firebrick floral forest frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory
khaki lace lavender lawn lemon light lime linen magenta maroon medium metallic midnight mint
misty moccasin navajo navy olive orange orchid pale papaya peach peru pink plum powder puff
purple red rose rosy royal saddle salmon sandy seashell sienna sky slate smoke snow spring steel
tan thistle tomato turquoise violet wheat white yellow
"""
COLORS = tuple(_COLOR_WORDS.split())

#: Phone numbers begin with the nation's number plus this.
_CODE_BASE = 10


def validation_values(query: int, *, scale_factor: float) -> Values:
    """Return the values for which the specification's answers hold."""
    return _VALIDATION[query] | _of_scale(query, scale_factor)


def draw_values(query: int, *, scale_factor: float, random: Random) -> Values:
    """Draw a query's values from their domains."""
    return _draw(query, random) | _of_scale(query, scale_factor)


def _of_scale(query: int, scale_factor: float) -> dict[str, Value]:
    """Return the values that depend on the database's size alone."""
    return {"fraction": 0.0001 / scale_factor} if query == 11 else {}


_VALIDATION: dict[int, dict[str, Value]] = {
    1: {"delta_days": 90},
    2: {"size": 15, "type": "BRASS", "region": "EUROPE"},
    3: {"segment": "BUILDING", "date": date(1995, 3, 15)},
    4: {"date": date(1993, 7, 1)},
    5: {"region": "ASIA", "date": date(1994, 1, 1)},
    6: {"date": date(1994, 1, 1), "discount": 0.06, "quantity": 24},
    7: {"nation1": "FRANCE", "nation2": "GERMANY"},
    8: {"nation": "BRAZIL", "region": "AMERICA", "type": "ECONOMY ANODIZED STEEL"},
    9: {"color": "green"},
    10: {"date": date(1993, 10, 1)},
    11: {"nation": "GERMANY"},
    12: {"shipmode1": "MAIL", "shipmode2": "SHIP", "date": date(1994, 1, 1)},
    13: {"word1": "special", "word2": "requests"},
    14: {"date": date(1995, 9, 1)},
    15: {"date": date(1996, 1, 1)},
    16: {
        "brand": "Brand#45",
        "type": "MEDIUM POLISHED",
        "sizes": (49, 14, 23, 45, 19, 3, 36, 9),
    },
    17: {"brand": "Brand#23", "container": "MED BOX"},
    18: {"quantity": 300},
    19: {
        "quantity1": 1, "quantity2": 10, "quantity3": 20,
        "brand1": "Brand#12", "brand2": "Brand#23", "brand3": "Brand#34",
    },
    20: {"color": "forest", "date": date(1994, 1, 1), "nation": "CANADA"},
    21: {"nation": "SAUDI ARABIA"},
    22: {"codes": ("13", "31", "23", "29", "30", "18", "17")},
}  # fmt: skip


def _draw(query: int, random: Random) -> dict[str, Value]:
    """Draw the values that do not depend on the scale factor."""
    nation, region = random.choice(NATIONS)
    other = random.choice([name for name, _ in NATIONS if name != nation])
    modes = random.sample(SHIPMODES, 2)
    year = date(random.randint(1993, 1997), 1, 1)
    kind = (random.choice(TYPE_SIZES), random.choice(TYPE_FINISHES), random.choice(TYPE_METALS))
    domains: dict[int, dict[str, Value]] = {
        1: {"delta_days": random.randint(60, 120)},
        2: {"size": random.randint(1, 50), "type": kind[2], "region": random.choice(REGIONS)},
        3: {"segment": random.choice(SEGMENTS), "date": date(1995, 3, random.randint(1, 31))},
        4: {"date": _month(random, date(1993, 1, 1), date(1997, 10, 1))},
        5: {"region": random.choice(REGIONS), "date": year},
        6: {
            "date": year,
            "discount": random.randint(2, 9) / 100,
            "quantity": random.randint(24, 25),
        },
        7: {"nation1": nation, "nation2": other},
        8: {"nation": nation, "region": region, "type": " ".join(kind)},
        9: {"color": random.choice(COLORS)},
        10: {"date": _month(random, date(1993, 2, 1), date(1995, 1, 1))},
        11: {"nation": nation},
        12: {"shipmode1": modes[0], "shipmode2": modes[1], "date": year},
        13: {
            "word1": random.choice(COMMENT_ADJECTIVES),
            "word2": random.choice(COMMENT_NOUNS),
        },
        14: {"date": _month(random, date(1993, 1, 1), date(1997, 12, 1))},
        15: {"date": _month(random, date(1993, 1, 1), date(1997, 10, 1))},
        16: {
            "brand": _brand(random),
            "type": " ".join(kind[:2]),
            "sizes": tuple(random.sample(range(1, 51), 8)),
        },
        17: {
            "brand": _brand(random),
            "container": f"{random.choice(CONTAINER_SIZES)} {random.choice(CONTAINER_KINDS)}",
        },
        18: {"quantity": random.randint(312, 315)},
        19: {
            "quantity1": random.randint(1, 10),
            "quantity2": random.randint(10, 20),
            "quantity3": random.randint(20, 30),
            "brand1": _brand(random),
            "brand2": _brand(random),
            "brand3": _brand(random),
        },
        20: {"color": random.choice(COLORS), "date": year, "nation": nation},
        21: {"nation": nation},
        22: {
            "codes": tuple(
                str(_CODE_BASE + number) for number in random.sample(range(len(NATIONS)), 7)
            )
        },
    }
    return domains[query]


def _brand(random: Random) -> str:
    return f"Brand#{random.randint(1, 5)}{random.randint(1, 5)}"


def _month(random: Random, first: date, last: date) -> date:
    """Draw the first day of a month."""
    months = random.randint(first.year * 12 + first.month - 1, last.year * 12 + last.month - 1)
    return date(months // 12, months % 12 + 1, 1)
