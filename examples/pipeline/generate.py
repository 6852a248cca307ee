#!/usr/bin/env python3
"""Writes workflow.yml: the warmest month of seven weather stations, 15 jobs."""

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from pegasus import Workflow  # noqa: E402

stations = "coast east north south summit valley west".split()
w = Workflow("weather", "tools", "gantry/busybox")
for name in [f"{s}.txt" for s in stations] + ["months.awk", "report.sh"]:
    w.replica(name, name)
for name in "awk grep sh".split():
    w.program(name, f"/bin/{name}")
for s in stations:
    w.job("grep", ["-v", "-e", "-999", f"{s}.txt"], [f"{s}.txt"], [f"{s}.clean"], stdout=f"{s}.clean")
for s in stations:
    w.job("awk", ["-f", "months.awk", f"{s}.clean"], ["months.awk", f"{s}.clean"], [f"{s}.months"], stdout=f"{s}.months")
months = [f"{s}.months" for s in stations]
w.job("sh", ["report.sh"] + months, ["report.sh"] + months, results=["report.txt"], stdout="report.txt")
w.write(os.path.join(here, "workflow.yml"))
