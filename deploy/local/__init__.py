"""The local stack: Postgres, Valkey and every Tokenyard process on one machine, under one supervisor."""
