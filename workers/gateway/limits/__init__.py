"""Limits that hold across all gateways: leased shares of each account, settled exactly.

rulebook.py   who a request is, and which limits that means     account.py   one limit of one subject, as held here
authority.py  the messages between gateways and authority,      authority.lua  the same in Valkey, for many gateways
              and one in this process, for a gateway alone
ledger.py     all accounts of this gateway: reserve, settle     estimates.py what a request may use, before it is known
link.py       asks the authority, in the background             admission.py a request that waits for a share
refusals.py   what clients are told                             figures.py   what metrics read

Everything but link.py and admission.py is told the time and does no I/O. docs/howto/limits.md says what holds.
"""
