"""What a person pastes on a machine to make it a node."""

# As docker-compose.yml names and builds it. Its user may write below /state, and a volume there takes that owner.
IMAGE = "tokenyard:local"
_CONTAINER_DIRECTORY = "/state/agent"
_UNIT = """[Unit]
Description=Tokenyard agent
After=network-online.target
Wants=network-online.target

[Service]
WorkingDirectory=/opt/tokenyard
ExecStart=/opt/tokenyard/.venv/bin/python -m workers.agent.join --join {join} --directory /var/lib/tokenyard
Restart=always
RestartSec=2
# Engines are not children of a restart: they serve on, and the next agent knows them again.
KillMode=process

[Install]
WantedBy=multi-user.target
"""


def lines_for(token: str, *, web_url: str) -> dict[str, str]:
    """The same machine started again needs no new token: it keeps what the first start was given."""
    join = f"{token}@{web_url}"
    return {
        "make_line": f"make agent JOIN={join}",
        "container_line": (
            "docker run -d --name tokenyard-agent --restart unless-stopped --init --gpus all --network host --ipc host "
            f"-v tokenyard-agent:/state {IMAGE} "
            f"python -m workers.agent.join --join {join} --directory {_CONTAINER_DIRECTORY}"
        ),
        "systemd_unit": _UNIT.format(join=join),
    }
