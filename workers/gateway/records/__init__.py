"""What a request used: counted while it runs, journalled, and recorded exactly once.

tally.py       what one request has used by now       metering.py    usage → record and cost
journal.py     what is under way, for after a kill    spool.py       records → disk, before the last byte leaves
prompts.py     kept prompts, of tenants that ask
"""
