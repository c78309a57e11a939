"""The database's own wall between tenants, put up again after each migration: policies on every table of tenants.

The web processes sign in as a role that owns nothing. A table with a `tenant_id` shows it only rows of the tenants that
the transaction has named (rows.py). A new table is covered without a line of its own; what it cannot do, like changing
the audit trail, is not granted.
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
            if kind:
                _fence(cursor, table, kind)
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


def _fence(cursor: Any, table: str, kind: str) -> None:
    """An audit entry is written by whoever acts, also about what is no tenant's."""
    name = sql.Identifier(table)
    cursor.execute(sql.SQL("ALTER TABLE {0} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY").format(name))
    for policy in ("tenant_rows", "tenant_rows_added", "tenant_defaults"):
        cursor.execute(sql.SQL("DROP POLICY IF EXISTS {} ON {}").format(sql.Identifier(policy), name))
    visible = _visible_rows("id" if table == TENANTS else "tenant_id", kind)
    if table in APPEND_ONLY + NOTED_BY_TRIGGERS:
        cursor.execute(sql.SQL("CREATE POLICY tenant_rows_added ON {} FOR INSERT WITH CHECK (true)").format(name))
    if table in APPEND_ONLY:
        cursor.execute(sql.SQL("CREATE POLICY tenant_rows ON {} FOR SELECT USING ({})").format(name, visible))
    else:
        cursor.execute(sql.SQL("CREATE POLICY tenant_rows ON {} USING ({})").format(name, visible))
    if table in SHARED_DEFAULTS:
        shared = sql.SQL("CREATE POLICY tenant_defaults ON {} FOR SELECT USING (tenant_id IS NULL)")
        cursor.execute(shared.format(name))


def _visible_rows(column: str, kind: str) -> sql.Composed:
    """The setting is read, and taken apart, once per statement, hence the sub-selects."""
    setting = sql.SQL("current_setting({}, true)").format(sql.Literal(SETTING))
    return sql.SQL(
        "(SELECT {setting}) = {every} "
        "OR {column} = ANY ((SELECT string_to_array(nullif({setting}, {every}), ',')::{kind}[])::{kind}[])"
    ).format(setting=setting, every=sql.Literal(EVERY), column=sql.Identifier(column), kind=sql.SQL(kind))
