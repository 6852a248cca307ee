"""Starts simulations and runs of gantry, and reads its log. The standard library is all that it needs.

    import gantry
    run = gantry.simulate("examples/montage/montage-25.dax", policy="heft", cluster="examples/heft/cluster.yaml")
    run.makespan_s, run.tasks()[0]["node"], run.table("v_attempts")      # lists of dictionaries
    run.frame("v_tasks").groupby("kind").runtime_s.mean()                # with pandas

Options are those of the command line, with _ in place of -: time_scale=0.1, fit=True, resource=["licence=2"].
"""

import json
import os
import shutil
import sqlite3
import subprocess


class Failure(Exception):
    """A command of gantry that ended with an exit code that is not 0; code and text say why."""

    def __init__(self, code, text):
        super().__init__(text.strip() or f"exit code {code}")
        self.code, self.text = code, text


def program():
    """The path of gantry: GANTRY, bin/gantry of this tree, or the one of PATH."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bin", "gantry")
    found = os.environ.get("GANTRY") or (here if os.path.exists(here) else shutil.which("gantry"))
    if not found:
        raise FileNotFoundError("there is no gantry: install it, build it (make build), or name it in GANTRY")
    return found


def words(options):
    """Options as words of a command line. False and None leave an option out."""
    out = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for x in value if isinstance(value, (list, tuple)) else [value]:
            if x is True:
                out.append(flag)
            elif x is not None and x is not False:
                out.append(f"{flag}={x}")
    return out


def call(command, *arguments, fails=(), **options):
    """Runs a command of gantry and returns its standard output. Exit codes of fails are no Failure."""
    paths = ["./" + str(a) if str(a).startswith("-") else str(a) for a in arguments]
    done = subprocess.run([program(), command, *words(options), *paths], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0 and done.returncode not in fails:
        raise Failure(done.returncode, done.stderr)
    return done.stdout


class Run:
    """A run of the log. Times in columns that end with _s are seconds since it began."""

    def __init__(self, name, dir="gantry-runs"):
        self.name, self.dir = name, dir

    def sql(self, query, *values):
        """Rows of a query over the log, as dictionaries."""
        uri = "file:" + os.path.abspath(os.path.join(self.dir, "gantry.sqlite")).replace("%", "%25").replace("?", "%3f")
        log = sqlite3.connect(uri + "?mode=ro", uri=True)
        try:
            log.row_factory = sqlite3.Row
            return [dict(row) for row in log.execute(query, values)]
        finally:
            log.close()

    def table(self, view):
        """The rows of this run in a view of the log; sqlite/FORMAT.md describes them."""
        if not view.replace("_", "").isalnum():
            raise ValueError(f"{view!r} is no name of a view")
        return self.sql(f"SELECT * FROM {view} WHERE run = ?", self.name)

    def tasks(self):
        return self.table("v_tasks")

    def metrics(self):
        """Metrics of the run by name."""
        return {row["name"]: row["value"] for row in self.table("v_metrics")}

    def frame(self, view):
        """The same as a data frame of pandas."""
        import pandas
        return pandas.DataFrame(self.table(view))

    @property
    def makespan_s(self):
        return self.sql("SELECT makespan_ns / 1e9 AS s FROM runs WHERE name = ?", self.name)[0]["s"]

    def __repr__(self):
        return f"gantry.Run({self.name!r}, {self.dir!r})"


def begin(command, traces, options):
    options.setdefault("dir", "gantry-runs")
    out = json.loads(call(command, *traces, fails=(1,), json=True, **options))
    return Run(out["run"], options["dir"])


def simulate(*traces, **options):
    """Simulates workflows, as gantry simulate does."""
    return begin("simulate", traces, options)


def run(*traces, **options):
    """Runs workflows in containers, as gantry run does. Tasks that fail are in the log, and raise nothing."""
    return begin("run", traces, options)


def experiment(file, output, **options):
    """Runs an experiment file; returns the means of its metrics (view v_intervals of the results)."""
    call("experiment", file, output=output, **options)
    log = sqlite3.connect(output)
    try:
        log.row_factory = sqlite3.Row
        return [dict(row) for row in log.execute("SELECT * FROM v_intervals")]
    finally:
        log.close()
