"""What a person pastes on a machine to make it a node."""

IMAGE = "tokenyard"
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
            f"docker run -d --gpus all --network host -v tokenyard:/var/lib/tokenyard {IMAGE} "
            f"python -m workers.agent.join --join {join} --directory /var/lib/tokenyard"
        ),
        "systemd_unit": _UNIT.format(join=join),
    }
