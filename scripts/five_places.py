"""Where the story of five.py is told: one process, a cluster's gateway, and a PostgreSQL; their processes can be killed, and started again."""

import re
import signal
import socket
import subprocess
import sys
import time

STARTED = 60


class Process:
    """One of Alluvia's processes: started, killed, started again in its folder."""

    def __init__(self, command, log):
        self.command, self.log, self.process = command, log, None

    def start(self):
        with self.log.open("w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT)
        began = time.monotonic()
        while not re.search(r"^(  psql |ready$)", self.log.read_text(), re.MULTILINE):
            if self.process.poll() is not None or time.monotonic() - began > STARTED:
                sys.exit(f"{' '.join(map(str, self.command))} does not start: {self.log.read_text()[-3000:]}")
            time.sleep(0.02)
        return self

    def port(self):
        return int(re.search(r"^  psql .* -p (\d+)", self.log.read_text(), re.MULTILINE)[1])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                return self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        return None


class One:
    """One process, of one database."""

    kind = "one"

    def __init__(self, program, folder):
        self.data = folder / "db"
        self.server = Process([program, "serve", self.data, "--listen", "127.0.0.1:0", "--http-listen", "off", "--flight-listen", "off"], folder / "log").start()
        self.killed = [("the server", self.server)]

    def url(self):
        return f"postgresql://alluvia@127.0.0.1:{self.server.port()}/alluvia"

    def stop(self):
        return self.server.stop()


class Gateway:
    """A keeper, two workers and a gateway."""

    kind = "gateway"

    def __init__(self, program, folder):
        with socket.create_server(("127.0.0.1", 0)) as free:
            keeper = f"127.0.0.1:{free.getsockname()[1]}"
        self.data, self.nodes = folder, {}
        for name, role in (("keeper", "keeper"), ("first", "worker"), ("second", "worker"), ("gateway", "gateway")):
            links = ["--node-listen", keeper] if role == "keeper" else ["--join", keeper, "--secret-file", folder / "keeper" / "secret"]
            ports = ["--listen", "127.0.0.1:0", "--http-listen", "off", "--flight-listen", "off", "--set", "authentication=trust"] if role == "gateway" else []
            command = [program, "node", folder / name, "--roles", role, "--set", "memory_limit=1GB", *links, *ports]
            self.nodes[name] = Process(command, folder / f"{name}.log").start()
        self.killed = [(name, self.nodes[name]) for name in ("second", "keeper", "gateway")]

    def url(self):
        return f"postgresql://alluvia@127.0.0.1:{self.nodes['gateway'].port()}/alluvia"

    def stop(self):
        return max((node.stop() or 0 for node in reversed(self.nodes.values())), default=0)


class Peer:
    kind, data, killed = "peer", None, []

    def __init__(self, port):
        self.port = port

    def url(self):
        return f"postgresql://alluvia@127.0.0.1:{self.port}/postgres"

    def stop(self):
        return 0
