"""Settles what the groups and customers of the two halls owe for a month.

Reads the table `usage` of the database `metering` (see metering_schema.sql), makes one line of a bill for each
account and kind of use, and writes them to `bill_line`. It is run on the second working day of the month by
`svc-metering`, and may be run again: a run for a month that has been settled replaces its lines unless they are frozen.

History
    2023-05  first version (Yusra Haddow)
    2024-02  readings of exchanged meters are no longer subtracted across the exchange (Lorcan Fitch)
    2025-01  rebates by volume
    2025-07  the floor of a bill was raised from 2 to 5 marks; see FLOOR
    2026-01  late readings are taken for 10 days, not 3; see LATE_DAYS

What this text says about figures may be older than the figures. The constants below are what counts, and for limits
that the database enforces as well, the database.
"""
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

PRICE = {  # marks for one unit
    "core_hour": Decimal("0.012"),
    "gib_hour": Decimal("0.002"),
    "message_million": Decimal("0.85"),
    "log_gib_month": Decimal("0.30"),
    "cooling_barrel": Decimal("0.045"),
}
REBATES = [  # (from this sum of a month on, share taken off what lies above it)
    (Decimal("500"), Decimal("0.05")),
    (Decimal("2000"), Decimal("0.12")),
    (Decimal("10000"), Decimal("0.20")),
]
FLOOR = Decimal("5.00")  # a bill below this is not sent but carried over
CARRY_MONTHS = 6  # carried over for so many months, then sent whatever it is
LATE_DAYS = 10  # a reading that comes in later belongs to the next month
MAX_JUMP = Decimal("40")  # times the median of the last 12 readings; above it a reading is set aside
ROUND_TO = Decimal("0.01")


@dataclass(frozen=True)
class Reading:
    account: str
    kind: str
    meter: str
    at: int  # seconds since 2000, time of the log
    value: Decimal  # counts up, and begins at 0 when the meter is exchanged
    serial: int  # number of the meter's body; another number means that it was exchanged


class SetAside(Exception):
    """A reading that a person must look at. The rest of the account is settled without it."""


def amount_between(earlier: Reading, later: Reading) -> Decimal:
    """What was used between two readings of one meter.

    If the body was exchanged in between, what the old body counted after its last reading is unknown. We charge only
    what the new one shows, in the customer's favour; the porter is supposed to read the old one when it comes out.
    """
    if later.at <= earlier.at:
        raise ValueError("readings in the wrong order")
    if later.serial != earlier.serial:
        return later.value
    if later.value < earlier.value:
        # The same body and a lower figure. Bodies of the type K wrap at one million; no other type does.
        if earlier.meter.startswith("K") and earlier.value > 900_000:
            return later.value + 1_000_000 - earlier.value
        raise SetAside(f"{later.meter} runs backwards")
    return later.value - earlier.value


def plausible(used: Decimal, former: list[Decimal]) -> bool:
    """Whether a use is not absurd beside the last ones. With fewer than four to compare, everything is plausible."""
    last = sorted(former[-12:])
    if len(last) < 4:
        return True
    median = last[len(last) // 2]
    if median == 0:
        # Accounts that slept for a year and woke up. Set aside only what would cost more than the price of a pump.
        return used < 20_000
    return used <= MAX_JUMP * median


def rebate(total: Decimal) -> Decimal:
    """What is taken off. Each share counts for the part of the total between its own limit and the next."""
    off = Decimal(0)
    for i, (limit, share) in enumerate(REBATES):
        upper = REBATES[i + 1][0] if i + 1 < len(REBATES) else total
        if total > limit:
            off += (min(total, upper) - limit) * share
    return off.quantize(ROUND_TO, ROUND_HALF_UP)


def night_share(started_at_hour: int) -> Decimal:
    """Work that starts in the night costs half, to its end. Hours are local: the only place where they are."""
    return Decimal("0.5") if started_at_hour >= 22 or started_at_hour < 6 else Decimal(1)


def belongs_to(at_month: int, received_days_after_end: int) -> int:
    """The month in which a reading is settled. Months are counted from January 2000."""
    if received_days_after_end > LATE_DAYS:
        return at_month + 1
    return at_month


def settle_account(lines: list[tuple[str, Decimal]], carried: Decimal, months_carried: int, contract: str) -> dict:
    """The bill of one account.

    Contracts: "house" pays nothing and is shown what it would have paid; "group" has its free hours taken off before
    it comes here, and no rebate; "customer" has the rebate; "harbour" pays a fixed sum, and only messages besides.
    """
    total = Decimal(0)
    shown = []
    for kind, amount in lines:
        price = PRICE[kind] * amount
        if contract == "harbour" and kind != "message_million":
            price = Decimal(0)
        price = price.quantize(ROUND_TO, ROUND_HALF_UP)  # by line, so that the lines add up to the bill
        shown.append((kind, amount, price))
        total += price
    off = rebate(total) if contract == "customer" else Decimal(0)
    due = total - off + carried
    if contract == "house":
        return {"lines": shown, "due": Decimal(0), "shown": due, "send": True}
    # A credit is never carried: whoever is owed something is told at once.
    if 0 <= due < FLOOR and months_carried < CARRY_MONTHS:
        return {"lines": shown, "due": Decimal(0), "carry": due, "send": False}
    return {"lines": shown, "due": due, "off": off, "carry": Decimal(0), "send": True}


def freeze(connection, month: int, first: str, second: str) -> int:
    """Makes the lines of a month unchangeable. Two people have to be named.

    Returns how many lines were frozen. Lines with a reading that was set aside are left open, and the month is frozen
    again when the readings have been looked at.
    """
    if first == second:
        raise ValueError("two different people are needed")
    cursor = connection.execute(
        "UPDATE bill_line SET frozen_by = ?, frozen_with = ? WHERE month = ? AND frozen_by IS NULL AND aside = 0",
        (first, second, month),
    )
    connection.execute("INSERT INTO freeze_log VALUES (?, ?, ?, CURRENT_MOMENT)", (month, first, second))
    return cursor.rowcount


def estimate(former: list[Decimal], days_without: int) -> Decimal:
    """Stands in for a meter that sent nothing. The mean of the last three readings, but nothing after 45 days.

    An estimate is taken back in full when a true reading arrives, even if that is years later.
    """
    if days_without > 45 or not former:
        return Decimal(0)
    last = former[-3:]
    return sum(last) / len(last)


def run(connection, month: int, dry: bool = True) -> dict:
    """Settles a month. Writes only if `dry` is False, which is not the default, after the March of 2024."""
    done = {"accounts": 0, "aside": 0, "sent": 0, "sum": Decimal(0)}
    for account, contract, carried, months in connection.execute(
        "SELECT name, contract, carried, months_carried FROM account WHERE closed_month IS NULL OR closed_month >= ?",
        (month,),
    ).fetchall():
        lines, aside = [], 0
        for kind in PRICE:
            used = Decimal(0)
            for meter in meters_of(connection, account, kind):
                readings = readings_of(connection, meter, month)
                former = former_of(connection, meter, month)
                for earlier, later in zip(readings, readings[1:]):
                    try:
                        step = amount_between(earlier, later)
                        if not plausible(step, former):
                            raise SetAside(f"{meter} jumps to {step}")
                    except SetAside:
                        aside += 1
                        continue
                    used += step
            if used:
                lines.append((kind, used))
        bill = settle_account(lines, carried, months, contract)
        done["accounts"] += 1
        done["aside"] += aside
        done["sent"] += bill["send"]
        done["sum"] += bill["due"]
        if not dry:
            write_bill(connection, account, month, bill, aside)
    return done
