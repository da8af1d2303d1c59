"""Reads the tables' compacted files from outside while a server runs, and compares.

    python3 tests/lake_external.py PROGRAM [SAMPLES]

Starts PROGRAM (fulmar) over a new folder, sends the samples, compacts, and reads
`tables/*/day=*/*.parquet` with whichever of pyarrow and duckdb is installed while more
events come in and days are replaced. Every row that `fulmar query` shows must be in the
files once, with the same values, and every read must be exact or fail: never doubled.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

TABLES = ("security_events", "messages")
COLUMNS = ("event_id", "log_partition", "log_offset")
# How often the tables are read while days are replaced beneath the readers.
READS_WHILE_REPLACED = 20


def readers():
    """The readers that are installed, by name: each gives the rows of a glob."""
    found = {}
    try:
        import pyarrow.parquet

        def by_pyarrow(folder):
            rows = []
            for path in sorted(folder.glob("day=*/*.parquet")):
                table = pyarrow.parquet.read_table(path, columns=list(COLUMNS), partitioning=None)
                rows += [tuple(row[name] for name in COLUMNS) for row in table.to_pylist()]
            return rows

        found["pyarrow"] = by_pyarrow
    except ImportError:
        pass
    try:
        import duckdb

        def by_duckdb(folder):
            pattern = f"{folder}/day=*/*.parquet"
            select = f"SELECT {', '.join(COLUMNS)} FROM read_parquet(?)"
            return duckdb.execute(select, [pattern]).fetchall()

        found["duckdb"] = by_duckdb
    except ImportError:
        pass
    if not found:
        sys.exit("neither pyarrow nor duckdb is installed")
    return found


class Server:
    """A server over a new folder, on ports of its own."""

    def __init__(self, program, folder):
        self.program, self.data = program, folder / "data"
        arguments = ["--public", "127.0.0.1:0", "--agents", "127.0.0.1:0", "--ops", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [program, "serve", "--data", self.data, *arguments],
            stderr=subprocess.PIPE,
            text=True,
        )
        for line in self.process.stderr:
            if line.startswith("ready "):
                break
        else:
            sys.exit(f"the server ended before it was ready: {self.process.wait()}")

    def run(self, *arguments):
        command = [self.program, *arguments, "--data", self.data]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr}")
        return done.stdout

    def send(self, door, form, path, *more):
        self.run("send", "--door", door, "--format", form, *more, path)

    def compact(self):
        # A query waits until what was acknowledged is stored; only then it is compacted.
        self.run("query", "SELECT 1")
        self.run("lake", "compact")

    def rows(self, table):
        sql = f"SELECT {', '.join(COLUMNS)} FROM {table}"
        answer = json.loads(self.run("query", "--format", "json", sql))
        return [tuple(row[name] for name in COLUMNS) for row in answer]

    def stop(self):
        self.process.terminate()
        self.process.stderr.close()
        return self.process.wait()


def compare(server, name, read):
    for table in TABLES:
        inside = sorted(server.rows(table))
        outside = sorted(read(server.data / "tables" / table))
        if not inside:
            sys.exit(f"{table} has no rows: nothing is compared")
        if inside != outside:
            missing = set(inside) - set(outside)
            foreign = set(outside) - set(inside)
            sys.exit(
                f"{name}: {table}: {len(inside)} rows inside, {len(outside)} outside; "
                f"missing {sorted(missing)[:3]}, foreign {sorted(foreign)[:3]}"
            )
        print(f"{name}: {table}: {len(outside)} rows, equal")


def read_while_replaced(server, name, read, events):
    """Each read is a subset of what is there, without a double, or fails."""
    exact = 0
    for turn in range(READS_WHILE_REPLACED):
        more = server.data.parent / f"more-{turn}.ndjson"
        line = {"type": "turn", "id": f"{name}-{turn}", "data": {"turn": turn}}
        more.write_text(json.dumps(line) + "\n")
        server.send("events", "ndjson", more)
        server.run("query", "SELECT 1")
        compaction = subprocess.Popen(
            [server.program, "lake", "compact", "--data", server.data],
            stdout=subprocess.DEVNULL,
        )
        try:
            rows = read(server.data / "tables" / events)
        except Exception as error:  # A day may be replaced between the glob and the read.
            print(f"{name}: a read failed: {type(error).__name__}")
        else:
            exact += 1
            if len(rows) != len(set(rows)):
                sys.exit(f"{name}: {len(rows) - len(set(rows))} rows are doubled")
        if compaction.wait() != 0:
            sys.exit("lake compact failed")
    if exact == 0:
        sys.exit(f"{name}: no read came through")
    print(f"{name}: {exact} of {READS_WHILE_REPLACED} reads beside compaction, none doubled")


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    samples = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "samples")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fulmar-"))
    server = Server(program, folder)
    try:
        server.send("agents", "sshd", samples / "sshd.log", "--rebase")
        server.send("events", "combined", samples / "access.log", "--rebase")
        server.send("events", "ndjson", samples / "events.ndjson")
        server.compact()
        for name, read in readers().items():
            compare(server, name, read)
            read_while_replaced(server, name, read, "messages")
            server.compact()
            compare(server, name, read)
    finally:
        status = server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if status != 0:
        sys.exit(f"the server ended with {status}")


if __name__ == "__main__":
    main()
