"""Real servers on loopback that a DVC remote can lie on: a folder, sshd, OpenStack Swift with its S3 API, WsgiDAV.

Each is started for one test, keeps everything in a folder of that test and is gone afterwards. `.ci/services` installs them.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / ".venv-services" / "bin"
SSHD = Path("/usr/sbin/sshd")
KEY, SECRET = "test:tester", "testing"
"""Swift's own test account."""
TIMEOUT = 60.0


@dataclass(frozen=True)
class Remote:
    """Where a lab keeps its objects."""

    url: str
    settings: dict[str, str] = field(default_factory=dict)
    """What everyone shares, `dvc remote modify`."""
    secrets: dict[str, str] = field(default_factory=dict)
    """What each keeps to oneself, `dvc remote modify --local`."""
    write: Callable[[str, bytes], None] = lambda place, data: None
    """Put other bytes at a place of the remote, behind DVC's back."""
    delete: Callable[[str], None] = lambda place: None


def place(md5: str) -> str:
    """Where DVC keeps an object of that hash."""
    return f"files/md5/{md5[:2]}/{md5[2:]}"


def missing(kind: str) -> str | None:
    """Why a remote of that kind cannot be tried here; None where it can."""
    needed = {"ssh": [SSHD], "s3": [SCRIPTS / "swift-proxy-server"], "webdav": [SCRIPTS / "wsgidav"]}.get(kind, [])
    absent = [str(p) for p in needed if not p.is_file()]
    return f"{', '.join(absent)} is not installed; `.ci/services` installs it" if absent else None


@contextmanager
def serve(kind: str, folder: Path) -> Iterator[Remote]:
    """A remote of that kind whose server keeps its files in `folder`."""
    folder.mkdir(parents=True)
    with {"folder": _folder, "ssh": _ssh, "s3": _swift, "webdav": _webdav}[kind](folder) as remote:
        yield remote


@contextmanager
def _folder(folder: Path, **more: str) -> Iterator[Remote]:
    yield _on_disk(folder / "objects", str(folder / "objects"))


def _on_disk(objects: Path, url: str, **more: dict[str, str]) -> Remote:
    """A remote whose server keeps every object as a file of the same name."""
    objects.mkdir(exist_ok=True)

    def write(where: str, data: bytes) -> None:
        file = objects / where
        file.chmod(0o644)
        file.write_bytes(data)

    return Remote(url, write=write, delete=lambda where: (objects / where).unlink(), **more)


@contextmanager
def _ssh(folder: Path) -> Iterator[Remote]:
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd puts itself into a cage; a boot script would have made it
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    port = free_port()
    config = {
        "Port": port, "ListenAddress": "127.0.0.1", "HostKey": folder / "host", "PidFile": "none", "UsePAM": "no", "StrictModes": "no",
        "AuthorizedKeysFile": folder / "user.pub", "PasswordAuthentication": "no", "KbdInteractiveAuthentication": "no",
        "PermitRootLogin": "prohibit-password", "Subsystem": "sftp internal-sftp",
    }  # fmt: skip
    (folder / "sshd_config").write_text("".join(f"{key} {value}\n" for key, value in config.items()))
    with _server([str(SSHD), "-D", "-e", "-f", str(folder / "sshd_config")], port, folder / "sshd.log"):
        objects = folder / "objects"
        secrets = {"user": getpass.getuser(), "keyfile": str(folder / "user")}
        yield _on_disk(objects, f"ssh://127.0.0.1:{port}{objects}", secrets=secrets)


@contextmanager
def _webdav(folder: Path) -> Iterator[Remote]:
    port = free_port()
    (folder / "dav" / "lab").mkdir(parents=True)
    people = {"user_mapping": {"*": {"ann": {"password": "ann's secret"}}}}
    config = {
        "host": "127.0.0.1", "port": port, "server": "cheroot", "provider_mapping": {"/": str(folder / "dav")},
        "http_authenticator": {"domain_controller": None}, "simple_dc": people, "logging": {"enable": False},
    }  # fmt: skip
    (folder / "wsgidav.yaml").write_text(yaml.safe_dump(config))
    with _server([str(SCRIPTS / "wsgidav"), "--config", str(folder / "wsgidav.yaml")], port, folder / "wsgidav.log"):
        secrets = {"user": "ann", "password": "ann's secret"}
        yield _on_disk(folder / "dav" / "lab", f"webdav://127.0.0.1:{port}/lab", secrets=secrets)


@contextmanager
def _swift(folder: Path) -> Iterator[Remote]:
    """Four processes and rings of one replica on one disk."""
    (folder / "disks" / "one").mkdir(parents=True)
    (folder / "cache").mkdir()
    ports = {name: free_port() for name in ("account", "container", "object", "proxy")}
    secret = hashlib.sha256(str(folder).encode()).hexdigest()
    (folder / "swift.conf").write_text(
        f"[swift-hash]\nswift_hash_path_suffix = {secret}\n[storage-policy:0]\nname = Policy-0\ndefault = yes\n"
    )
    with ExitStack() as stack:
        for name, port in ports.items():
            (folder / f"{name}.conf").write_text(_swift_config(folder, name, port))
            if name != "proxy":
                _ring(folder, name, port)
        for name, port in ports.items():
            command = [str(SCRIPTS / f"swift-{name}-server"), str(folder / f"{name}.conf")]
            stack.enter_context(_server(command, port, folder / f"{name}.log"))
        endpoint = f"http://127.0.0.1:{ports['proxy']}"
        import s3fs

        files = s3fs.S3FileSystem(key=KEY, secret=SECRET, endpoint_url=endpoint)
        files.mkdir("lab")
        yield Remote(
            "s3://lab/dvc",
            {"endpointurl": endpoint, "region": "us-east-1"},
            {"access_key_id": KEY, "secret_access_key": SECRET},
            write=lambda where, data: files.pipe(f"lab/dvc/{where}", data),
            delete=lambda where: files.rm(f"lab/dvc/{where}"),
        )


def _swift_config(folder: Path, name: str, port: int) -> str:
    shared = (
        f"[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {port}\nswift_dir = {folder}\nuser = {getpass.getuser()}\nworkers = 0\n"
        f"devices = {folder / 'disks'}\nmount_check = false\n"
    )
    if name != "proxy":
        return f"{shared}[pipeline:main]\npipeline = {name}-server\n[app:{name}-server]\nuse = egg:swift#{name}\n"
    filters = ["catch_errors", "gatekeeper", "cache", "s3api", "tempauth", "slo", "dlo", "symlink", "versioned_writes"]
    own = {
        "cache": "use = egg:swift#memcache\nmemcache_servers = 127.0.0.1:1\n",
        "s3api": "use = egg:swift#s3api\nauth_pipeline_check = false\n",
        "tempauth": f"use = egg:swift#tempauth\nuser_test_tester = {SECRET} .admin\n",
        "versioned_writes": "use = egg:swift#versioned_writes\nallow_object_versioning = true\n",
    }
    sections = "".join(f"[filter:{f}]\n{own.get(f, f'use = egg:swift#{f}' + chr(10))}" for f in filters)
    app = "[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\n"
    return f"{shared}[pipeline:main]\npipeline = {' '.join(filters)} proxy-server\n{app}{sections}"


def _ring(folder: Path, name: str, port: int) -> None:
    builder = str(folder / f"{name}.builder")
    steps = (["create", "4", "1", "0"], ["add", f"r1z1-127.0.0.1:{port}/one", "1"], ["rebalance"])
    for step in steps:
        done = subprocess.run([str(SCRIPTS / "swift-ring-builder"), builder, *step], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _server(command: list[str], port: int, log: Path) -> Iterator[None]:
    """A server process that answers on its port while the block runs, ended with all its children afterwards."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        _wait(process, port, log)
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        assert process.poll() is None, f"{process.args} ended: {log.read_text(errors='replace')}"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"{process.args} does not answer on port {port}: {log.read_text(errors='replace')}")
