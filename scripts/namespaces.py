"""Three machines, each a network namespace, joined by a bridge: nodes with certificates, known by name, and links that are dropped.

Usage: namespaces.py PATH_TO_ALLUVIA [--seconds S]

Machine 1 is keeper and gateway, machine 2 a worker, machine 3 worker and gateway. Rows come through both gateways, two replicas of each shard,
one of which makes a batch durable. The link of machine 2 is dropped and comes back, then that of machine 3. Who writes through a gateway that
is cut off is refused, or does not know. Machine 2 gets another address, which only the table of hosts tells. Then all that was acknowledged must be there once, what nobody knows of whole or not at all, and both
gateways and all replicas must agree. Needs root and iproute2; it says so, and is not run, where they are not.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

BATCH = 200
CREATE = """CREATE TABLE sales (id BIGINT, gateway INT, batch BIGINT, price DECIMAL(10, 2))
WITH (placement = 'rows', shards = '6', replicas = '2', write_quorum = '1')"""
BEHIND = """SELECT count(*) FROM alluvia.nodes WHERE roles = 'worker'
AND (answers = 'NO' OR through < (SELECT max(version) FROM alluvia.batches))"""
DIFFERING = """SELECT count(*) FROM (SELECT shard FROM alluvia.replicas WHERE table_name = 'sales'
GROUP BY shard HAVING count(*) <> 2 OR min(rows) <> max(rows)) AS differing"""
# What is waited for: a node that starts, a statement, and workers that have been away.
STARTED, ANSWERED, CAUGHT_UP = 60, 90, 120


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Network:
    """A bridge in a namespace of its own, so that nothing of this machine's network changes, and machines at it."""

    def __init__(self, machines, hosts):
        self.hosts, self.addresses = hosts, {machine: f"10.77.0.{machine}" for machine in machines}
        prefix = f"alluvia-{os.getpid()}"
        self.switch, self.names = f"{prefix}-switch", {machine: f"{prefix}-{machine}" for machine in machines}

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        for machine, name in self.names.items():
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", self.switch, "link", "add", f"port{machine}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", self.switch, "link", "set", f"port{machine}", "master", "bridge", "up")
            ip("-n", name, "address", "add", f"{self.addresses[machine]}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
        self.tell()

    def tell(self):
        """Writes the table of hosts, in place: machines have it mounted."""
        lines = [f"{address} machine-{machine}\n" for machine, address in self.addresses.items()]
        self.hosts.write_text("127.0.0.1 localhost\n" + "".join(lines))

    def move(self, machine, address):
        """Gives a machine another address instead of its own."""
        name = self.names[machine]
        # In this order: the first address of a network takes others with it when it goes.
        ip("-n", name, "address", "del", f"{self.addresses[machine]}/24", "dev", "eth0")
        ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        self.addresses[machine] = address
        self.tell()

    def __exit__(self, *_):
        for name in [*self.names.values(), self.switch]:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)

    def link(self, machine, state):
        """Ends or restores a machine's link at the bridge: the machine itself sees nothing but silence."""
        ip("-n", self.switch, "link", "set", f"port{machine}", state)

    def within(self, machine, *command):
        mounted = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return ["ip", "netns", "exec", self.names[machine], "sh", "-c", mounted, str(self.hosts), *command]


class Node:
    """A process on a machine; ended with what started it."""

    def __init__(self, network, machine, program, folder, *options):
        self.network, self.machine, self.program = network, machine, program
        self.log = folder / f"machine-{machine}.log"
        command = [program, "node", str(folder / f"machine-{machine}"), "--node-listen", "0.0.0.0:7400",
                   "--node-address", f"machine-{machine}:7400", "--certificates", str(folder / f"certificates-{machine}"), "--set", "memory_limit=512MB", "--listen", "127.0.0.1:5432",
                   "--http-listen", "off", "--flight-listen", "127.0.0.1:50051", "--set", "authentication=trust", *options]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(network.within(machine, *command), stdout=log, stderr=subprocess.STDOUT)
        began = time.monotonic()
        while not any(line.startswith("  psql ") or line == "ready" for line in self.said().splitlines()):
            if self.process.poll() is not None or time.monotonic() - began > STARTED:
                sys.exit(f"machine {machine} did not start: {self.said()}")
            time.sleep(0.05)
        lines = [line for line in self.said().splitlines() if "Flight SQL" in line]
        self.url = lines[0].split(" on ")[1].strip() if lines else None

    def said(self):
        return self.log.read_text()

    def ask(self, sql):
        """The rows of an answer, as lists of text; or why there is none, as a text."""
        command = self.network.within(self.machine, self.program, "sql", self.url, "--format", "csv", "-c", sql)
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWERED)
        if done.returncode != 0:
            return done.stderr.strip()
        return [line.split(",") for line in done.stdout.splitlines()[1:]]

    def number(self, sql):
        rows = self.ask(sql)
        assert isinstance(rows, list), f"machine {self.machine}: {rows}"
        return int(rows[0][0])

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Writer(threading.Thread):
    """Writes batches through a gateway until it is told to stop; knows which were acknowledged, and of which nobody knows."""

    def __init__(self, gateway):
        super().__init__(daemon=True)
        self.gateway, self.stopped = gateway, threading.Event()
        self.acknowledged, self.unknown, self.longest, self.why = [], [], 0.0, {}
        self.failure = None

    def run(self):
        try:
            batch = 0
            while not self.stopped.is_set():
                batch += 1
                machine, began = self.gateway.machine, time.monotonic()
                first = batch * BATCH
                found = self.gateway.ask(f"INSERT INTO sales SELECT i, {machine}, {batch}, i % 997 / 100.0 "
                                         f"FROM generate_series({first}, {first + BATCH - 1}) AS g(i)")
                self.longest = max(self.longest, time.monotonic() - began)
                if isinstance(found, str):
                    self.unknown.append(batch)
                    why = found.splitlines()[0][:160]
                    self.why[why] = self.why.get(why, 0) + 1
                else:
                    self.acknowledged.append(batch)
        except Exception as error:  # Shown at the end: a writer that has ended writes nothing.
            self.failure = error


def cut(network, machine, seconds, writers):
    """Drops a machine's link for some seconds; says what was acknowledged meanwhile."""
    before = [len(writer.acknowledged) for writer in writers]
    network.link(machine, "down")
    time.sleep(seconds)
    during = [len(writer.acknowledged) - count for writer, count in zip(writers, before)]
    network.link(machine, "up")
    told = ", ".join(f"{count} through machine {writer.gateway.machine}" for count, writer in zip(during, writers))
    print(f"the link of machine {machine} was down for {seconds:.0f} s: batches acknowledged meanwhile: {told}")
    return during


def whole(gateways, writers):
    """Everything that must hold when all is well again; gives how long workers took to follow."""
    began = time.monotonic()
    while True:
        behind = gateways[0].ask(BEHIND)
        if behind == [["0"]]:
            break
        assert time.monotonic() - began < CAUGHT_UP, f"workers have not caught up: {behind}"
        time.sleep(0.2)
    took = time.monotonic() - began
    question = "SELECT gateway, batch, count(*), count(DISTINCT id), sum(price) FROM sales GROUP BY gateway, batch ORDER BY gateway, batch"
    answers = [gateway.ask(question) for gateway in gateways]
    assert isinstance(answers[0], list), answers[0]
    assert answers[0] == answers[1], "the gateways do not agree"
    there = {(int(row[0]), int(row[1])): (int(row[2]), int(row[3])) for row in answers[0]}
    assert all(counts == (BATCH, BATCH) for counts in there.values()), f"batches in part, or twice: {there}"
    for writer in writers:
        machine = writer.gateway.machine
        lost = [batch for batch in writer.acknowledged if (machine, batch) not in there]
        assert not lost, f"lost of machine {machine}: {lost}"
        strange = {batch for of, batch in there if of == machine} - set(writer.acknowledged) - set(writer.unknown)
        assert not strange, f"never sent by machine {machine}: {strange}"
    differing = gateways[0].number(DIFFERING)
    assert differing == 0, f"{differing} shards have replicas that differ"
    return took, len(there)


def story(program, folder, seconds):
    def alluvia(*words):
        subprocess.run([program, "cluster", *words], check=True, stdout=subprocess.DEVNULL)

    alluvia("init", str(folder / "authority"), "--name", "namespaces")
    for machine in (1, 2, 3):
        alluvia("certificate", str(folder / "authority"), "--node", f"machine-{machine}", "--address", f"machine-{machine}", "--out",
                str(folder / f"certificates-{machine}"))
    nodes = []
    with Network((1, 2, 3), folder / "hosts") as network:
        try:
            join = ["--join", "machine-1:7400"]
            # The keeper before all others.
            nodes.append(Node(network, 1, program, folder, "--roles", "keeper,gateway"))
            nodes.append(Node(network, 2, program, folder, "--roles", "worker", *join))
            nodes.append(Node(network, 3, program, folder, "--roles", "worker,gateway", *join))
            gateways = [nodes[0], nodes[2]]
            made = gateways[0].ask(CREATE)
            assert isinstance(made, list), made
            writers = [Writer(gateway) for gateway in gateways]
            for writer in writers:
                writer.start()
            time.sleep(2)
            goes_on = cut(network, 2, seconds, writers)
            assert min(goes_on) > 0, "with one replica left, both gateways write"
            time.sleep(2)
            cut(network, 3, seconds, writers)
            back = [len(writer.acknowledged) for writer in writers]
            began = time.monotonic()
            while any(len(writer.acknowledged) <= count for writer, count in zip(writers, back)):
                assert time.monotonic() - began < CAUGHT_UP, "a gateway does not write again"
                time.sleep(0.1)
            print(f"both gateways write again {time.monotonic() - began:.1f} s after the links are back")
            network.move(2, "10.77.0.22")
            began = time.monotonic()
            # Counted by what it answers at its new address: all that was written meanwhile.
            while gateways[1].ask(BEHIND) != [["0"]]:
                assert time.monotonic() - began < CAUGHT_UP, "machine 2 is not found at its new address"
                time.sleep(0.5)
            print(f"machine 2 has another address, and was found there within {time.monotonic() - began:.1f} s")
            time.sleep(2)
            for writer in writers:
                writer.stopped.set()
            for writer in writers:
                writer.join(ANSWERED)
                assert writer.failure is None and not writer.is_alive(), f"a writer: {writer.failure}"
            took, batches = whole(gateways, writers)
            for writer in writers:
                print(f"machine {writer.gateway.machine}: {len(writer.acknowledged)} batches acknowledged, of {len(writer.unknown)} nobody knows, "
                      f"the longest took {writer.longest:.1f} s; {json.dumps(writer.why)}")
            print(f"{batches} batches of {BATCH} rows are there once; workers had followed after {took:.1f} s; gateways and replicas agree")
        except BaseException:
            for node in nodes:
                print(f"--- machine {node.machine}\n{node.said()[-4000:]}", file=sys.stderr)
            raise
        finally:
            for node in reversed(nodes):
                node.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=15, help="how long a link is down")
    args = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("ip") is None:
        print("namespaces: not run, for it needs root and the program ip (Debian's package is iproute2)")
        return
    with tempfile.TemporaryDirectory() as folder:
        story(str(pathlib.Path(args.program).resolve()), pathlib.Path(folder), args.seconds)


if __name__ == "__main__":
    main()
