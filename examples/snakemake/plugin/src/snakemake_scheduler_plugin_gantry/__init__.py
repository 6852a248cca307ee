"""Scheduler plugin of Snakemake 9: jobs start by upward rank, the longest first.

The rank of a job is its runtime plus the highest rank of the jobs that read its outputs (Topcuoglu, Hariri and Wu
2002, equation 8, without copies). The runtime of a rule is the median of its earlier jobs in .snakemake/metadata, else
its resource "runtime" in minutes, else the median of the other rules.

Each job gets the resource "gantry_tail": the seconds that the jobs after it take. A profile passes it to gantry sbatch
--tail, and the policy of the server then ranks jobs that it has not seen.
"""

import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from snakemake_interface_scheduler_plugins.base import SchedulerBase
from snakemake_interface_scheduler_plugins.settings import SchedulerSettingsBase


@dataclass
class SchedulerSettings(SchedulerSettingsBase):
    metadata: Optional[str] = field(
        default=None,
        metadata={"help": "Directory of the metadata of earlier jobs (default: .snakemake/metadata)"},
    )


def singles(job):
    """The jobs of a group, or the job itself."""
    jobs = getattr(job, "jobs", [job])  # a method by the interface, a property in Snakemake
    return list(jobs() if callable(jobs) else jobs)


def rule_of(job):
    """The name of a job's rule; jobs have it, although the interface does not name it."""
    rule = getattr(job, "rule", None)
    return getattr(rule, "name", rule)


class Scheduler(SchedulerBase):
    def __post_init__(self):
        directory = getattr(self.settings, "metadata", None) or ".snakemake/metadata"
        self.measured = median_runtimes(Path(directory))  # seconds by rule
        self.tails = {}  # seconds by job
        self.ranks = {}

    def dag_updated(self):
        """Computes the ranks of all jobs that still have to run."""
        jobs = [job for job in self.dag.needrun_jobs() if not self.dag.finished(job)]
        needed, children = set(jobs), {job: [] for job in jobs}
        for job in jobs:
            for parent in self.dag.job_dependencies(job):
                if parent in needed:
                    children[parent].append(job)
        runtimes = {job: self.runtime(job) for job in jobs}
        known = [s for s in runtimes.values() if s is not None]
        other = statistics.median(known) if known else 1.0
        self.tails, self.ranks = {}, {}
        waiting = list(jobs)
        while waiting:  # children first, without recursion
            job = waiting.pop()
            missing = [child for child in children[job] if child not in self.ranks]
            if missing:
                waiting += [job, *missing]
            elif job not in self.ranks:
                run = runtimes[job]
                self.tails[job] = max((self.ranks[child] for child in children[job]), default=0.0)
                self.ranks[job] = self.tails[job] + (other if run is None else run)

    def runtime(self, job):
        """The expected seconds of a job; None if nothing is known. A job without outputs only names targets."""
        if not list(job.output):
            return 0.0
        if rule_of(job) in self.measured:
            return self.measured[rule_of(job)]
        minutes = job.scheduler_resources.get("runtime")
        return 60.0 * minutes if isinstance(minutes, (int, float)) and minutes > 0 else None

    def select_jobs(self, selectable_jobs, remaining_jobs, available_resources, input_sizes):
        """Selects jobs by rank, as long as the resources last; a smaller job may pass a larger one."""
        if any(job not in self.ranks for s in selectable_jobs for job in singles(s)):
            self.dag_updated()
        free, selected = dict(available_resources), []
        rank = {s: max((self.ranks.get(job, 0.0) for job in singles(s)), default=0.0) for s in selectable_jobs}
        for s in sorted(selectable_jobs, key=lambda s: (-s.priority, -rank[s])):
            need = {k: v for k, v in s.scheduler_resources.items() if isinstance(v, (int, float)) and k in free}
            if any(v > free[k] for k, v in need.items()):
                continue
            for k, v in need.items():
                free[k] -= v
            selected.append(s)
            for job in singles(s):
                if "gantry_tail" not in job.scheduler_resources:
                    job.add_aux_resource("gantry_tail", round(self.tails.get(job, 0.0)))
        return selected


def median_runtimes(directory):
    """The median runtime of each rule, in seconds, by the metadata of Snakemake."""
    runs = {}
    for path in sorted(directory.rglob("*")) if directory.is_dir() else []:
        try:
            record = json.loads(path.read_text())
            runs.setdefault(record["rule"], []).append(float(record["endtime"]) - float(record["starttime"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a directory, or a record without times
    return {rule: statistics.median(r) for rule, r in runs.items()}
