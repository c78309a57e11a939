"""The database's own wall between tenants, put up again after each migration: policies on every table of tenants.

The web processes sign in as a role that owns nothing. A table with a `tenant_id` shows it only rows of the tenants that
the transaction has named (rows.py). A new table is covered without a line of its own; what it cannot do, like changing
the audit trail, is not granted. Rows that hang on a tenant's are seen with them (PARTS_OF); rows that may be about any
tenant and name none are for those who see every tenant (OF_ALL_TENANTS).
"""

from typing import Any

from django.conf import settings
from django.db import connection
from psycopg import sql

from apps.common.rows import EVERY, SETTING

TENANTS = "tenants_tenant"
APPEND_ONLY = ("audit_auditentry",)
NOTED_BY_TRIGGERS = ("rest_change",)  # also of rows that who changed them may not see
SHARED_DEFAULTS = ("limits_limit",)  # a row without a tenant holds for all, so that all may read it
READ_ONLY = ("django_migrations",)
PARTS_OF = {"usage_budgetalert": ("budget_id", "usage_budget")}
OF_ALL_TENANTS = ("usage_quarantinedrecord", "usage_total")
_TABLES = """
SELECT c.relname, format_type(a.atttypid, NULL)
FROM pg_class c LEFT JOIN pg_attribute a
  ON a.attrelid = c.oid AND a.attname = CASE WHEN c.relname = %s THEN 'id' ELSE 'tenant_id' END AND NOT a.attisdropped
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
ORDER BY c.relname
"""


def secure_tables(**_: Any) -> None:
    """After `migrate`, as the owner. Doing it again changes nothing."""
    with connection.cursor() as cursor:
        _ensure_role(cursor)
        cursor.execute(_TABLES, [TENANTS])
        for table, kind in cursor.fetchall():
            _grant(cursor, table)
            if (visible := _visible_rows(table, kind)) is not None:
                _fence(cursor, table, visible)
        role = sql.Identifier(settings.WEB_DATABASE_ROLE)
        cursor.execute(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(role))
        cursor.execute(sql.SQL("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {}").format(role))


def _ensure_role(cursor: Any) -> None:
    """With the password of TOKENYARD_WEB_DATABASE_URL; without one nobody can sign in as it."""
    role, password = sql.Identifier(settings.WEB_DATABASE_ROLE), settings.WEB_DATABASE_PASSWORD
    cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [settings.WEB_DATABASE_ROLE])
    if cursor.fetchone() is None:
        cursor.execute(sql.SQL("CREATE ROLE {} NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS").format(role))
    if password:
        cursor.execute(sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(password)))


def _grant(cursor: Any, table: str) -> None:
    rights = "SELECT, INSERT, UPDATE, DELETE"
    if table in APPEND_ONLY:
        rights = "SELECT, INSERT"
    elif table in READ_ONLY:
        rights = "SELECT"
    names = {"table": sql.Identifier(table), "role": sql.Identifier(settings.WEB_DATABASE_ROLE)}
    cursor.execute(sql.SQL("REVOKE ALL ON {table} FROM {role}").format(**names))
    cursor.execute(sql.SQL("GRANT " + rights + " ON {table} TO {role}").format(**names))


def _fence(cursor: Any, table: str, visible: sql.Composed) -> None:
    """An audit entry is written by whoever acts, also about what is no tenant's."""
    name = sql.Identifier(table)
    cursor.execute(sql.SQL("ALTER TABLE {0} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY").format(name))
    for policy in ("tenant_rows", "tenant_rows_added", "tenant_defaults"):
        cursor.execute(sql.SQL("DROP POLICY IF EXISTS {} ON {}").format(sql.Identifier(policy), name))
    if table in APPEND_ONLY + NOTED_BY_TRIGGERS:
        cursor.execute(sql.SQL("CREATE POLICY tenant_rows_added ON {} FOR INSERT WITH CHECK (true)").format(name))
    if table in APPEND_ONLY:
        cursor.execute(sql.SQL("CREATE POLICY tenant_rows ON {} FOR SELECT USING ({})").format(name, visible))
    else:
        cursor.execute(sql.SQL("CREATE POLICY tenant_rows ON {} USING ({})").format(name, visible))
    if table in SHARED_DEFAULTS:
        shared = sql.SQL("CREATE POLICY tenant_defaults ON {} FOR SELECT USING (tenant_id IS NULL)")
        cursor.execute(shared.format(name))


def _visible_rows(table: str, kind: str | None) -> sql.Composed | None:
    """Which rows of a table a transaction sees; None for all. `kind` is the type of its tenants' ids."""
    if table in PARTS_OF:
        column, whole = map(sql.Identifier, PARTS_OF[table])
        return sql.SQL("EXISTS (SELECT 1 FROM {1} AS whole WHERE whole.id = {0})").format(column, whole)
    if table in OF_ALL_TENANTS:
        return sql.SQL("(SELECT {}) = {}").format(_setting(), sql.Literal(EVERY))
    return None if kind is None else _rows_of_tenants("id" if table == TENANTS else "tenant_id", kind)


def _rows_of_tenants(column: str, kind: str) -> sql.Composed:
    """The setting is read, and taken apart, once per statement, hence the sub-selects."""
    return sql.SQL(
        "(SELECT {setting}) = {every} "
        "OR {column} = ANY ((SELECT string_to_array(nullif({setting}, {every}), ',')::{kind}[])::{kind}[])"
    ).format(setting=_setting(), every=sql.Literal(EVERY), column=sql.Identifier(column), kind=sql.SQL(kind))


def _setting() -> sql.Composed:
    return sql.SQL("current_setting({}, true)").format(sql.Literal(SETTING))
