"""Tests the plugin against the interface's published names, with stubs where the package is not installed."""

import base64
import json
import sys
import tempfile
import types
import unittest
from pathlib import Path

try:
    import snakemake_interface_scheduler_plugins.base
except ImportError:
    class SchedulerBase:
        def __init__(self, dag, settings, logger):
            self.dag, self.settings, self.logger = dag, settings, logger
            self.__post_init__()

    package = "snakemake_interface_scheduler_plugins"
    sys.modules[package] = types.ModuleType(package)
    for name, value in {"base": ("SchedulerBase", SchedulerBase), "settings": ("SchedulerSettingsBase", object)}.items():
        module = types.ModuleType(f"{package}.{name}")
        setattr(module, *value)
        sys.modules[f"{package}.{name}"] = module

sys.path.insert(0, str(Path(__file__).parent / "src"))
import snakemake_scheduler_plugin_gantry as plugin


class Job:
    def __init__(self, rule, minutes=None, priority=0, **resources):
        self.rule, self.priority, self.output = rule, priority, [] if rule == "all" else [rule]
        self.scheduler_resources = {"_cores": 1, "tmpdir": "/tmp", **resources}
        if minutes is not None:
            self.scheduler_resources["runtime"] = minutes

    def add_aux_resource(self, name, value):
        assert name not in self.scheduler_resources
        self.scheduler_resources[name] = value


class Group:
    priority = 0

    def __init__(self, *members):
        self.members, self.scheduler_resources = members, {"_cores": 1}

    def jobs(self):
        return self.members


class Dag:
    def __init__(self, parents):
        self.parents, self.done = parents, set()

    def needrun_jobs(self):
        return iter(self.parents)

    def job_dependencies(self, job):
        return self.parents[job]

    def finished(self, job):
        return job in self.done


class Plugin(unittest.TestCase):
    def setUp(self):
        self.trim, self.align, self.quality = Job("trim", 2), Job("align", 30), Job("quality", 10)
        self.report, self.all = Job("report"), Job("all")
        self.dag = Dag({self.all: [self.report, self.quality], self.report: [self.align], self.align: [self.trim],
                        self.quality: [], self.trim: []})

    def scheduler(self, metadata="/nowhere"):
        settings = plugin.SchedulerSettings()
        settings.metadata = metadata
        return plugin.Scheduler(self.dag, settings, None)

    def select(self, scheduler, jobs, **free):
        return scheduler.select_jobs(jobs, list(self.dag.parents), free, {})

    def test_ranks(self):
        s = self.scheduler()
        s.dag_updated()
        # The report, of which nothing is known, counts as the median of the others: 360 of 0, 120, 600 and 1800 s.
        self.assertEqual([s.ranks[j] for j in (self.all, self.report, self.quality, self.align, self.trim)],
                         [0, 360, 600, 2160, 2280])
        self.assertEqual(self.select(s, [self.quality, self.trim], _cores=1), [self.trim])
        self.assertEqual(self.trim.scheduler_resources["gantry_tail"], 2160)
        self.assertNotIn("gantry_tail", self.quality.scheduler_resources)
        self.assertEqual(self.select(s, [self.quality, self.trim], _cores=2), [self.trim, self.quality])

    def test_resources_and_priorities(self):
        s = self.scheduler()
        self.trim.scheduler_resources["_cores"] = 4
        self.assertEqual(self.select(s, [self.trim, self.quality], _cores=2), [self.quality])
        self.assertEqual(self.select(s, [self.trim], _cores=2), [])
        self.quality.priority = 1
        self.assertEqual(self.select(s, [self.trim, self.quality], _cores=4), [self.quality])

    def test_measured_runtimes_and_groups(self):
        with tempfile.TemporaryDirectory() as directory:
            for n, seconds in enumerate([10, 12, 4000]):
                path = Path(directory, base64.b64encode(b"trim%d" % n).decode())
                path.write_text(json.dumps({"rule": "trim", "starttime": 100.5, "endtime": 100.5 + seconds}))
            Path(directory, "bad").write_text("{")
            Path(directory, "pending").write_text('{"rule": "trim", "starttime": 3, "endtime": null}')
            s = self.scheduler(directory)
        self.assertEqual(s.measured, {"trim": 12})
        group = Group(self.trim, self.align)
        self.assertEqual(self.select(s, [self.quality, group], _cores=1), [group])
        self.assertEqual(self.align.scheduler_resources["gantry_tail"], s.ranks[self.report])

    def test_finished_jobs_and_long_chains(self):
        chain = [Job("step", 1) for _ in range(5000)]
        self.dag = Dag({job: chain[k - 1:k] for k, job in enumerate(chain)})
        s = self.scheduler()
        s.dag_updated()
        self.assertEqual(s.ranks[chain[0]], 5000 * 60)
        self.dag.done = set(chain[:4999])
        s.dag_updated()
        self.assertEqual(list(s.ranks), [chain[4999]])


unittest.main()
