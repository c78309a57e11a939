"""Which processes the stack is made of: their commands, environments, probes and order."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deploy.local import postgres, readiness, valkey
from deploy.local.configuration import HOST, Configuration
from deploy.local.credentials import Credentials
from deploy.local.layout import Layout
from deploy.local.processes import ProcessSpec, StepSpec
from deploy.local.seed import Seed
from deploy.local.seed import environment as environment_of

_POSTGRES, _VALKEY, _CONTROL_PLANE, NODE_STAGE, _AGENT = range(5)
_CONTROLLER = f"controller@{HOST}"
_INSTALL_LIMIT_S = 3600.0
_WEB_STOP_S = "1"
_GATEWAY_GRACE_S = "1.5"
_CONTROL_PLANES_OWN = frozenset({"TOKENYARD_DATABASE_URL", "TOKENYARD_SECRET_KEY", "TOKENYARD_SNAPSHOT_KEY"})


@dataclass(frozen=True, kw_only=True)
class Programme:
    configuration: Configuration
    layout: Layout
    credentials: Credentials
    postgres: postgres.Postgres
    valkey: valkey.Valkey

    def services(self) -> list[ProcessSpec]:
        return [
            ProcessSpec(
                name="postgres",
                stage=_POSTGRES,
                command=self.postgres.command(),
                environment=self.postgres.environment,
                directory=self.postgres.data,
                is_ready=readiness.postgres_answers(self.postgres),
                stop_signal=signal.SIGINT,
                popen_options=self.postgres.account.popen_options(),
            ),
            ProcessSpec(
                name="valkey",
                stage=_VALKEY,
                command=self.valkey.command(),
                environment={"PATH": os.defpath},
                directory=self.layout.valkey,
                is_ready=readiness.valkey_answers(self.valkey),
                lock=lambda: valkey.lock(self.valkey),
            ),
        ]

    def engine_step(self, engine: str) -> StepSpec:
        command = _python("-m", "workers.engines.environments", "install", engine)
        return self._step("engine", command, is_shown=True, limit_s=_INSTALL_LIMIT_S)

    def manage_step(self, arguments: Sequence[str]) -> StepSpec:
        """Any command of manage.py, as one of the stack's processes."""
        return self._step("manage", self._manage(*arguments))

    def migrate_step(self) -> StepSpec:
        """It makes the role that web signs in as, and says which rows that may see."""
        step = self._step("migrate", self._manage("migrate", "--no-input"))
        return replace(step, environment={**step.environment, "TOKENYARD_WEB_DATABASE_URL": self._web_database_url})

    def seed_step(self, engine: str) -> StepSpec:
        return self._step("seed", self._manage("seed_demo", "--engine", engine, "--json", str(self.layout.seed)))

    def control_plane(self) -> list[ProcessSpec]:
        return [self._web(), self._controller(), self._beat()]

    def node(self, seed: Seed) -> list[ProcessSpec]:
        return [self._gateway(seed), self._agent(seed)]

    def _web(self) -> ProcessSpec:
        command = _python("-m", "uvicorn", "controlplane.asgi:application", "--host", HOST, "--no-access-log")
        command += ["--port", str(self.configuration.web_port), "--timeout-graceful-shutdown", _WEB_STOP_S]
        # Frames are small and many: deflating them costs more than it saves.
        command += ["--ws-per-message-deflate", "false"]
        is_ready = readiness.http_answers(f"{self.configuration.web_url}/healthz")
        environment = {"TOKENYARD_DATABASE_URL": self._web_database_url}
        return self._process("web", _CONTROL_PLANE, command, is_ready, environment)

    def _controller(self) -> ProcessSpec:
        command = _celery("worker", "-Q", "controller", "-n", _CONTROLLER, "--pool", "threads")
        command += ["--without-gossip", "--without-mingle"]
        is_ready = readiness.celery_answers(self.valkey.broker_url, _CONTROLLER)
        return self._process("controller", _CONTROL_PLANE, command, is_ready)

    def _beat(self) -> ProcessSpec:
        schedule = self.layout.var / "celerybeat-schedule"
        command = _celery("beat", "--schedule", str(schedule), "--pidfile", "")
        return self._process("beat", _CONTROL_PLANE, command, readiness.has_written(schedule))

    def _gateway(self, seed: Seed) -> ProcessSpec:
        command = _python("-m", "workers.gateway", "--node-dir", str(self.layout.node))
        command += ["--node-id", seed.node_id, "--grace-s", _GATEWAY_GRACE_S, "--take-over"]
        command += ["--port", str(self.configuration.gateway_port)]
        command += ["--admin-port", str(self.configuration.gateway_admin_port)]
        command += ["--processes", str(self.configuration.gateway_processes)]
        is_ready = readiness.http_answers(f"{self.configuration.admin_url}/healthz")
        return self._knowing_less(self._process("gateway", NODE_STAGE, command, is_ready))

    def _agent(self, seed: Seed) -> ProcessSpec:
        environment = environment_of(seed) | {
            "TOKENYARD_CONTROL_URL": f"ws://{HOST}:{self.configuration.web_port}/ws/agent/",
            "TOKENYARD_BROKER_URL": self.valkey.broker_url,
            "TOKENYARD_NODE_DIR": str(self.layout.node),
        }
        is_ready = readiness.celery_answers(self.valkey.broker_url, f"node.{seed.node_id}@{HOST}")
        command = _python("-m", "workers.agent")
        return self._knowing_less(self._process("agent", _AGENT, command, is_ready, environment))

    @property
    def _web_database_url(self) -> str:
        return self.postgres.url(user=postgres.WEB_USER, password=self.credentials.web_database_password)

    def _process(
        self,
        name: str,
        stage: int,
        command: list[str],
        is_ready: readiness.Probe,
        environment: Mapping[str, str] | None = None,
    ) -> ProcessSpec:
        return ProcessSpec(
            name=name,
            stage=stage,
            command=command,
            environment=self._environment() | dict(environment or {}),
            directory=self.configuration.root,
            is_ready=is_ready,
        )

    def _knowing_less(self, spec: ProcessSpec) -> ProcessSpec:
        """What strangers talk to, and what starts engines: of the control plane's own the agent has the broker only."""
        known = {name: value for name, value in spec.environment.items() if name not in _CONTROL_PLANES_OWN}
        return replace(spec, environment=known | {"TOKENYARD_VALKEY_URL": self.valkey.nodes_url})

    def _step(self, name: str, command: list[str], *, is_shown: bool = False, limit_s: float = 300.0) -> StepSpec:
        return StepSpec(
            name=name,
            command=command,
            environment=self._environment(),
            directory=self.configuration.root,
            is_shown=is_shown,
            limit_s=limit_s,
        )

    def _manage(self, *arguments: str) -> list[str]:
        return _python(str(self.configuration.root / "manage.py"), *arguments)

    def _environment(self) -> dict[str, str]:
        """Ours, without what would send a client to another Postgres or our own addresses to a proxy."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        direct = ",".join(filter(None, [os.environ.get("no_proxy", ""), HOST, "localhost"]))
        return inherited | {
            "no_proxy": direct,
            "NO_PROXY": direct,
            "DJANGO_SETTINGS_MODULE": "controlplane.settings.dev",
            "PYTHONUNBUFFERED": "1",
            "TOKENYARD_VAR": str(self.layout.var),
            "TOKENYARD_DATABASE_URL": self.postgres.url(),
            "TOKENYARD_VALKEY_URL": self.valkey.url,
            "TOKENYARD_NODE_VALKEY_URL": self.valkey.nodes_url,
            "TOKENYARD_SECRET_KEY": self.credentials.secret_key,
            "TOKENYARD_SNAPSHOT_KEY": self.credentials.snapshot_key,
            "TOKENYARD_WEB_URL": self.configuration.web_url,
            "TOKENYARD_GATEWAY_URL": self.configuration.gateway_url,
            "TOKENYARD_WEB_PORT": str(self.configuration.web_port),
            "TOKENYARD_GATEWAY_PORT": str(self.configuration.gateway_port),
            "TOKENYARD_GATEWAY_ADMIN_PORT": str(self.configuration.gateway_admin_port),
            "TOKENYARD_ENGINE_PORT_BASE": str(self.configuration.engine_port_base),
        }


def locate(configuration: Configuration, layout: Layout, credentials: Credentials) -> Programme:
    return Programme(
        configuration=configuration,
        layout=layout,
        credentials=credentials,
        postgres=postgres.locate(layout.postgres, password=credentials.database_password),
        valkey=valkey.locate(layout.valkey, password=credentials.valkey_password),
    )


def prepare(programme: Programme) -> None:
    postgres.prepare(programme.postgres)
    valkey.prepare(programme.valkey)


def _python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def _celery(*arguments: str) -> list[str]:
    return _python("-m", "celery", "-A", "controlplane", *arguments)


def project_root() -> Path:
    return Path(__file__).resolve().parents[2]
