"""Gantry's simulator as an environment for learning: reset and step, as in Gymnasium, with the standard library only.

    from gym import Gym

    with Gym(["--cluster", "nodes.yaml", "workload.yaml"]) as env:
        seen, info = env.reset(seed=1)
        done = False
        while not done:
            seen, reward, done, cut, info = env.step({"order": sorted(seen.ready)})

An episode is one gantry simulate. An observation is the Policy of base.py, which knows all that gantry has told so far. An
action is an answer of the protocol (docs/own-policies.md), or None for what start and plan_on of the observation
collected. The reward of a step is minus the seconds until the next round, times the workflows that were there: the sum
over an episode is minus the sum of the responses. A trained policy runs on containers unchanged: return the actions from
a method plan (base.py)."""

import json
import os
import socket
import subprocess
import tempfile

from base import Policy

GANTRY = os.environ.get("GANTRY", "gantry")


class Gym:
    def __init__(self, args, gantry=GANTRY, policy=Policy, params=""):
        self.args, self.gantry, self.policy, self.params = args, gantry, policy, params
        self.dir = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.dir.name, "policy")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(1)
        self.process = None

    def reset(self, seed=1):
        """Begins an episode; its first observation."""
        self.end()
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [self.gantry, "simulate", "--no-log", "--quiet", "--host-model", "none", "--seed", str(seed), "--policy",
             "exec:" + self.path + self.params] + self.args, stdout=subprocess.DEVNULL, stderr=self.errors)
        self.listener.settimeout(0.1)
        while True:
            try:
                self.peer = self.listener.accept()[0]
                break
            except socket.timeout:
                if self.process.poll() is not None:
                    self.process = None
                    raise RuntimeError(self.complaint()) from None
        self.peer.settimeout(None)
        self.lines = self.peer.makefile("r")
        self.seen, self.open, self.flow = self.policy(json.loads(self.lines.readline())), {}, {}
        self.say({"protocol": 1})
        self.hear()
        return self.seen, {}

    def step(self, action=None):
        """Answers a round: the next observation, the reward, whether the episode is over, False, and details."""
        before, there = self.seen.now, len(self.open)
        self.say(self.seen.answer if action is None else action)
        over = not self.hear()
        if over and self.process.wait() not in (0, 1):  # 1: tasks failed
            raise RuntimeError(self.complaint())
        return self.seen, -there * (self.seen.now - before) / 1e9, over, False, {}

    def say(self, message):
        try:
            self.peer.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        except BrokenPipeError:
            pass  # gantry has ended, and says why

    def hear(self):
        """Takes a message in; False if the episode is over."""
        line = self.lines.readline()
        if not line:
            return False
        said = json.loads(line)
        self.seen.hear(said)
        for flow in said.get("arrived", []) + said.get("grown", []):
            for task in flow["tasks"]:
                if "state" not in task:
                    self.flow[task["id"]] = flow["id"]
                    self.open.setdefault(flow["id"], set()).add(task["id"])
        for task in [f["task"] for f in said.get("finished", [])] + said.get("failed", []):
            flow = self.flow.pop(task)
            self.open[flow].discard(task)
            if not self.open[flow]:
                del self.open[flow]
        return True

    def complaint(self):
        self.errors.seek(0)
        return self.errors.read().strip()

    def end(self):
        if self.process:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
            self.process = None
            self.lines.close()
            self.peer.close()
            self.errors.close()

    def close(self):
        self.end()
        self.listener.close()
        self.dir.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
