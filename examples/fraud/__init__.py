"""Payments by card: alerts within milliseconds, and afterwards which of them were right.

Each alert is a rule over one transaction. `far_from_phone` looks at nothing else, `velocity` and
`new_card` at the transactions of the card before it, and `high_amount` at the row of the card in
the view `by_card` as well. The speed layer judges each transaction as it comes. The batch layer
judges all of them again, and knows everything that came before: `new_card` is what it withdraws,
because a card whose earlier transactions had not been read was not new.

No rule is right about everything. Someone who taps twice is not a thief, and a thief who waits
twenty seconds is not seen: `trilayer demo fraud` shows for each alert how many of its alerts are of
frauds, and how many of the frauds it has found.

`python -m examples.fraud.truth FOLDER` generates transactions to replay, with frauds among them.
"""

from trilayer import (
    Alert,
    Catalog,
    Query,
    Stream,
    View,
    count,
    latest,
    max_,
    quantiles,
    session,
    sum_,
    tumbling,
)

# The key of each record is the card, so that the transactions of a card are in one partition, in
# their order. The position of the holder's phone is NULL if the phone is off.
transactions = Stream(
    "transactions",
    schema="""
        id string not null,
        card string not null,
        holder string not null,
        amount decimal(10,2) not null,
        merchant string not null,
        terminal_lat double not null from 'terminal.lat',
        terminal_lon double not null from 'terminal.lon',
        phone_lat double from 'phone.lat',
        phone_lon double from 'phone.lon',
        paid_at timestamp not null
    """,
    event_time="paid_at",
    event_id="id",
    record_key="card",
)

by_card = View(
    "by_card",
    source=transactions,
    key=["card"],
    aggregates={
        "transactions": count(),
        "total": sum_("amount"),
        "max_amount": max_("amount"),
        "last_merchant": latest("merchant", by="paid_at"),
        "last_paid_at": max_("paid_at"),
    },
)

by_minute = View(
    "by_minute",
    source=transactions,
    key={"minute": tumbling("paid_at", "1 minute")},
    aggregates={"transactions": count(), "total": sum_("amount"), "largest": max_("amount")},
)

merchants = View(
    "merchants",
    source=transactions,
    key=["merchant"],
    aggregates={
        "transactions": count(),
        "total": sum_("amount"),
        "amounts": quantiles("amount", [0.5, 0.9, 0.99]),
    },
)

# What a card pays without a pause of an hour.
outings = View(
    "outings",
    source=transactions,
    key={"card": "card", "outing": session("paid_at", "1 hour")},
    aggregates={"transactions": count(), "total": sum_("amount"), "largest": max_("amount")},
)

# Another payment within ten seconds, or the third one within thirty. The difference may have either
# sign, because a terminal that was offline sends its transactions late.
velocity = Alert(
    "velocity",
    source=transactions,
    key=["card"],
    last=2,
    rule="""
        paid_at BETWEEN last[0].paid_at - INTERVAL 10 SECONDS
                    AND last[0].paid_at + INTERVAL 10 SECONDS
        OR paid_at BETWEEN last[1].paid_at - INTERVAL 30 SECONDS
                       AND last[1].paid_at + INTERVAL 30 SECONDS
    """,
)

# The profile is as old as the publication that it comes from. What the card has paid since then is
# in `last`, as far as that reaches; `greatest` ignores NULLs.
high_amount = Alert(
    "high_amount",
    source=transactions,
    key=["card"],
    last=2,
    profile=by_card,
    rule="""
        profile.transactions >= 5
        AND amount > 3 * greatest(profile.max_amount, last[0].amount, last[1].amount)
    """,
)

# The distance on a sphere (haversine formula), in kilometres.
DISTANCE_KM = """
    2 * 6371 * asin(sqrt(
        power(sin(radians(phone_lat - terminal_lat) / 2), 2)
        + cos(radians(terminal_lat)) * cos(radians(phone_lat))
            * power(sin(radians(phone_lon - terminal_lon) / 2), 2)))
"""

far_from_phone = Alert(
    "far_from_phone", source=transactions, key=["card"], rule=f"{DISTANCE_KM} > 300"
)

# Memory matters here: without the card's earlier transactions, each card is a new one.
new_card = Alert(
    "new_card",
    source=transactions,
    key=["card"],
    last=1,
    rule="size(last) = 0 AND amount > 500",
)

ALERTS = [velocity, high_amount, far_from_phone, new_card]

biggest_outings = Query(
    "biggest_outings",
    """
    select card, outing, transactions, total, largest
    from outings
    order by total desc, card, outing
    limit 5
    """,
)

dearest_merchants = Query(
    "dearest_merchants",
    """
    select merchant, transactions, total, [round(a, 2) for a in amounts] as amounts
    from merchants
    order by total desc, merchant
    limit 5
    """,
)

# How many alerts of each kind are early (the batch layer has not judged the transaction yet),
# confirmed, withdrawn or added by it.
alert_states = Query(
    "alert_states",
    " union all ".join(
        f"select '{alert.name}' as alert, state, count(*) as n from alerts.{alert.name}"
        " group by state"
        for alert in ALERTS
    )
    + " order by alert, state",
)

# Why the layers do not agree.
disagreements = Query(
    "disagreements",
    " union all ".join(
        f"select '{alert.name}' as alert, state, why, count(*) as n"
        f" from alerts.{alert.name} where state in ('withdrawn', 'added') group by all"
        for alert in ALERTS
    )
    + " order by alert, state, n desc, why",
)

catalog = Catalog(
    views=[by_card, by_minute, merchants, outings],
    queries=[biggest_outings, dearest_merchants, alert_states, disagreements],
    alerts=ALERTS,
)
