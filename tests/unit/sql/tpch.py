"""Small random tables with the columns of TPC-H, and values that its 22 queries ask for.

Does not belong here: the queries (tpch.yaml). The values are drawn so that each query finds
something, not as the benchmark's own generator draws them.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal

from tests.unit.sql.piecewise import Table

NATIONS = ["FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA", "INDIA", "CHINA"]
REGIONS = ["EUROPE", "AMERICA", "ASIA", "MIDDLE EAST"]
REGION_OF = [0, 0, 1, 1, 3, 2, 2]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "5-LOW"]
BRANDS = ["Brand#12", "Brand#23", "Brand#34", "Brand#45"]
CONTAINERS = ["SM CASE", "MED BOX", "LG BOX", "MED BAG"]
TYPES = [
    "ECONOMY ANODIZED STEEL",
    "PROMO BURNISHED BRASS",
    "LARGE PLATED BRASS",
    "MEDIUM POLISHED TIN",
]
SUPPLIERS, PARTS, CUSTOMERS, ORDERS = 14, 40, 40, 260
FIRST, DAYS = date(1993, 6, 1), 1_400

KEY, TEXT, MONEY, DAY = "INT", "VARCHAR", "DECIMAL(15,2)", "DATE"


def _columns(prefix: str, **kinds: str) -> dict[str, str]:
    return {f"{prefix}_{name}": kind for name, kind in kinds.items()}


def _money(chance: random.Random, low: int, high: int) -> Decimal:
    return Decimal(chance.randint(low * 100, high * 100)) / 100


def tpch_tables(seed: int) -> dict[str, Table]:
    chance = random.Random(seed)
    orders = [_order(chance, n) for n in range(ORDERS)]
    return {
        "region": Table(_columns("r", regionkey=KEY, name=TEXT), list(enumerate(REGIONS))),
        "nation": Table(
            _columns("n", nationkey=KEY, name=TEXT, regionkey=KEY),
            [(n, name, REGION_OF[n]) for n, name in enumerate(NATIONS)],
        ),
        "supplier": Table(
            _columns(
                "s", suppkey=KEY, name=TEXT, address=TEXT, nationkey=KEY, phone=TEXT, acctbal=MONEY, comment=TEXT
            ),
            [_supplier(chance, n) for n in range(SUPPLIERS)],
        ),
        "part": Table(
            _columns("p", partkey=KEY, name=TEXT, mfgr=TEXT, brand=TEXT, type=TEXT, size=KEY, container=TEXT),
            [_part(chance, n) for n in range(PARTS)],
        ),
        "partsupp": Table(
            _columns("ps", partkey=KEY, suppkey=KEY, availqty=KEY, supplycost=MONEY),
            [
                (p, s, chance.randint(1, 9999), _money(chance, 1, 1000))
                for p in range(PARTS)
                for s in chance.sample(range(SUPPLIERS), 6)
            ],
        ),
        "customer": Table(
            _columns(
                "c", custkey=KEY, name=TEXT, address=TEXT, nationkey=KEY, phone=TEXT, acctbal=MONEY, mktsegment=TEXT,
                comment=TEXT,
            ),
            [_customer(chance, n) for n in range(CUSTOMERS)],
        ),
        "orders": Table(
            _columns(
                "o", orderkey=KEY, custkey=KEY, orderstatus=TEXT, totalprice=MONEY, orderdate=DAY, orderpriority=TEXT,
                shippriority=KEY, comment=TEXT,
            ),
            orders,
        ),
        "lineitem": Table(
            _columns(
                "l", orderkey=KEY, partkey=KEY, suppkey=KEY, linenumber=KEY, quantity=MONEY, extendedprice=MONEY,
                discount=MONEY, tax=MONEY, returnflag=TEXT, linestatus=TEXT, shipdate=DAY, commitdate=DAY,
                receiptdate=DAY, shipinstruct=TEXT, shipmode=TEXT,
            ),
            [_line(chance, order, n) for order in orders for n in range(chance.randint(1, 7))],
        ),
    }  # fmt: skip


def _supplier(chance: random.Random, n: int) -> tuple:
    comment = "many Customer old Complaints" if n == 3 else "fine"
    return (n, f"S{n}", f"at {n}", n % len(NATIONS), f"{n:02}", _money(chance, -99, 999), comment)


def _part(chance: random.Random, n: int) -> tuple:
    name = chance.choice(["forest green", "dark green", "red", "forest blue"])
    size = chance.choice([1, 3, 5, 9, 14, 15, 15])
    kind = chance.choice(TYPES)
    return (n, name, f"M{n % 3}", chance.choice(BRANDS), kind, size, chance.choice(CONTAINERS))


def _customer(chance: random.Random, n: int) -> tuple:
    phone = f"{chance.choice([13, 31, 23, 99])}-{n}"
    segment = chance.choice(["BUILDING", "MACHINERY"])
    return (
        n,
        f"C{n}",
        f"at {n}",
        chance.randrange(len(NATIONS)),
        phone,
        _money(chance, -99, 999),
        segment,
        "x",
    )


def _order(chance: random.Random, n: int) -> tuple:
    day = FIRST + timedelta(days=chance.randrange(DAYS))
    comment = "special packages requests" if chance.random() < 0.2 else "plain"
    customer = chance.randrange(CUSTOMERS - 8)  # some never order
    status, priority = chance.choice("FFO"), chance.choice(PRIORITIES)
    return (n, customer, status, _money(chance, 100, 9000), day, priority, 0, comment)


def _line(chance: random.Random, order: tuple, number: int) -> tuple:
    ship = order[4] + timedelta(days=chance.randint(1, 120))
    commit = order[4] + timedelta(days=chance.randint(30, 120))
    received = ship + timedelta(days=chance.randint(1, 30))
    quantity = chance.choice([2, 5, 15, 40, 50, 50, 50])
    mode = chance.choice(["AIR", "AIR REG", "MAIL", "SHIP"])
    how = chance.choice(["DELIVER IN PERSON", "NONE"])
    return (
        order[0], chance.randrange(PARTS), chance.randrange(SUPPLIERS), number, Decimal(quantity),
        _money(chance, 900, 9000), Decimal(chance.randint(0, 10)) / 100, Decimal(chance.randint(0, 8)) / 100,
        chance.choice("RAN"), chance.choice("OF"), ship, commit, received, how, mode,
    )  # fmt: skip
