"""What today's routers and gateways do, kept as options and as the mark to beat.

router.py   the scheduler they are made into     pickers.py  where a request goes
gates.py    when an endpoint takes more          orders.py   who is next        sheds.py  who is refused
"""
