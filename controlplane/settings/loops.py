"""How often each control loop runs, whatever wakes it in between. One that waits until its next turn is dropped."""

_EACH_S = {
    "placement.reconcile": 2,
    "routing.publish": 2,
    "fleet.check_liveness": 2,
    "limits.recount": 2,
    "limits.fetch_events": 2,
    "routing.run_experiments": 10,
    "usage.rerate": 10,
    "usage.meter_accelerators": 30,
    "usage.price_unpriced": 30,
    "usage.make_partitions": 60,
    "usage.share_engine_time": 60,
    "usage.watch_budgets": 60,
    "rest.forget": 60,
    "telemetry.forget_decisions": 600,
    "telemetry.forget_prompts": 600,
    "identity.forget_old": 600,
    "tenants.forget_expired_keys": 600,
    "usage.drop_old_partitions": 3600,
}
SCHEDULE = {
    name: {"task": name, "schedule": float(each_s), "options": {"expires": each_s}} for name, each_s in _EACH_S.items()
}
